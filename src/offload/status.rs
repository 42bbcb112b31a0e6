//! Whether GSO is used, and why not.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::environment::Switch;
use super::release::Release;
use crate::events;
use crate::sys::{self, BorrowedSocket, numbers};

/// How long GSO stays off after a path rejected it.
const OFF_FOR: Duration = Duration::from_secs(60);

/// Whether an [`Offload`](crate::Offload) sends with GSO, and if not, why.
///
/// `Display` says it in words, for a log. `Debug` is the name of the variant, for a metric's label.
///
/// ```
/// use mmsg::offload::GsoStatus;
/// use mmsg::Offload;
/// let socket = Offload::new(std::net::UdpSocket::bind("127.0.0.1:0")?)?;
/// match socket.gso_status() {
///     GsoStatus::On => {}
///     off => eprintln!("every datagram goes by itself: {off}"),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GsoStatus {
    /// GSO is on.
    On,
    /// The program turned it off.
    OffByChoice,
    /// The environment variable `MMSG_OFFLOAD` is 0.
    OffByEnvironment,
    /// This release of the kernel damages GSO batches: Linux 7.0.0 to 7.1.4.
    OffByKernelRelease,
    /// [`SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP) is on: the kernel would report one time for a whole GSO
    /// batch.
    OffBySendTimestamps,
    /// The kernel has no GSO for this socket, or `UDP_SEGMENT` or `UDP_CORK` is set on it.
    Unsupported,
    /// The kernel rejected a GSO batch whose datagrams went through, as it does for a device without checksum
    /// offload. Tried again after a minute.
    Rejected,
}

impl GsoStatus {
    const ALL: [Self; 7] = [
        Self::On,
        Self::OffByChoice,
        Self::OffByEnvironment,
        Self::OffByKernelRelease,
        Self::OffBySendTimestamps,
        Self::Unsupported,
        Self::Rejected,
    ];

    /// The status of a socket for which the program wants GSO.
    fn of(socket: BorrowedSocket<'_>, forced: bool, environment: Switch) -> Self {
        let forced = forced || environment == Switch::On;
        match () {
            () if environment == Switch::Off => Self::OffByEnvironment,
            () if !has_segmentation(socket) => Self::Unsupported,
            () if reports_send_times(socket) => Self::OffBySendTimestamps,
            () if !forced && Release::current().is_some_and(Release::damages_batches) => {
                Self::OffByKernelRelease
            }
            () => Self::On,
        }
    }
}

/// Whether this socket supports GSO (`UDP_SEGMENT`, Linux 4.18) and has no option that conflicts with it. Only reads
/// options.
fn has_segmentation(socket: BorrowedSocket<'_>) -> bool {
    sys::option(socket, numbers::SEGMENT).is_ok() && conflicting_option(socket).is_none()
}

/// The name and value of an option that splits or joins messages (udp(7)), if one is set on the socket.
pub(super) fn conflicting_option(socket: BorrowedSocket<'_>) -> Option<(&'static str, i32)> {
    let options = [(numbers::SEGMENT, numbers::SEGMENT_NAME), (numbers::CORK, "UDP_CORK")];
    let value = |name| sys::option(socket, name).ok().filter(|value| *value != 0);
    options.into_iter().find_map(|(number, name)| Some((name, value(number)?)))
}

/// Whether the socket asks for send timestamps. A whole GSO batch gets a single one.
fn reports_send_times(socket: BorrowedSocket<'_>) -> bool {
    sys::option(socket, numbers::TIMESTAMPING)
        .is_ok_and(|flags| flags & numbers::ANY_SEND_STAMP != 0)
}

impl fmt::Display for GsoStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::OffByChoice => "off by the program's choice",
            Self::OffByEnvironment => "off by the environment variable MMSG_OFFLOAD",
            Self::OffByKernelRelease => "off: this kernel release damages GSO batches",
            Self::OffBySendTimestamps => "off: the socket reports when each datagram was sent",
            Self::Unsupported => "off: the kernel does not support it for this socket",
            Self::Rejected => "off for a minute: the device rejected it",
        })
    }
}

