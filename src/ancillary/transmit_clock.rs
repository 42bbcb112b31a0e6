//! The clock of a socket's transmit times.

use std::io;
use std::time::{Duration, Instant};

use crate::sys::{self, AsSocket, numbers};

/// The clock of a socket's transmit times (`SO_TXTIME`, Linux 4.19).
///
/// ```no_run
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// mmsg::TransmitClock::Monotonic.select(&socket)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias = "SO_TXTIME")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransmitClock {
    /// `CLOCK_MONOTONIC`, for the fq queueing discipline.
    Monotonic,
    /// `CLOCK_TAI`, for the etf queueing discipline.
    Tai,
}

impl TransmitClock {
    /// Makes this the clock of [`SendMeta::transmit_time`](crate::SendMeta::transmit_time) on the socket. Linux accepts it on
    /// every socket; UDP, raw and packet sockets obey it. Needs `CAP_NET_ADMIN` for all but the monotonic clock.
    ///
    /// # Errors
    ///
    /// `Unsupported` on platforms without transmit times; else the system's error.
    pub fn select(self, socket: &(impl AsSocket + ?Sized)) -> io::Result<()> {
        // `struct sock_txtime` without flags (include/uapi/linux/net_tstamp.h).
        let value = [self.number(), 0].map(i32::to_ne_bytes);
        sys::set_option_checked(sys::borrow(socket), numbers::TXTIME, value.as_flattened())
    }

    /// The current time of this clock, since its start. Add a delay to make a transmit time.
    ///
    /// ```no_run
    /// use mmsg::{BatchSocket, SendMeta, SendMsg, TransmitClock};
    /// use std::time::Duration;
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// TransmitClock::Monotonic.select(&socket)?;
    /// let now = TransmitClock::Monotonic.now()?;
    /// let gap = Duration::from_micros(200); // Between the packets of a frame.
    /// let metas = [0, 1, 2].map(|i| SendMeta::new().with_transmit_time(now + i * gap));
    /// let msgs = metas.each_ref().map(|meta| SendMsg::to(to, b"packet").with_meta(meta));
    /// socket.send_batch(&msgs)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` on platforms without transmit times.
    #[doc(alias("clock_gettime", "CLOCK_MONOTONIC", "CLOCK_TAI"))]
    pub fn now(self) -> io::Result<Duration> {
        numbers::TXTIME.ok_or(io::ErrorKind::Unsupported)?;
        sys::clock_time(self.number())
    }

    /// The time of this clock at `instant`, for programs that keep `Instant`s.
    ///
    /// ```no_run
    /// use mmsg::{SendMeta, TransmitClock};
    /// use std::time::{Duration, Instant};
    /// let next_frame = Instant::now() + Duration::from_millis(20);
    /// let meta = SendMeta::new().with_transmit_time(TransmitClock::Monotonic.at(next_frame)?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` on platforms without transmit times.
    pub fn at(self, instant: Instant) -> io::Result<Duration> {
        let (clock, now) = (self.now()?, Instant::now());
        let (later, earlier) =
            (instant.saturating_duration_since(now), now.saturating_duration_since(instant));
        Ok(clock.saturating_add(later).saturating_sub(earlier))
    }

    /// `CLOCK_MONOTONIC` and `CLOCK_TAI` (include/uapi/linux/time.h).
    const fn number(self) -> i32 {
        match self {
            Self::Monotonic => 1,
            Self::Tai => 11,
        }
    }
}
