//! Counters: a few relaxed additions a call.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::recv::received::ReceivedTotals;
use crate::sys::{Direction, Rejection, Transferred};

/// What an [`Offload`](crate::Offload) has sent and received so far.
///
/// A snapshot of each counter, not of all of them at one moment.
///
/// ```
/// use mmsg::{BatchSocket, Offload, SendMsg};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = socket.local_addr()?;
/// let socket = Offload::new(socket)?;
/// socket.send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
/// let counters = socket.counters();
/// assert_eq!((counters.sent, counters.sent_bytes), (2, 6));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Datagrams that the kernel accepted. A message whose raw control messages have a segment size
    /// (`UDP_SEGMENT`) counts as one.
    pub sent: u64,
    /// Bytes of payload in them.
    pub sent_bytes: u64,
    /// System calls made to send them, failed ones included.
    pub send_calls: u64,
    /// GSO batches sent: headers with two or more segments.
    pub sent_batches: u64,
    /// Segments of these batches.
    pub sent_segments: u64,
    /// GSO batches that the kernel rejected because the device has no checksum offload (`EIO`) or the
    /// route no segmentation (`EOPNOTSUPP`). Each turned GSO off for its destination for a minute.
    pub rejected_unsupported: u64,
    /// How often such rejections turned GSO off for the whole socket for a minute.
    pub rejected_socket: u64,
    /// GSO batches that the kernel rejected for the size of their segments (`EMSGSIZE`, `EINVAL`).
    pub rejected_size: u64,
    /// GSO batches that were not offered to the kernel, because it had rejected others like them. Their
    /// datagrams were sent one by one.
    pub not_offered: u64,

    /// Datagrams received; each segment of a coalesced message counts.
    pub received: u64,
    /// Bytes of payload in them.
    pub received_bytes: u64,
    /// System calls made to receive them, failed ones included.
    pub receive_calls: u64,
    /// Coalesced messages received.
    pub received_coalesced: u64,
    /// Segments of these messages.
    pub received_segments: u64,
    /// Truncated messages received.
    pub truncated: u64,
}

impl Counters {
    /// Each counter as its field's name and its value, for a metrics library. All of them only rise.
    ///
    /// The text format of Prometheus:
    ///
    /// ```
    /// # let socket = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
    /// for (name, value) in socket.counters().iter() {
    ///     println!("# TYPE mmsg_{name}_total counter");
    ///     println!("mmsg_{name}_total {value}");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// With the crate `metrics`:
    ///
    /// ```ignore
    /// for (name, value) in socket.counters().iter() {
    ///     metrics::counter!(format!("mmsg_{name}_total")).absolute(value);
    /// }
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.named().into_iter()
    }
}

/// The running counters.
///
/// A call adds to several of them. An atomic addition for each takes 3 % of the time of 64 small datagrams sent and
/// received, and even one atomic operation for all of them takes 1 % of the time of four datagrams. So the first thread
/// that sends, and the first that receives, have counters of their own. A call on another thread marks the shared ones as
/// in use and adds plainly. One that meets another thread's mark adds atomically to a third set.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// Threads that alone write to the counters of a direction in `own`; 0 if none has.
    owners: [AtomicUsize; 2],
    own: Totals,
    in_use: AtomicBool,
    shared: Totals,
    contended: Totals,
}

