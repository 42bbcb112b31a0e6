//! The model without chance: every sequence of answers of the kernel, up to a length.
//!
//! A space is a program (its calls) and a number of answers, each out of an alphabet. The kernel
//! takes the answers one header at a time, and a run that ends after it took `used` of `depth`
//! stands for every sequence that begins with these: `alphabet ^ (depth - used)` of them. The next
//! run changes the last answer that was taken. At the end the sequences that all the runs stand for
//! must be `alphabet ^ depth`: then none was left out, and none was tried twice.
//!
//! `MODEL_DEEPER` is a number of answers by which each space gets longer.

use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::kernel::{Direction, Event};
use super::ops::{Batch, Config, Kind, Op, Receiving, RecvSpace, Sending, Shape};
use super::world::World;
use crate::tests::BACKENDS;

const fn fail(errno: i32) -> Event {
    Event::Fail { errno, stays: false }
}

const fn stays(errno: i32) -> Event {
    Event::Fail { errno, stays: true }
}

/// One answer of each class that the library distinguishes. An error that stays is the message's own; one that
/// does not is another datagram's, or temporary.
const SEND: [Event; 16] = [
    Event::Pass,
    Event::Short,
    Event::Missing,
    Event::Forbidden,
    fail(libc::EINTR),
    fail(libc::EAGAIN),
    fail(libc::ECONNREFUSED),
    fail(libc::EHOSTUNREACH),
    fail(libc::EPERM),
    stays(libc::EPERM),
    fail(libc::EIO),
    stays(libc::EIO),
    fail(libc::EMSGSIZE),
    stays(libc::EMSGSIZE),
    fail(libc::ENOBUFS),
    stays(libc::ENOBUFS),
];

/// Like [`SEND`] for receives, whose errors never stay with a message.
const RECEIVE: [Event; 9] = [
    Event::Pass,
    Event::Short,
    Event::Missing,
    Event::Forbidden,
    fail(libc::EINTR),
    fail(libc::EAGAIN),
    fail(libc::ECONNREFUSED),
    fail(libc::EHOSTUNREACH),
    fail(libc::ENOMEM),
];

/// The messages of a call at most.
const MOST: usize = 4;

/// Fewer answers of sends, so that each of four headers can meet each of them.
const FEW_SEND: [Event; 6] = [
    Event::Pass,
    Event::Short,
    fail(libc::EINTR),
    fail(libc::ECONNREFUSED),
    stays(libc::EPERM),
    fail(libc::EIO),
];

/// Like [`FEW_SEND`], for receives.
const FEW_RECEIVE: [Event; 5] =
    [Event::Pass, Event::Short, fail(libc::EINTR), fail(libc::ECONNREFUSED), fail(libc::ENOMEM)];

/// The number of spaces of a test, of their runs, and of the sequences that these stand for.
#[derive(Debug, Default)]
struct Tried {
    spaces: usize,
    runs: u64,
    sequences: u64,
}

/// The kernel's answers: for which direction, out of which alphabet, and how many.
#[derive(Clone, Copy)]
struct Answers<'a>(Direction, &'a [Event], usize);

impl<'a> Answers<'a> {
    fn new(direction: Direction, alphabet: &'a [Event], depth: usize) -> Self {
        let deeper = std::env::var("MODEL_DEEPER");
        let deeper: usize = deeper.map_or(0, |text| text.parse().expect("a number of answers"));
        Self(direction, alphabet, depth + deeper)
    }

    /// How many sequences of `len` answers there are.
    fn sequences(&self, len: usize) -> u64 {
        (self.1.len() as u64).pow(len as u32)
    }
}

impl Tried {
    /// Runs `program` under every sequence of the answers.
    fn explore(&mut self, config: Config, program: &[Op], answers: Answers<'_>) {
        let Answers(direction, alphabet, depth) = answers;
        let mut world = World::new(config);
        let mut digits = vec![0; depth];
        let mut covered = 0;
        loop {
            let events: Vec<_> = digits.iter().map(|digit| alphabet[*digit]).collect();
            let used;
            (world, used) = run(world.renew(config), program, direction, &events);
            self.runs += 1;
            covered += answers.sequences(depth - used);
            // The answers after those taken made no difference.
            let Some(last) = digits[..used].iter().rposition(|d| d + 1 < alphabet.len()) else {
                break;
            };
            digits[last] += 1;
            digits[last + 1..].fill(0);
        }
        assert_eq!(covered, answers.sequences(depth), "{config:?}, {program:?}");
        self.spaces += 1;
        self.sequences += covered;
    }

    /// All spaces of a kind of socket: both backends, with ICMP errors reported and without.
    fn explore_all(&mut self, kind: Kind, programs: &[Vec<Op>], answers: Answers<'_>) {
        for backend in BACKENDS {
            for errors in [false, true] {
                let config = Config { backend, sockets: [kind, Kind::Plain], errors };
                programs.iter().for_each(|ops| self.explore(config, ops, answers));
            }
        }
    }

