//! What is in a datagram: its number, and bytes that follow from it.
//!
//! ```text
//! | number, scrambled: 8 bytes | pattern, from a place that depends on the number ... |
//! ```
//!
//! A payload shorter than that is cut. The number is scrambled over the bytes that it has, so that
//! a change of any of them gives a number that was most likely never sent, instead of that of
//! another datagram in flight.

/// What a reply turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The datagram of this number, every byte as it was sent.
    Number(u64),
    /// An empty one, as was sent: they have no number.
    Empty,
    /// Not what was sent: of another length, with other bytes, or with a number that was not sent.
    Changed,
}

/// Payloads of one size.
pub struct Payload {
    size: usize,
    pattern: Vec<u8>,
}

/// Bytes that a number takes, if there is room.
const NUMBER: usize = 8;
/// Places at which the pattern may begin: a prime, so that they have nothing to do with how many
/// datagrams are in flight.
const PLACES: usize = 4093;

impl Payload {
    pub fn new(size: usize) -> Self {
        let mut state = 1;
        let mut byte = || {
            state = scramble(state, 64) + 1;
            (state >> 32) as u8
        };
        Self { size, pattern: (0..PLACES + size).map(|_| byte()).collect() }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// How far apart two numbers may be and still be told from one another: of shorter ones, only
    /// half of those that fit, so that the other half shows a change.
    pub fn reach(&self) -> u64 {
        match self.bits() {
            0 => u64::MAX,
            bits => 1 << (bits - 1),
        }
    }

    /// Writes the payload of datagram `number`; `data` is of the size.
    pub fn write(&self, number: u64, data: &mut [u8]) {
        let (head, body) = data.split_at_mut(self.number_len());
        head.copy_from_slice(&scramble(number, self.bits()).to_le_bytes()[..head.len()]);
        body.copy_from_slice(self.body(number));
    }

    /// Reads what came back, when the numbers up to `next` have been sent.
    pub fn read(&self, data: &[u8], next: u64) -> Reading {
        if data.len() != self.size {
            return Reading::Changed;
        }
        let (head, body) = data.split_at(self.number_len());
        if head.is_empty() {
            return Reading::Empty;
        }
        let mut bytes = [0; NUMBER];
        bytes[..head.len()].copy_from_slice(head);
        let low = unscramble(u64::from_le_bytes(bytes), self.bits());
        // How long before `next` the last datagram with these low bits was.
        let age = next.wrapping_sub(low) & self.mask();
        if age == 0 || age > next.min(self.reach()) {
            return Reading::Changed;
        }
        let number = next - age;
        if body == self.body(number) { Reading::Number(number) } else { Reading::Changed }
    }

    fn body(&self, number: u64) -> &[u8] {
        let place = (number % PLACES as u64) as usize;
        &self.pattern[place..][..self.size - self.number_len()]
    }

    fn number_len(&self) -> usize {
        self.size.min(NUMBER)
    }

    fn bits(&self) -> u32 {
        8 * self.number_len() as u32
    }

    fn mask(&self) -> u64 {
        mask(self.bits())
    }
}

fn mask(bits: u32) -> u64 {
    if bits == 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Two odd numbers without a pattern, and what undoes a multiplication by them, modulo 2^64 and
/// so modulo every smaller power of 2.
const ODD: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];
const UNDO: [u64; 2] = [inverse(ODD[0]), inverse(ODD[1])];

/// Newton's iteration: each step doubles the number of low bits that are right, of which an odd
/// number itself has three.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut right = 3;
    while right < 64 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        right *= 2;
    }
    inverse
}

/// Maps the low `bits` of a number one to one to as many bits.
fn scramble(number: u64, bits: u32) -> u64 {
    // Each step can be undone: a shift by half of the bits or more undoes itself.
    let (mask, half) = (mask(bits), bits.div_ceil(2));
    let mut x = number & mask;
    for odd in ODD {
        x ^= x >> half;
        x = x.wrapping_mul(odd) & mask;
    }
    x ^ (x >> half)
}

fn unscramble(scrambled: u64, bits: u32) -> u64 {
    let (mask, half) = (mask(bits), bits.div_ceil(2));
    let mut x = scrambled & mask;
    for undo in UNDO.into_iter().rev() {
        x ^= x >> half;
        x = x.wrapping_mul(undo) & mask;
    }
    x ^ (x >> half)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 1200, 65_507];

    fn written(payload: &Payload, number: u64) -> Vec<u8> {
        let mut data = vec![0; payload.size()];
        payload.write(number, &mut data);
        data
    }

    #[test]
    fn what_was_written_is_read_at_every_size() {
        for size in SIZES {
            let payload = Payload::new(size);
            for next in [1, 2, 128, 129, 255, 256, 257, 65_536, 1 << 20, 1 << 33] {
                let oldest = next - next.min(payload.reach()).min(300);
                for number in oldest..next {
                    let data = written(&payload, number);
                    assert_eq!(payload.read(&data, next), Reading::Number(number), "{size} {next}");
                }
            }
        }
    }

    #[test]
    fn a_change_of_any_byte_is_seen() {
        for size in [8, 9, 16, 64, 1200] {
            let payload = Payload::new(size);
            let next = 1_000_000;
            for number in [0, 1, 499_999, 999_999] {
                let mut data = written(&payload, number);
                for at in 0..size {
                    for change in [1, 0x80, 0xFF] {
                        data[at] ^= change;
                        assert_eq!(payload.read(&data, next), Reading::Changed, "{size} {at}");
                        data[at] ^= change;
                    }
                }
            }
        }
    }

    #[test]
    fn half_of_the_changes_of_a_single_byte_are_seen() {
        let payload = Payload::new(1);
        let changed =
            (0..=255).filter(|byte| payload.read(&[*byte], 1 << 20) == Reading::Changed).count();
        assert_eq!(changed, 128);
    }

    #[test]
    fn another_length_is_a_change() {
        for size in [0, 1, 8, 64] {
            let payload = Payload::new(size);
            let mut data = written(&payload, 5);
            data.push(0);
            assert_eq!(payload.read(&data, 10), Reading::Changed);
            data.truncate(size.saturating_sub(1));
            if size > 0 {
                assert_eq!(payload.read(&data, 10), Reading::Changed);
            }
        }
    }

    #[test]
    fn a_number_that_was_not_sent_yet_is_a_change() {
        for size in [1, 2, 4, 8, 1200] {
            let payload = Payload::new(size);
            let data = written(&payload, 7);
            assert_eq!(payload.read(&data, 0), Reading::Changed);
            assert_eq!(payload.read(&data, 7), Reading::Changed);
            assert_eq!(payload.read(&data, 8), Reading::Number(7));
        }
    }

    #[test]
    fn an_empty_one_is_empty() {
        assert_eq!(Payload::new(0).read(&[], 0), Reading::Empty);
        assert_eq!(Payload::new(0).reach(), u64::MAX);
    }
}