/// Makes the running form of [`Counters`] out of the names of its fields: the compiler reports one that is missing.
macro_rules! totals {
    ($($name:ident),* $(,)?) => {
        #[derive(Debug, Default)]
        struct Totals {
            $($name: AtomicU64,)*
        }

        impl Counters {
            fn named(self) -> [(&'static str, u64); [$(stringify!($name)),*].len()] {
                let Self { $($name),* } = self;
                [$((stringify!($name), $name)),*]
            }

            /// Each counter is what `get` returns for it.
            fn collect(get: impl Fn(Counter) -> u64) -> Self {
                Self { $($name: get(|totals| &totals.$name)),* }
            }
        }
    };
}

totals! {
    sent,
    sent_bytes,
    send_calls,
    sent_batches,
    sent_segments,
    rejected_unsupported,
    rejected_socket,
    rejected_size,
    not_offered,
    received,
    received_bytes,
    receive_calls,
    received_coalesced,
    received_segments,
    truncated,
}

/// One of them.
type Counter = fn(&Totals) -> &AtomicU64;

impl Running {
    #[inline(always)]
    pub(super) fn sent(&self, moved: Transferred, calls: usize) {
        self.add(
            Direction::Send,
            [
                (|totals| &totals.sent, moved.datagrams),
                (|totals| &totals.sent_bytes, moved.bytes),
                (|totals| &totals.send_calls, calls),
                (|totals| &totals.sent_batches, moved.batches),
                (|totals| &totals.sent_segments, moved.segments),
            ],
        );
    }

    pub(super) fn rejected(&self, rejection: Rejection) {
        let counter: Counter = match rejection {
            Rejection::Unsupported => |totals| &totals.rejected_unsupported,
            Rejection::Size => |totals| &totals.rejected_size,
        };
        self.add(Direction::Send, [(counter, 1)]);
    }

    pub(super) fn socket_rejected(&self) {
        self.add(Direction::Send, [(|totals| &totals.rejected_socket, 1)]);
    }

    /// Counts a batch that was not offered to the kernel.
    pub(super) fn not_offered(&self) {
        self.add(Direction::Send, [(|totals| &totals.not_offered, 1)]);
    }

    #[inline(always)]
    pub(super) fn received(&self, received: &ReceivedTotals, calls: usize) {
        self.add(
            Direction::Receive,
            [
                (|totals| &totals.received, received.datagrams),
                (|totals| &totals.received_bytes, received.bytes),
                (|totals| &totals.receive_calls, calls),
                (|totals| &totals.received_coalesced, received.coalesced),
                (|totals| &totals.received_segments, received.segments),
                (|totals| &totals.truncated, received.truncated),
            ],
        );
    }

    #[inline(always)]
    fn add<const N: usize>(&self, direction: Direction, additions: [(Counter, usize); N]) {
        let is_owner = self.owner(direction).load(Ordering::Relaxed) == this_thread();
        match if is_owner { Set::Own } else { self.begin_elsewhere(direction) } {
            Set::Own => add_alone(&self.own, additions),
            Set::Shared => {
                add_alone(&self.shared, additions);
                self.in_use.store(false, Ordering::Release);
            }
            Set::Contended => {
                for (counter, n) in additions {
                    counter(&self.contended).fetch_add(n as u64, Ordering::Relaxed);
                }
            }
        }
    }

    /// Where a thread adds that is not the owner. Makes it the owner if there is none.
    #[inline(never)]
    fn begin_elsewhere(&self, direction: Direction) -> Set {
        let (none, relaxed) = (0, Ordering::Relaxed);
        let owner = self.owner(direction);
        if owner.compare_exchange(none, this_thread(), relaxed, relaxed).is_ok() {
            Set::Own
        } else if !self.in_use.swap(true, Ordering::Acquire) {
            Set::Shared
        } else {
            Set::Contended
        }
    }

    #[inline(always)]
    fn owner(&self, direction: Direction) -> &AtomicUsize {
        &self.owners[usize::from(direction == Direction::Send)]
    }

    pub(super) fn snapshot(&self) -> Counters {
        Counters::collect(|counter| {
            let sets = [&self.own, &self.shared, &self.contended];
            sets.map(|set| counter(set).load(Ordering::Relaxed)).iter().sum()
        })
    }
}

/// Which counters a call adds to.
enum Set {
    Own,
    /// Marked as in use by this call.
    Shared,
    Contended,
}

/// Adds to counters that no other thread writes to meanwhile.
#[inline(always)]
fn add_alone<const N: usize>(totals: &Totals, additions: [(Counter, usize); N]) {
    for (counter, n) in additions {
        let counter = counter(totals);
        counter.store(counter.load(Ordering::Relaxed) + n as u64, Ordering::Relaxed);
    }
}

/// What this thread has and no other living one: an address. A later thread may get that of one that has ended, and then
/// goes on with its counters, which nobody else writes to any more.
#[inline]
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| ptr::from_ref(here).addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_lose_no_count() {
        let running = Running::default();
        let one = Transferred { datagrams: 1, bytes: 2, batches: 0, segments: 0 };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| running.sent(one, 1)));
            }
        });
        let Counters { sent, sent_bytes, send_calls, .. } = running.snapshot();
        assert_eq!((sent, sent_bytes, send_calls), (40_000, 80_000, 40_000));
        // While another thread adds.
        running.in_use.store(true, Ordering::Relaxed);
        running.sent(one, 1);
        assert_eq!(running.snapshot().sent, 40_001);
    }

    /// The system gives a thread what an ended one had, so that some of these may be taken for the owner.
    #[test]
    fn threads_that_follow_one_another_lose_no_count() {
        let running = Running::default();
        let one = Transferred { datagrams: 1, bytes: 2, batches: 0, segments: 0 };
        for _ in 0..200 {
            std::thread::scope(|scope| {
                scope.spawn(|| running.sent(one, 1));
                scope.spawn(|| running.received(&ReceivedTotals::NONE, 1));
            });
        }
        let counters = running.snapshot();
        assert_eq!((counters.sent, counters.receive_calls), (200, 200));
    }

    /// Each direction has an owner, and the sets add up.
    #[test]
    fn the_first_thread_of_a_direction_has_counters_of_its_own() {
        let running = Running::default();
        let one = Transferred { datagrams: 1, bytes: 2, batches: 0, segments: 0 };
        running.sent(one, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                running.received(&ReceivedTotals::NONE, 1);
                running.sent(one, 1);
            });
        });
        running.received(&ReceivedTotals::NONE, 1);
        let in_set = |set: &Totals| {
            [&set.sent, &set.receive_calls].map(|counter| counter.load(Ordering::Relaxed))
        };
        assert_eq!([in_set(&running.own), in_set(&running.shared)], [[1, 1], [1, 1]]);
        assert_eq!(running.snapshot().sent, 2);
    }

    /// A pair for each field, by its name: the derived `Debug` knows them all.
    #[test]
    fn the_iterator_has_every_field_by_its_name() {
        let running = Running::default();
        let moved = Transferred { datagrams: 1, bytes: 2, batches: 3, segments: 4 };
        running.sent(moved, 5);
        running.rejected(Rejection::Unsupported);
        let received = ReceivedTotals {
            datagrams: 6,
            longest: 0,
            bytes: 7,
            coalesced: 8,
            segments: 9,
            truncated: 10,
        };
        running.received(&received, 11);
        let counters = running.snapshot();
        let pairs: Vec<_> =
            counters.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(format!("{counters:?}"), format!("Counters {{ {} }}", pairs.join(", ")));
    }
}