/// The status of one socket, which threads share.
#[derive(Debug)]
pub(super) struct Status {
    /// The index of a [`GsoStatus`] in `ALL`.
    status: AtomicU8,
    /// Whether to ignore the kernel's release.
    forced: bool,
    began: Instant,
    /// When to try rejected GSO again, in milliseconds after `began`.
    retry_at: AtomicU64,
}

impl Status {
    pub(super) fn new(forced: bool) -> Self {
        Self {
            status: AtomicU8::new(GsoStatus::OffByChoice as u8),
            forced,
            began: Instant::now(),
            retry_at: AtomicU64::new(0),
        }
    }

    pub(super) fn get(&self) -> GsoStatus {
        GsoStatus::ALL[usize::from(self.status.load(Ordering::Relaxed))]
    }

    /// Sets whether GSO is wanted.
    pub(super) fn set(&self, socket: BorrowedSocket<'_>, wanted: bool) {
        let status = match wanted {
            true => GsoStatus::of(socket, self.forced, Switch::get()),
            false => GsoStatus::OffByChoice,
        };
        self.status.store(status as u8, Ordering::Relaxed);
        if wanted && status != GsoStatus::On {
            events::gso_off(&status);
        }
    }

    /// Whether a call may send with GSO. Turns GSO on again a minute after it was rejected.
    #[inline]
    pub(super) fn permits(&self) -> bool {
        match self.get() {
            GsoStatus::On => true,
            GsoStatus::Rejected => self.retries(self.began.elapsed()),
            _ => false,
        }
    }

    /// Turns rejected GSO on again if it is time. `now` is the time since `began`.
    #[cold]
    fn retries(&self, now: Duration) -> bool {
        let is_time = now.as_millis() >= self.retry_at.load(Ordering::Relaxed).into();
        is_time && self.change(GsoStatus::Rejected, GsoStatus::On)
    }

    /// Turns GSO off for a minute.
    #[cold]
    pub(super) fn reject(&self) {
        let retry_at = (self.began.elapsed() + OFF_FOR).as_millis();
        self.retry_at.store(retry_at as u64, Ordering::Relaxed); // It fits for 500 million years.
        self.change(GsoStatus::On, GsoStatus::Rejected);
    }

    /// Changes the status, unless another thread has already done so.
    fn change(&self, from: GsoStatus, to: GsoStatus) -> bool {
        let (from, to) = (from as u8, to as u8);
        self.status.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_found_by_its_number() {
        for (i, status) in GsoStatus::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, i);
        }
    }

    #[test]
    fn n2_a_socket_that_rejected_is_tried_again_after_a_minute() {
        let mut status = Status::new(false);
        // The minute begins with the rejection, not with the socket.
        status.began = status.began.checked_sub(OFF_FOR).unwrap_or(status.began);
        status.status.store(GsoStatus::On as u8, Ordering::Relaxed);
        status.reject();
        assert_eq!((status.permits(), status.get()), (false, GsoStatus::Rejected));
        let now = status.began.elapsed();
        assert!(!status.retries(now + OFF_FOR / 2));
        assert!(status.retries(now + OFF_FOR));
        assert_eq!((status.permits(), status.get()), (true, GsoStatus::On));
    }

    #[test]
    fn n1_each_reason_has_its_turn() {
        use GsoStatus::*;
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
        let of = |forced, switch| GsoStatus::of(sys::borrow(&socket), forced, switch);
        assert_eq!(of(true, Switch::Off), OffByEnvironment);
        if of(false, Switch::Default) == Unsupported {
            return;
        }
        crate::sys::fault::set_release(Some("7.0.3"));
        assert_eq!(of(false, Switch::Default), OffByKernelRelease);
        assert_eq!([of(true, Switch::Default), of(false, Switch::On)], [On, On]);
        crate::sys::fault::set_release(None);
    }
}
