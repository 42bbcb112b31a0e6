//! How many datagrams the kernel has dropped, and how fast.

use std::io;
use std::time::Instant;

use crate::sys::{self, AsSocket, numbers};

/// How many datagrams the kernel has dropped on this socket for lack of buffer space, as a 32-bit number that wraps
/// (`SO_MEMINFO`, Linux 4.12).
///
/// It is right while nothing arrives, so a metric reads it from time to time. [`Drops`] adds the counts up.
///
/// ```
/// use mmsg::options::{Drops, dropped};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let mut drops = Drops::new();
/// // Once a second:
/// drops.note(dropped(&socket).ok());
/// println!("{} dropped, {:.1} a second", drops.total(), drops.rate());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `Unsupported` on other platforms than Linux and Android; else the system's error.
#[doc(alias("SO_MEMINFO", "SK_MEMINFO_DROPS"))]
pub fn dropped(socket: &impl AsSocket) -> io::Result<u32> {
    // `SK_MEMINFO_DROPS` is the last of the `SK_MEMINFO_VARS` (include/uapi/linux/sock_diag.h).
    let [.., a, b, c, d] = sys::option_bytes::<36>(sys::borrow(socket), numbers::MEMINFO)?;
    Ok(u32::from_ne_bytes([a, b, c, d]))
}

/// Adds up the drop counts of a socket: those of [`dropped`], or those that received datagrams report.
///
/// [`Ancillary::DROPPED`](crate::Ancillary::DROPPED) makes the kernel report with each datagram how many the socket has
/// dropped so far, as a 32-bit number. Use one `Drops` for each socket. Drops after the last received datagram show
/// with the next one, or by [`dropped`].
///
/// ```
/// use mmsg::options::Drops;
/// use mmsg::{Ancillary, BatchSocket, RecvBatch};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// Ancillary::DROPPED.require(&socket)?;
/// let (mut drops, mut batch) = (Drops::new(), RecvBatch::new(64, 1500));
/// socket.recv_into(&mut batch)?;
/// // The last one of a batch has the latest count.
/// if let Some(last) = batch.iter().last() {
///     drops.note(last.meta().dropped);
/// }
/// println!("{} dropped, {:.1} a second", drops.total(), drops.rate());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// It is not `Copy`, so a closure cannot count into a copy:
///
/// ```compile_fail,E0382
/// let mut drops = mmsg::options::Drops::new();
/// let mut count = move |dropped| drops.note(dropped);
/// println!("{}", drops.total());
/// ```
#[doc(alias = "SO_RXQ_OVFL")]
#[derive(Clone, Debug)]
pub struct Drops {
    total: u64,
    /// The total at the last call of `rate`, and its time.
    rated: (u64, Instant),
}

impl Drops {
    /// Nothing dropped; [`rate`](Self::rate) counts from now.
    #[must_use]
    pub fn new() -> Self {
        Self { total: 0, rated: (0, Instant::now()) }
    }

    /// Adds a count of [`dropped`] or of [`RecvMeta::dropped`](crate::RecvMeta::dropped), and returns how many datagrams
    /// were dropped since the previous count. `None` and counts older than the latest add nothing.
    pub fn note(&mut self, dropped: Option<u32>) -> u64 {
        // The lower half of the total is the latest count, which wraps. A small step backwards is an older count.
        let step = dropped.map_or(0, |dropped| dropped.wrapping_sub(self.total as u32));
        let new = if step < 1 << 31 { step.into() } else { 0 };
        self.total += new;
        new
    }

    /// The number of datagrams known to be dropped since the socket was made.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Datagrams dropped per second, on average since the last call of `rate` or since [`new`](Self::new).
    pub fn rate(&mut self) -> f64 {
        self.rate_at(Instant::now())
    }

    fn rate_at(&mut self, now: Instant) -> f64 {
        let (total, since) = std::mem::replace(&mut self.rated, (self.total, now));
        let seconds = now.saturating_duration_since(since).as_secs_f64();
        if seconds > 0.0 { (self.total - total) as f64 / seconds } else { 0.0 }
    }
}

impl Default for Drops {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rate_is_of_the_time_since_the_last_one() {
        let mut drops = Drops::new();
        let start = drops.rated.1;
        assert_eq!(drops.note(Some(50)), 50);
        assert_eq!(drops.rate_at(start + Duration::from_secs(10)), 5.0);
        assert_eq!(drops.rate_at(start + Duration::from_secs(11)), 0.0);
        assert_eq!(drops.note(None), 0);
        assert_eq!(drops.note(Some(51)), 1);
        assert_eq!(drops.rate_at(start + Duration::from_secs(13)), 0.5);
        assert_eq!((drops.total(), drops.rate_at(start)), (51, 0.0));
    }

    proptest! {
        /// The twin counts in 64 bits, of which the kernel reports the lower half.
        #[test]
        fn counts_go_on_where_they_wrap(steps in prop::collection::vec(0u64..1 << 31, 0..20)) {
            let (mut drops, mut twin) = (Drops::new(), 0);
            for step in steps {
                let older = twin as u32;
                twin += step;
                prop_assert_eq!(drops.note(Some(twin as u32)), step);
                prop_assert_eq!(drops.note(Some(older)), 0);
                prop_assert_eq!(drops.total(), twin);
            }
        }
    }
}
