//! The model without chance: every sequence of the kernel's answers up to a length, and every error number.
//!
//! An answer is the [fate](HeaderFate) of one header. A run that took `used` of `depth` fates covers every sequence that
//! begins with these, so the next run changes the last fate taken. At the end the number of covered sequences must be the
//! number of all sequences: none was left out or tried twice.
//!
//! `MODEL_DEEPER` is the number of fates by which to lengthen each sequence.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::kernel::{fail, stays};
use super::*;

/// Few enough fates to try each on each of four headers. Under these both backends give the same results.
const FEW: [HeaderFate; 6] = [
    HeaderFate::Pass,
    fail(errno::EINTR),
    fail(errno::EAGAIN),
    fail(errno::ECONNREFUSED),
    stays(errno::EPERM),
    fail(errno::EIO),
];

/// The maximum number of messages of a call.
const MAX_MESSAGES: usize = 4;

/// Whether the tests run under valgrind or for another platform. There the sampled model is enough, since the scripted
/// kernel answers the same everywhere.
fn skips() -> bool {
    let skips = ["MEMCHECK", "CROSS_RUN"].iter().any(|name| std::env::var_os(name).is_some());
    if skips {
        // Not by `eprintln`, which the test harness captures.
        let _ = io::stderr().lock().write_all(b"skipped: complete models: the sampled one runs\n");
    }
    skips
}

/// Runs a program by both backends, and returns how many fates the kernel has taken.
fn run(world: &mut World, program: &[Op], fates: &[HeaderFate], alike: bool) -> usize {
    let both = catch_unwind(AssertUnwindSafe(|| {
        BACKENDS.map(|backend| {
            let numbered = world.next;
            let used = world.run(backend, fates, program);
            // The numbers of messages decide their shapes, so both backends begin with the same number.
            world.next = numbered;
            (used, world.said.clone())
        })
    }));
    let [(one, said), (other, also_said)] = both.unwrap_or_else(|panic| {
        eprintln!("{:?}\n{program:?}\n{fates:?}", world.kind);
        resume_unwind(panic)
    });
    assert!(!alike || said == also_said, "{program:?}\n{fates:?}\n{said:?}\n{also_said:?}");
    one.max(other)
}

/// Runs the programs under every sequence of `depth` fates.
fn explore(kind: Kind, programs: &[Vec<Op>], alphabet: &[HeaderFate], depth: usize, alike: bool) {
    let deeper = std::env::var("MODEL_DEEPER");
    let depth = depth + deeper.map_or(0, |text| text.parse().expect("a number"));
    let sequences = |len: usize| (alphabet.len() as u64).pow(len as u32);
    for errors in [false, true] {
        let Some(mut world) = World::new(kind, errors) else { return };
        for program in programs {
            let (mut digits, mut covered) = (vec![0; depth], 0);
            loop {
                let fates: Vec<_> = digits.iter().map(|digit| alphabet[*digit]).collect();
                let used = run(&mut world, program, &fates, alike);
                covered += sequences(depth - used);
                // The fates that were not taken made no difference.
                let Some(last) = digits[..used].iter().rposition(|d| d + 1 < alphabet.len()) else {
                    break;
                };
                digits[last] += 1;
                digits[last + 1..].fill(0);
            }
            assert_eq!(covered, sequences(depth), "{kind:?}, {program:?}");
        }
    }
}

/// Programs that send each of these numbers of messages in each way.
fn sends(shape: Shape, counts: impl Iterator<Item = usize> + Clone) -> Vec<Vec<Op>> {
    let each = |way| counts.clone().map(move |count| vec![Op::Send { way, shape, count }]);
    SendWay::ALL.into_iter().flat_map(each).collect()
}

/// Programs that receive each of these numbers of messages into each number of buffers, and then call once more.
fn receives(counts: &[usize], buffers: &[usize]) -> Vec<Vec<Op>> {
    let receive = |way, messages| Op::Receive { way, messages, bytes: 30 };
    let mut programs = Vec::new();
    for way in ReceiveWay::ALL {
        for (count, messages) in counts.iter().flat_map(|c| buffers.iter().map(move |b| (*c, *b))) {
            let fill = Op::Fill { count, together: true };
            programs.push(vec![fill, receive(way, messages), receive(way, 1)]);
        }
    }
    programs
}

#[test]
fn every_sequence_of_answers_to_sends() {
    if skips() {
        return;
    }
    for (kind, shape) in [
        (Kind::Plain, Shape::Alike),
        (GSO, Shape::Alike),
        (GSO, Shape::Mixed),
        (Kind::Offload { gso: false, gro: false }, Shape::OwnSegments),
    ] {
        explore(kind, &sends(shape, 1..=MAX_MESSAGES), &HeaderFate::ALL, 2, false);
        explore(kind, &sends(shape, MAX_MESSAGES..=MAX_MESSAGES), &FEW, MAX_MESSAGES, true);
    }
}

#[test]
fn every_sequence_of_answers_to_receives() {
    if skips() {
        return;
    }
    for kind in [Kind::Plain, GRO] {
        let all = receives(&[0, 1, MAX_MESSAGES], &[1, 2, MAX_MESSAGES]);
        explore(kind, &all, &HeaderFate::ALL, 2, false);
        let most = receives(&[MAX_MESSAGES], &[2, MAX_MESSAGES]);
        explore(kind, &most, &FEW, MAX_MESSAGES - 1, false);
        let waits = [HeaderFate::Pass, fail(errno::EINTR), fail(errno::EAGAIN)];
        explore(kind, &most, &waits, MAX_MESSAGES, true);
    }
}

/// All of Linux's error numbers, at the first, a middle and the last message.
#[test]
fn every_error_at_first_middle_and_last_message() {
    const COUNT: usize = 5;
    if skips() {
        return;
    }
    let fill = Op::Fill { count: COUNT, together: false };
    let receive = |way| vec![fill, Op::Receive { way, messages: COUNT, bytes: 99 }];
    let sends = |shape| sends(shape, COUNT..=COUNT);
    for (kind, programs) in [
        (Kind::Plain, sends(Shape::Alike)),
        (GSO, sends(Shape::Alike)),
        (GSO, sends(Shape::Mixed)),
        (Kind::Offload { gso: false, gro: false }, sends(Shape::OwnSegments)),
        (Kind::Plain, ReceiveWay::ALL.map(receive).to_vec()),
        (GRO, ReceiveWay::ALL.map(receive).to_vec()),
    ] {
        let Some(mut world) = World::new(kind, false) else { return };
        for (program, errno) in programs.iter().flat_map(|p| (1..=133).map(move |e| (p, e))) {
            // These are about the socket or the call, so they do not stay with a message.
            let of_all = [errno::EINTR, errno::EAGAIN, errno::ECONNREFUSED, errno::ENOSYS];
            for fate in [fail(errno), stays(errno)] {
                for at in [0, COUNT / 2, COUNT - 1] {
                    if fate == fail(errno) || !of_all.contains(&errno) {
                        let mut fates = vec![HeaderFate::Pass; at];
                        fates.push(if errno == errno::ENOSYS { HeaderFate::Missing } else { fate });
                        assert!(run(&mut world, program, &fates, false) > 0);
                    }
                }
            }
        }
    }
}
