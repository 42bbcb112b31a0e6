//! Runs one condition with every way to send, and accounts for each datagram.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use mmsg::offload::Counters;
use mmsg::options::path_mtu;
use mmsg::{Ancillary, Backend};

use crate::common::{TIME_LIMIT, repetitions, skip};
use crate::conditions::Condition;
use crate::link::Way;
use crate::ways::{self, Received, Receiving, Sending, Socket, numbered};
use crate::world::{Family, World};

/// Datagrams for each way to send. Each quarter starts with a batch.
pub fn count() -> usize {
    repetitions(2_048, 512)
}

/// The number of the final datagram.
pub const LAST: u16 = u16::MAX;

/// Whether offload is on, how to send, how to receive, and the backend.
type Ways = (bool, Sending, Receiving, Backend);
const WAYS: [Ways; 8] = [
    (false, Sending::Slice, Receiving::Messages, Backend::Mmsg),
    (false, Sending::Each, Receiving::Into, Backend::Msg),
    (true, Sending::Slice, Receiving::Into, Backend::Mmsg),
    (true, Sending::Slice, Receiving::Slices, Backend::Msg),
    (true, Sending::Each, Receiving::Messages, Backend::Msg),
    (true, Sending::Each, Receiving::Into, Backend::Mmsg),
    (true, Sending::Queue, Receiving::Slices, Backend::Mmsg),
    (true, Sending::Queue, Receiving::Into, Backend::Msg),
];

/// What happened to the datagrams, in one way or all of them.
#[derive(Debug, Default)]
pub struct Outcome {
    pub offload: bool,
    pub is_each: bool,
    /// Accepted by a call.
    pub sent: u64,
    /// Not accepted: a call returned an error about this datagram.
    pub reported: u64,
    /// All errnos, without repetition.
    pub errors: Vec<i32>,
    /// How often "connection refused" was about an earlier datagram.
    pub refused: u64,
    pub reports: u64,
    pub received: u64,
    pub lost_by_network: u64,
    pub doubled_by_network: u64,
    pub lost_by_crate: u64,
    pub doubled_by_crate: u64,
    /// GSO batches that passed the link unsegmented.
    pub whole_batches: u64,
    pub counters: Counters,
}

impl Outcome {
    pub fn no_errors(&self) {
        self.errors_among(&[]);
    }

    pub fn errors_among(&self, allowed: &[i32]) {
        assert!(self.errors.iter().all(|error| allowed.contains(error)), "{self:?}");
    }

    /// Some errors, but only these.
    pub fn errors(&self, expected: &[i32]) {
        self.errors_among(expected);
        assert!(self.reported > 0, "{self:?}");
    }

    pub fn all_arrive(&self) {
        self.no_errors();
        assert_eq!((self.received, self.lost_by_network), (self.sent, 0), "{self:?}");
    }

    pub fn quarter_reported(&self) {
        assert_eq!((self.reported, self.received), (count() as u64 / 4, self.sent), "{self:?}");
        assert_eq!(self.counters.rejected_unsupported, 0, "{self:?}");
    }

    /// Whether GSO was used where it was on.
    pub fn batches(&self, used: bool) {
        assert!(!self.offload || (self.counters.sent_batches > 0) == used, "{self:?}");
    }

    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.reported += other.reported;
        self.refused += other.refused;
        self.reports += other.reports;
        self.received += other.received;
        self.lost_by_network += other.lost_by_network;
        self.doubled_by_network += other.doubled_by_network;
        self.lost_by_crate += other.lost_by_crate;
        self.doubled_by_crate += other.doubled_by_crate;
    }
}

/// Sends under the condition in every way. Prints why and returns `None` if it cannot be set up.
pub fn run(condition: &Condition, family: Family) -> Option<Outcome> {
    let world = World::new(condition.name, condition.device, family)?;
    if let Err(error) = (condition.prepare)(&world) {
        skip(condition.name, error);
        return None;
    }
    let mut all = Outcome::default();
    for (seed, way) in WAYS.into_iter().enumerate() {
        let outcome = one_way(&world, condition, seed as u64 + 1, way);
        let name = format!("{}, {family}, {way:?}", condition.name);
        assert_eq!(
            (outcome.lost_by_crate, outcome.doubled_by_crate),
            (0, 0),
            "{name}: {outcome:?}"
        );
        (condition.holds)(&outcome);
        all.add(&outcome);
    }
    Some(all)
}

