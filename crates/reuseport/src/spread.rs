//! How datagrams are spread over the members of a group, as a program for the kernel.

use std::io;

use crate::sys::Instruction;

/// How the kernel chooses the member of a [`ReusePortGroup`](crate::ReusePortGroup) that gets a datagram.
///
/// Each is a classic BPF program (`SO_ATTACH_REUSEPORT_CBPF`, Linux 4.5), which the kernel runs for each message; a system
/// without such programs has [`FLOW`](Self::FLOW) alone. Such a program has no memory, so it cannot take turns. To spread one heavy source, use
/// [`RANDOM`](Self::RANDOM), or take exact turns by a sequence number in the payload.
///
/// QUIC, with connection IDs whose first byte is the index of the member that chose them:
///
/// ```
/// use mmsg_reuseport::{Field, Spread};
/// let is_long_header = Field::u8(0).masked(0x80);
/// let spread = Spread::when(
///     is_long_header,
///     Spread::by(Field::u8(6)), // The ID follows the version and the ID's length.
///     Spread::by(Field::u8(1)),
/// );
/// # let _ = spread;
/// ```
///
/// A client chooses the ID of its first datagrams at random. All of these have the same ID, so one member gets them.
///
/// NetFlow version 9 in exact turns, by the sequence number of each exporter's datagrams:
///
/// ```
/// use mmsg_reuseport::{Field, Spread};
/// let spread = Spread::by(Field::u32(12));
/// # let _ = spread;
/// ```
#[doc(alias = "SO_ATTACH_REUSEPORT_CBPF")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Spread(Rule);

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
enum Rule {
    #[default]
    Flow,
    Cpu,
    Random,
    By(Field),
    When(Field, Box<Rule>, Box<Rule>),
}

impl Spread {
    /// By the kernel's hash of both addresses and ports: all datagrams of one peer go to one member, in order.
    /// One heavy peer fills one member.
    pub const FLOW: Self = Self(Rule::Flow);

    /// By the CPU that the datagram came in on: member = CPU modulo members. Use as many members as CPUs. The network
    /// device chooses the CPU, or the sender's thread on the same machine. While a peer's datagrams come in on one CPU,
    /// they go to one member.
    pub const CPU: Self = Self(Rule::Cpu);

    /// At random, each message by itself: the datagrams of one peer go to all members, in no order among
    /// them. Of `n` messages each of `m` members gets `n / m` messages, with a standard deviation of about sqrt(n / m):
    /// with 40,000 messages to each member, 0.5 %.
    pub const RANDOM: Self = Self(Rule::Random);

    /// By bytes of the payload: member = value modulo members. A datagram that is too short to have the
    /// field goes by flow.
    #[must_use]
    pub const fn by(field: Field) -> Self {
        Self(Rule::By(field))
    }

    /// By `then` if the field is not zero, and by `otherwise` if it is. A datagram that is too short to
    /// have the field goes by flow.
    #[must_use]
    pub fn when(field: Field, then: Self, otherwise: Self) -> Self {
        Self(Rule::When(field, Box::new(then.0), Box::new(otherwise.0)))
    }

    /// The program for this many members.
    pub(crate) fn program(&self, members: usize) -> io::Result<Vec<Instruction>> {
        let mut program = Vec::new();
        // Fits: each member has a descriptor.
        self.0.compile(members as u32, &mut program);
        if program.len() > MAX_INSTRUCTIONS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, TOO_LONG));
        }
        Ok(program)
    }
}

/// Bytes of a datagram's payload, as an unsigned number in network byte order (big-endian).
///
/// ```
/// use mmsg_reuseport::{Field, Spread};
/// // The first byte of a QUIC connection ID in a packet with a short header (RFC 9000, section 17.3.1).
/// let by_connection = Spread::by(Field::u8(1));
/// # let _ = by_connection;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a field does nothing until a Spread uses it"]
pub struct Field {
    offset: u16,
    /// 1, 2 or 4 bytes.
    len: u8,
    mask: u32,
}

impl Field {
    /// The byte at `offset`, from the beginning of the payload.
    pub const fn u8(offset: u16) -> Self {
        Self { offset, len: 1, mask: u32::MAX }
    }