    /// Prints what was tried, and compares it with the number of spaces and their sequences.
    fn expect(&self, spaces: usize, answers: Answers<'_>) {
        println!("{self:?} of {} answers", answers.2);
        assert_eq!(self.spaces, spaces);
        assert_eq!(self.sequences, spaces as u64 * answers.sequences(answers.2));
    }
}

/// Whether the tests run under valgrind or for another platform than this machine's. The sampled model shows them
/// what depends on either; which answers a call may meet does not, and the kernel is a script anyway.
pub(super) fn skips() -> bool {
    let skips = ["MEMCHECK", "CROSS_RUN"].iter().any(|name| std::env::var_os(name).is_some());
    if skips {
        // Past the harness, which keeps what tests print to itself.
        let _ = io::stderr().lock().write_all(b"skipped: complete models: the sampled one runs\n");
    }
    skips
}

/// Runs a program, and returns how many of the answers the kernel has taken.
pub(super) fn run(
    mut world: World,
    program: &[Op],
    direction: Direction,
    events: &[Event],
) -> (World, usize) {
    let run = AssertUnwindSafe(|| {
        world.kernel().script(direction, events.iter().copied());
        program.iter().for_each(|op| world.step(op.clone()));
        let left = world.kernel().left(direction);
        world.finish();
        (world, events.len() - left)
    });
    catch_unwind(run).unwrap_or_else(|panic| {
        eprintln!("{program:?}\n{events:?}");
        resume_unwind(panic)
    })
}

const WAYS: [Sending; 4] = [Sending::Batch, Sending::Iter, Sending::Each, Sending::Flush];

fn send(way: Sending, count: usize, shape: Shape) -> Op {
    let batch = Batch { count, shape, seed: 0 };
    Op::Send { socket: 0, clone: 0, way, batch, again: false, thread: false }
}

fn receive(way: Receiving, messages: usize) -> Op {
    let space = RecvSpace { messages, bytes: 100, scattered: false };
    Op::Receive { socket: 0, clone: 0, way, space, thread: false }
}

/// Each way to send each of the numbers of messages, and then one message: two calls.
fn sends(shape: Shape, counts: RangeInclusive<usize>) -> Vec<Vec<Op>> {
    let each =
        |way| counts.clone().map(move |count| vec![send(way, count, shape), send(way, 1, shape)]);
    WAYS.into_iter().flat_map(each).collect()
}

/// Each number of waiting messages into each number of buffers, and then one more call.
fn receives(counts: RangeInclusive<usize>) -> Vec<Vec<Op>> {
    let mut programs = Vec::new();
    for way in [Receiving::Batch, Receiving::Into] {
        for waiting in counts.clone() {
            let batch = Batch { count: waiting, shape: Shape::Alike, seed: 0 };
            for messages in counts.clone().filter(|messages| *messages > 0) {
                programs.push(vec![
                    Op::Fill { socket: 0, batch },
                    receive(way, messages),
                    receive(way, 1),
                ]);
            }
        }
    }
    programs
}

/// Any two answers to one to four messages, and some for each of four.
fn explore_sends(kind: Kind, shape: Shape) {
    if skips() {
        return;
    }
    let mut tried = Tried::default();
    let answers = Answers::new(Direction::Send, &SEND, 2);
    tried.explore_all(kind, &sends(shape, 1..=MOST), answers);
    tried.expect(64, answers);

    let mut tried = Tried::default();
    let answers = Answers::new(Direction::Send, &FEW_SEND, MOST);
    tried.explore_all(kind, &sends(shape, MOST..=MOST), answers);
    tried.expect(16, answers);
}

#[test]
fn every_sequence_of_answers_to_sends() {
    explore_sends(Kind::Plain, Shape::Alike);
}

#[test]
fn every_sequence_of_answers_to_sends_with_gso() {
    explore_sends(Kind::Offload { gso: true, gro: false }, Shape::Alike);
}

#[test]
fn every_sequence_of_answers_to_sends_segmented_in_user_space() {
    explore_sends(Kind::Offload { gso: false, gro: false }, Shape::OwnSegments);
}

fn explore_receives(kind: Kind) {
    if skips() {
        return;
    }
    let mut tried = Tried::default();
    let answers = Answers::new(Direction::Receive, &RECEIVE, 2);
    tried.explore_all(kind, &receives(0..=MOST), answers);
    tried.expect(160, answers);

    let mut tried = Tried::default();
    let answers = Answers::new(Direction::Receive, &FEW_RECEIVE, MOST);
    tried.explore_all(kind, &receives(MOST..=MOST), answers);
    tried.expect(8, answers);
}

#[test]
fn every_sequence_of_answers_to_receives() {
    explore_receives(Kind::Plain);
}

#[test]
fn every_sequence_of_answers_to_receives_with_gro() {
    explore_receives(Kind::Offload { gso: false, gro: true });
}