fn one_way(
    world: &World,
    condition: &Condition,
    seed: u64,
    (offload, sending, receiving, backend): Ways,
) -> Outcome {
    // No other test of this binary depends on the backend.
    backend.make_process_default().expect("Linux has both");
    let payloads: Vec<_> =
        (0..count()).map(|number| numbered(number, (condition.len)(number))).collect();
    let server = Socket::new(world.server_socket(), offload).expect("a UDP socket");
    let to = server.std().local_addr().expect("it is bound");
    let client = client(world, condition, to, offload);
    let too_long_before = world.too_long_for_routers();
    world.forget_path_mtu();
    world.link.begin(condition.rules, to.port(), seed << 32 | 0x2545_f491);

    let (received, dest) = (Received::default(), (!condition.connected).then_some(to));
    let (sent, counts, too_long) = thread::scope(|scope| {
        let _stop = Stop(&received);
        let receiver = scope.spawn(|| ways::receive(&server, receiving, &payloads, &received));
        let mut sent = ways::send(&client, sending, dest, &payloads, |at| {
            // Over IPv4, GSO batches by default leave without the don't-fragment bit, so no router reports them.
            let fragments = world.family == Family::V4 && condition.fragmentation.is_none();
            let is_reported = !(offload && fragments);
            if let (64, Some(mtu), true) = (at, condition.learned, is_reported) {
                await_path_mtu(world, to, mtu);
            }
            let Some([begin, end]) = condition.midway else { return };
            if at == count() / 2 || at == count() / 4 * 3 {
                // Waits until everything sent so far has reached the link.
                await_last(world, to);
                if at == count() / 2 { begin(world) } else { end(world) }
            }
        });
        await_last(world, to);
        sent.reports += ways::reports(&client);
        let too_long = await_arrival(world, &received, too_long_before);
        received.stop.store(true, SeqCst);
        (sent, receiver.join().expect("the receiver does not panic"), too_long)
    });

    let tally = world.link.tally(Way::ToServer);
    let errors: BTreeSet<_> = sent.errors.iter().flatten().copied().collect();
    let mut outcome = Outcome {
        offload,
        is_each: sending == Sending::Each,
        sent: sent.accepted(),
        reported: count() as u64 - sent.accepted(),
        errors: errors.into_iter().collect(),
        refused: sent.refused,
        reports: sent.reports,
        lost_by_network: too_long,
        whole_batches: tally.batches,
        counters: client.counters(),
        ..Outcome::default()
    };
    let (mut unseen, mut missing) = (0, 0);
    for (number, error) in sent.errors.iter().enumerate() {
        let accepted = u8::from(error.is_none());
        let [seen, passed, came] =
            [&tally.seen, &tally.passed, &counts].map(|counts| counts[number]);
        outcome.received += u64::from(came > 0);
        outcome.doubled_by_crate +=
            u64::from(seen.saturating_sub(accepted) + came.saturating_sub(passed));
        outcome.doubled_by_network += u64::from(passed.saturating_sub(1));
        // Lost: no copy of the datagram passed.
        outcome.lost_by_network += u64::from(seen > 0 && passed == 0);
        unseen += u64::from(accepted.saturating_sub(seen));
        missing += u64::from(passed.saturating_sub(came));
    }
    outcome.lost_by_crate = missing.abs_diff(too_long);
    if condition.lossy_queue {
        outcome.lost_by_network += unseen;
    } else {
        outcome.lost_by_crate += unseen;
    }
    outcome
}

/// Stops the receiver, also if the test fails.
struct Stop<'a>(&'a Received);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, SeqCst);
    }
}

fn client(world: &World, condition: &Condition, to: SocketAddr, offload: bool) -> Socket {
    let socket = world.client_socket(condition.connected.then_some(to));
    if condition.errors {
        Ancillary::ERRORS.require(&socket).expect("an option of every Linux");
    }
    if let Some(fragmentation) = condition.fragmentation {
        fragmentation.set(&socket).expect("an option of every Linux");
    }
    Socket::new(socket, offload).expect("a UDP socket")
}

/// Waits until everything sent so far has reached the link. A final datagram shows that, because the way there is a
/// queue.
fn await_last(world: &World, to: SocketAddr) {
    let socket =
        world.client.within(|| UdpSocket::bind((world.family.any(), 0))).expect("any port");
    let before = world.link.tally(Way::ToServer).seen[usize::from(LAST)];
    let begin = Instant::now();
    loop {
        // A host without a route has nothing on the way.
        if socket.send_to(&numbered(LAST.into(), 2), to).is_err() {
            return;
        }
        if world.link.wait_for(Duration::from_millis(200), |ways| {
            ways[Way::ToServer as usize].seen[usize::from(LAST)] > before
        }) {
            return;
        }
        assert!(begin.elapsed() < TIME_LIMIT, "nothing comes to the link any more");
    }
}

/// Waits until the client's kernel knows the path MTU that a router has reported.
fn await_path_mtu(world: &World, to: SocketAddr, mtu: usize) {
    let begin = Instant::now();
    // A socket keeps the route that it had when it was connected.
    while path_mtu(&world.client_socket(Some(to))).expect("it is connected") != mtu {
        assert!(begin.elapsed() < TIME_LIMIT, "no router reports the MTU of {mtu}");
        thread::yield_now();
    }
}

/// Waits until everything that passed the link has arrived or was dropped by a router, and returns the number
/// dropped. Gives up after some time: a missing datagram was then lost elsewhere.
fn await_arrival(world: &World, received: &Received, too_long_before: u64) -> u64 {
    let begin = Instant::now();
    loop {
        let too_long = world.too_long_for_routers() - too_long_before;
        let tally = world.link.tally(Way::ToServer);
        let passed = tally.all_passed() - u64::from(tally.passed[usize::from(LAST)]);
        if received.count.load(SeqCst) + too_long >= passed || begin.elapsed() > TIME_LIMIT {
            return too_long;
        }
        thread::yield_now();
    }
}