    /// The two bytes at `offset`.
    ///
    /// ```
    /// use mmsg_reuseport::{Field, Spread};
    /// let spread = Spread::by(Field::u16(0)); // DNS queries by their ID
    /// # let _ = spread;
    /// ```
    pub const fn u16(offset: u16) -> Self {
        Self { offset, len: 2, mask: u32::MAX }
    }

    /// The four bytes at `offset`.
    ///
    /// ```
    /// use mmsg_reuseport::{Field, Spread};
    /// let by_sequence_number = Spread::by(Field::u32(12)); // NetFlow version 9
    /// # let _ = by_sequence_number;
    /// ```
    pub const fn u32(offset: u16) -> Self {
        Self { offset, len: 4, mask: u32::MAX }
    }

    /// Keeps the bits that are set in `mask` and shifts them to the right, so that the lowest bit of
    /// the mask is the lowest of the value: masked by `0x0ff0`, `0x1234` is `0x23`.
    ///
    /// ```
    /// use mmsg_reuseport::{Field, Spread};
    /// let by_low_bits = Spread::by(Field::u16(0).masked(0x000f)); // 16 values
    /// # let _ = by_low_bits;
    /// ```
    pub const fn masked(mut self, mask: u32) -> Self {
        self.mask = mask;
        self
    }
}

/// `BPF_MAXINSNS`, include/uapi/linux/bpf_common.h
const MAX_INSTRUCTIONS: usize = 4096;
const TOO_LONG: &str =
    "the spread has too many rules: its program is longer than the kernel's 4096 instructions";
/// No socket has this number, so the kernel chooses by flow (`reuseport_select_sock` in net/core/sock_reuseport.c).
const NO_MEMBER: u32 = u32::MAX;

// Opcodes of include/uapi/linux/bpf_common.h, and offsets of include/uapi/linux/filter.h.
const LOAD_U32: u16 = 0x20;
const LOAD_U16: u16 = 0x28;
const LOAD_U8: u16 = 0x30;
const LOAD_LEN: u16 = 0x80;
const AND: u16 = 0x54;
const SHIFT_RIGHT: u16 = 0x74;
const MODULO: u16 = 0x94;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_GREATER: u16 = 0x25;
const RETURN: u16 = 0x06;
const RETURN_VALUE: u16 = 0x16;
const CPU: u32 = NOT_PAYLOAD + 36;
const RANDOM: u32 = NOT_PAYLOAD + 56;
/// `SKF_AD_OFF`, -0x1000
const NOT_PAYLOAD: u32 = 0xffff_f000;

const fn plain(code: u16, k: u32) -> Instruction {
    Instruction { code, if_true: 0, if_false: 0, k }
}

impl Rule {
    /// Appends instructions that end in a return.
    fn compile(&self, members: u32, out: &mut Vec<Instruction>) {
        match self {
            Self::Flow => return out.push(plain(RETURN, NO_MEMBER)),
            Self::Cpu => out.push(plain(LOAD_U32, CPU)),
            Self::Random => out.push(plain(LOAD_U32, RANDOM)),
            Self::By(field) => field.compile(out),
            Self::When(field, then, otherwise) => {
                field.compile(out);
                // A conditional jump reaches 255 instructions, an unconditional one all.
                out.push(Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false: 1, k: 0 });
                let jump = out.len();
                out.push(plain(JUMP, 0));
                then.compile(members, out);
                // Relative to the next instruction. It fits: longer programs are rejected.
                out[jump].k = (out.len() - jump - 1) as u32;
                return otherwise.compile(members, out);
            }
        }
        out.extend([plain(MODULO, members), plain(RETURN_VALUE, 0)]);
    }
}

