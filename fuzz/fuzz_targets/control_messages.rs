//! Reads arbitrary bytes as control messages, then writes control messages and reads them back, whole and with more
//! and more of the end missing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mmsg::control::ControlBuf;
use mmsg::fuzzing;

/// Messages that the crate knows (Linux), so that the fuzzer need not guess their numbers: in the input, the first
/// byte of each further message selects one of these and the second its length.
const KNOWN: [(i32, i32); 15] = [
    (0, 8),    // IP_PKTINFO
    (41, 50),  // IPV6_PKTINFO
    (0, 1),    // IP_TOS
    (41, 67),  // IPV6_TCLASS
    (0, 2),    // IP_TTL
    (41, 52),  // IPV6_HOPLIMIT
    (1, 35),   // SO_TIMESTAMPNS
    (1, 37),   // SO_TIMESTAMPING
    (17, 104), // UDP_GRO
    (1, 40),   // SO_RXQ_OVFL
    (0, 20),   // IP_ORIGDSTADDR
    (41, 74),  // IPV6_ORIGDSTADDR
    (0, 11),   // IP_RECVERR
    (41, 25),  // IPV6_RECVERR
    (77, 77),  // unknown to the crate
];

/// Maximum of messages in an input, and of bytes cut off its end.
const MESSAGES: usize = 12;
const SHORTER: usize = 64;

fuzz_target!(|data: &[u8]| {
    let mut cases = read_shorter(data);

    let (mut control, mut pushed) = (ControlBuf::new(), [(0, 0, &[][..]); MESSAGES]);
    let (mut count, mut rest) = (0, data);
    while let ([ty, len, tail @ ..], 0..MESSAGES) = (rest, count) {
        let (level, ty) = KNOWN[usize::from(*ty) % KNOWN.len()];
        let (payload, tail) = tail.split_at(tail.len().min(usize::from(*len)));
        rest = tail;
        let before = control.as_bytes().len();
        if control.push(level, ty, payload).is_ok() {
            pushed[count] = (level, ty, payload);
            count += 1;
        } else {
            assert_eq!(control.as_bytes().len(), before, "a rejected message leaves nothing");
        }
    }
    let found = control.messages().map(|m| (m.level, m.ty, m.data));
    assert!(found.eq(pushed[..count].iter().copied()));
    if count > 0 {
        cases += read_shorter(control.as_bytes());
    }
    mmsg_fuzz::count(cases);
});

/// Reads the bytes whole, then with one, two and more bytes cut off, and so with and without a message's padding.
/// Returns the number of reads.
fn read_shorter(control: &[u8]) -> usize {
    let shortest = control.len().saturating_sub(SHORTER);
    for len in shortest..=control.len() {
        read(&control[..len]);
    }
    control.len() + 1 - shortest
}

/// Reads the bytes in every way and checks what must hold for any result.
fn read(control: &[u8]) {
    let (messages, meta) = fuzzing::control(control);
    // Linux' cmsghdr: a length, a level and a type.
    let header = size_of::<usize>() + 2 * size_of::<i32>();
    let taken: usize = messages.map(|message| header + message.data.len()).sum();
    assert!(taken <= control.len());
    assert_ne!(meta.segment_size, Some(0));
    assert_eq!(meta.ecn().is_some(), meta.tos.is_some());
    let reply = meta.reply_meta();
    assert!([None, meta.dest, meta.local].contains(&reply.source));
}
