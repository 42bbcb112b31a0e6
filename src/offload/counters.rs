//! Counters, which cost a few relaxed additions per call.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::recv::message::Message;
use crate::send::coalesce::GsoBatch;

/// Makes [`Counters`] and its atomic form from the fields.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What an [`Offload`](crate::Offload) has sent and received so far.
        ///
        /// A snapshot of each counter, but not of all at the same moment.
        ///
        /// ```
        /// use mmsg::{BatchSocket, Offload, SendMsg};
        /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        /// # let to = socket.local_addr()?;
        /// let socket = Offload::new(socket)?;
        /// socket.send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
        /// let counters = socket.state().counters();
        /// assert_eq!((counters.sent, counters.sent_bytes), (2, 6));
        /// # Ok::<(), std::io::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// The name and the value of each counter, for a metrics library. Counters only rise.
            ///
            /// The text format of Prometheus:
            ///
            /// ```
            /// # let socket = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
            /// for (name, value) in socket.state().counters().iter() {
            ///     println!("# TYPE mmsg_{name}_total counter");
            ///     println!("mmsg_{name}_total {value}");
            /// }
            /// # Ok::<(), std::io::Error>(())
            /// ```
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }

        /// The counters while they count.
        #[derive(Debug, Default)]
        pub(super) struct AtomicCounters {
            $(pub(super) $name: AtomicU64,)*
        }

        impl AtomicCounters {
            pub(super) fn snapshot(&self) -> Counters {
                Counters { $($name: self.$name.load(Ordering::Relaxed)),* }
            }

            /// Adds the counts of a call. Skips the atomic operation for those that are 0.
            #[inline]
            pub(super) fn add(&self, call: &Counters) {
                $(if call.$name > 0 {
                    self.$name.fetch_add(call.$name, Ordering::Relaxed);
                })*
            }
        }
    };
}

counters! {
    /// Datagrams that the kernel accepted. A message whose raw control messages have a segment size
    /// (`UDP_SEGMENT`) counts as one.
    sent,
    /// Bytes of payload in them.
    sent_bytes,
    /// Calls made to send them, failed ones included. Each is one system call, or one for each message if the platform
    /// has no multi-message calls.
    send_calls,
    /// GSO batches sent: headers with two or more segments.
    sent_batches,
    /// Segments of these batches.
    sent_segments,
    /// GSO batches that the kernel rejected because the device has no checksum offload (`EIO`) or the
    /// route no segmentation (`EOPNOTSUPP`), and whose datagrams went through. Each turned GSO off for a minute.
    rejected_unsupported,
    /// GSO batches that the kernel rejected for the size of their segments (`EMSGSIZE`, `EINVAL`).
    rejected_size,
    /// Datagrams of messages with explicit segment sizes that were not sent: the socket took earlier datagrams of the
    /// message, but not these.
    unsent,
    /// Datagrams received; each segment of a coalesced message counts.
    received,
    /// Bytes of payload in them.
    received_bytes,
    /// Calls made to receive them, failed ones included.
    receive_calls,
    /// Coalesced messages received.
    received_coalesced,
    /// Segments of these messages.
    received_segments,
    /// Truncated messages received.
    truncated,
}

impl AtomicCounters {
    /// Counts a call and the headers that the kernel took. Returns the number of messages in these headers.
    #[inline]
    pub(super) fn sent(&self, batches: &[GsoBatch]) -> usize {
        let (mut call, mut messages) = (Counters { send_calls: 1, ..Counters::default() }, 0);
        for batch in batches {
            messages += batch.messages;
            let datagrams = batch.datagrams() as u64;
            call.sent += datagrams;
            call.sent_bytes += batch.bytes as u64;
            if batch.is_segmented() {
                call.sent_batches += 1;
                call.sent_segments += datagrams;
            }
        }
        self.add(&call);
        messages
    }

    /// Counts a call and what it received.
    #[inline]
    pub(super) fn received(&self, totals: Counters) {
        self.add(&Counters { receive_calls: 1, ..totals });
    }
}

impl Counters {
    /// Counts a received message of `len` bytes, of which `message` may be only the first buffer.
    #[inline]
    pub(super) fn count(&mut self, message: &Message<'_>, len: usize) {
        self.received_bytes += len as u64;
        self.truncated += u64::from(message.truncated());
        if message.meta().segment_size.is_none() {
            self.received += 1;
            return;
        }
        let segments = message.datagrams().len() as u64;
        self.received += segments;
        self.received_coalesced += 1;
        self.received_segments += segments;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_lose_no_count() {
        let running = AtomicCounters::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..10_000).for_each(|_| assert_eq!(running.sent(&[GsoBatch::single(2)]), 1))
                });
            }
        });
        let Counters { sent, sent_bytes, send_calls, .. } = running.snapshot();
        assert_eq!((sent, sent_bytes, send_calls), (40_000, 80_000, 40_000));
    }

    /// The twin is the derived `Debug`, which knows every field.
    #[test]
    fn the_iterator_has_every_field_by_its_name() {
        let running = AtomicCounters::default();
        running.sent(&[GsoBatch { messages: 3, bytes: 7, segment: 3 }, GsoBatch::single(5)]);
        running.add(&Counters { unsent: 9, ..Counters::default() });
        let counters = running.snapshot();
        assert_eq!((counters.sent, counters.sent_batches, counters.sent_segments), (4, 1, 3));
        let pairs: Vec<_> =
            counters.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(format!("{counters:?}"), format!("Counters {{ {} }}", pairs.join(", ")));
    }
}