impl Field {
    /// Appends instructions that load the value, or return if the payload is too short. (The load
    /// itself would return 0 then, which is a member.)
    fn compile(self, out: &mut Vec<Instruction>) {
        let load = match self.len {
            1 => LOAD_U8,
            2 => LOAD_U16,
            _ => LOAD_U32,
        };
        let last = u32::from(self.offset) + u32::from(self.len) - 1;
        out.extend([
            plain(LOAD_LEN, 0),
            Instruction { code: JUMP_IF_GREATER, if_true: 1, if_false: 0, k: last },
            plain(RETURN, NO_MEMBER),
            plain(load, self.offset.into()),
        ]);
        if self.mask != u32::MAX {
            out.push(plain(AND, self.mask));
            // The kernel rejects shifts by 32.
            out.push(plain(SHIFT_RIGHT, self.mask.trailing_zeros() % 32));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The naive twin: the member that a rule chooses. `None` is "by flow".
    fn member(rule: &Rule, payload: &[u8], members: u32) -> Option<u32> {
        match rule {
            Rule::Flow => None,
            Rule::Cpu => Some(THIS_CPU % members),
            Rule::Random => Some(THIS_RANDOM % members),
            Rule::By(field) => Some(value(*field, payload)? % members),
            Rule::When(field, then, _) if value(*field, payload)? != 0 => {
                member(then, payload, members)
            }
            Rule::When(_, _, otherwise) => member(otherwise, payload, members),
        }
    }

    fn value(field: Field, payload: &[u8]) -> Option<u32> {
        let bytes = payload.get(field.offset.into()..)?.get(..field.len.into())?;
        let number = bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
        let lowest = (0..32).find(|bit| field.mask >> bit & 1 == 1).unwrap_or(0);
        Some((number & field.mask) >> lowest)
    }

    const THIS_CPU: u32 = 7;
    const THIS_RANDOM: u32 = 0xdead_beef;

    /// Runs a program as the kernel does, and checks what its verifier does (`bpf_check_classic` in
    /// net/core/filter.c).
    fn run(program: &[Instruction], payload: &[u8]) -> Option<u32> {
        let load = |offset: u32, len: usize| -> u32 {
            match offset {
                CPU => THIS_CPU,
                RANDOM => THIS_RANDOM,
                _ => {
                    let bytes = &payload[offset as usize..][..len];
                    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
                }
            }
        };
        let (mut a, mut at) = (0u32, 0);
        loop {
            let Instruction { code, if_true, if_false, k } = program[at];
            at += 1;
            let mut jump =
                |condition| at += usize::from(if condition { if_true } else { if_false });
            match code {
                LOAD_U32 => a = load(k, 4),
                LOAD_U16 => a = load(k, 2),
                LOAD_U8 => a = load(k, 1),
                LOAD_LEN => a = payload.len() as u32,
                AND => a &= k,
                SHIFT_RIGHT => {
                    assert!(k < 32);
                    a >>= k;
                }
                MODULO => {
                    assert_ne!(k, 0);
                    a %= k;
                }
                JUMP => at += k as usize,
                JUMP_IF_EQUAL => jump(a == k),
                JUMP_IF_GREATER => jump(a > k),
                RETURN => return (k != NO_MEMBER).then_some(k),
                RETURN_VALUE => return Some(a),
                _ => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    fn field() -> impl Strategy<Value = Field> {
        let mask = prop_oneof![Just(u32::MAX), Just(0), Just(0x80), any::<u32>()];
        let len = prop_oneof![Just(1), Just(2), Just(4)];
        (0..12u16, len, mask).prop_map(|(offset, len, mask)| Field { offset, len, mask })
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let leaf = prop_oneof![
            Just(Rule::Flow),
            Just(Rule::Cpu),
            Just(Rule::Random),
            field().prop_map(Rule::By),
        ];
        leaf.prop_recursive(8, 200, 2, |inner| {
            (field(), inner.clone(), inner)
                .prop_map(|(field, a, b)| Rule::When(field, Box::new(a), Box::new(b)))
        })
    }

    proptest! {
        #[test]
        fn a_program_chooses_as_its_rule_does(
            rule in rule(),
            payload in proptest::collection::vec(any::<u8>(), 0..16),
            members in 1..9u32,
        ) {
            let expected = member(&rule, &payload, members);
            let program = Spread(rule).program(members as usize).unwrap();
            prop_assert_eq!(run(&program, &payload), expected);
        }
    }

    #[test]
    fn a_program_too_long_for_the_kernel_is_invalid() {
        let nested = |depth| {
            (0..depth).fold(Spread::RANDOM, |inner, _| {
                Spread::when(Field::u8(0), Spread::by(Field::u8(1)), inner)
            })
        };
        assert!(nested(300).program(4).is_ok());
        let error = nested(400).program(4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
