//! Whether GSO is used, and why not: the program, `MMSG_OFFLOAD`, the kernel's release, the socket, or a rejection.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
/// match socket.state().gso_status() {
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
    /// [`SEND_TIMESTAMP`](crate::Ancillary::SEND_TIMESTAMP) was on when the socket was wrapped: the kernel would report
    /// one time for a whole GSO batch.
    OffBySendTimestamps,
    /// The kernel has no GSO for this socket: `UDP_SEGMENT`, Linux 4.18.
    Unsupported,
    /// The kernel rejected a GSO batch whose datagrams went through, as it does for a device without checksum
    /// offload. Tried again after a minute.
    Rejected,
}

impl GsoStatus {
    /// The status of a socket for which the program wants GSO.
    fn of(socket: BorrowedSocket<'_>, environment: Option<bool>) -> Self {
        // A whole GSO batch gets a single timestamp.
        let reports_send_times = || {
            let flags = sys::option(socket, numbers::TIMESTAMPING);
            flags.is_ok_and(|flags| flags & numbers::ANY_SEND_STAMP != 0)
        };
        let damages = || Release::current().is_some_and(Release::damages_batches);
        match () {
            () if environment == Some(false) => Self::OffByEnvironment,
            () if sys::option(socket, numbers::SEGMENT).is_err() => Self::Unsupported,
            () if reports_send_times() => Self::OffBySendTimestamps,
            () if environment.is_none() && damages() => Self::OffByKernelRelease,
            () => Self::On,
        }
    }
}

/// The name and value of an option that splits or joins messages (udp(7)), if one is set on the socket.
pub(super) fn conflicting_option(socket: BorrowedSocket<'_>) -> Option<(&'static str, i32)> {
    let options = [(numbers::SEGMENT, numbers::SEGMENT_NAME), (numbers::CORK, "UDP_CORK")];
    let value = |name| sys::option(socket, name).ok().filter(|value| *value != 0);
    options.into_iter().find_map(|(number, name)| Some((name, value(number)?)))
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
    /// What the socket and the system permit.
    found: GsoStatus,
    /// Whether the program wants GSO.
    wanted: AtomicBool,
    began: Instant,
    /// When to try rejected GSO again, in milliseconds after `began`; 0 if it is not rejected.
    retry_at: AtomicU64,
}

impl Status {
    /// Asks the socket and the system whether GSO can be used.
    pub(super) fn new(socket: BorrowedSocket<'_>) -> Self {
        Self {
            found: GsoStatus::of(socket, switch()),
            wanted: AtomicBool::new(false),
            began: Instant::now(),
            retry_at: AtomicU64::new(0),
        }
    }

    pub(super) fn get(&self) -> GsoStatus {
        match self.found {
            _ if !self.wanted.load(Ordering::Relaxed) => GsoStatus::OffByChoice,
            GsoStatus::On if self.retry_at.load(Ordering::Relaxed) > 0 => GsoStatus::Rejected,
            found => found,
        }
    }

    /// Sets whether GSO is wanted.
    pub(super) fn set(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
        self.retry_at.store(0, Ordering::Relaxed);
        if wanted && self.found != GsoStatus::On {
            events::gso_off(&self.found);
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
        if is_time {
            self.retry_at.store(0, Ordering::Relaxed);
        }
        is_time
    }

    /// Turns GSO off for a minute.
    #[cold]
    pub(super) fn reject(&self) {
        let retry_at = (self.began.elapsed() + OFF_FOR).as_millis();
        self.retry_at.store(retry_at as u64, Ordering::Relaxed); // It fits for 500 million years.
    }
}

/// The value of `MMSG_OFFLOAD`, the switch for the offloads of the whole process, read once. `None` if it is neither 0 nor 1.
pub(super) fn switch() -> Option<bool> {
    static SWITCH: OnceLock<Option<bool>> = OnceLock::new();
    *SWITCH.get_or_init(|| switch_of(&env::var_os("MMSG_OFFLOAD")?))
}

fn switch_of(value: &OsStr) -> Option<bool> {
    match value.as_encoded_bytes() {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

/// A kernel's release: the first three numbers of `uname -r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Release(u32, u32, u32);

/// Linux 7.0.0 (commit b10b446ce7ad) to 7.1.4: on many devices, GSO batches whose segments all have the same length
/// leave damaged. Commits 78effd896eee and 5f17ae0f595a fixed it.
const DAMAGING: RangeInclusive<Release> = Release(7, 0, 0)..=Release(7, 1, 4);

impl Release {
    /// The release of the running kernel, read once. `None` if unknown.
    fn current() -> Option<Self> {
        static CURRENT: OnceLock<Option<Release>> = OnceLock::new();
        #[cfg(any(test, fuzzing))]
        if let Some(text) = sys::fault::release() {
            return Self::parse(text);
        }
        *CURRENT.get_or_init(|| Self::parse(&sys::kernel_release()?))
    }

    /// Reads "7.1.3-arch1-2" as 7.1.3 and "7.1-rc2" as 7.1.0.
    fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?;
        let mut numbers = numbers.split('.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        let patch = numbers.next().map_or(Some(0), |patch| patch.parse().ok())?;
        Some(Self(major, minor, patch))
    }

    /// Whether GSO batches leave damaged on some devices.
    fn damages_batches(self) -> bool {
        DAMAGING.contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_socket_that_rejected_is_tried_again_after_a_minute() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
        let mut status = Status::new(sys::borrow(&socket));
        // The minute begins with the rejection, not with the socket.
        status.began = status.began.checked_sub(OFF_FOR).unwrap_or(status.began);
        status.found = GsoStatus::On;
        status.set(true);
        status.reject();
        assert_eq!((status.permits(), status.get()), (false, GsoStatus::Rejected));
        let now = status.began.elapsed();
        assert!(!status.retries(now + OFF_FOR / 2));
        assert!(status.retries(now + OFF_FOR));
        assert_eq!((status.permits(), status.get()), (true, GsoStatus::On));
    }

    #[test]
    fn each_reason_has_its_turn() {
        use GsoStatus::*;
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
        let of = |switch| GsoStatus::of(sys::borrow(&socket), switch);
        assert_eq!(of(Some(false)), OffByEnvironment);
        for off in
            [OffByChoice, OffByEnvironment, OffByKernelRelease, OffBySendTimestamps, Rejected]
        {
            assert!(off.to_string().starts_with("off"), "{off:?}");
        }
        if of(None) == Unsupported {
            return;
        }
        crate::sys::fault::set_release(Some("7.0.3"));
        assert_eq!([of(None), of(Some(true))], [OffByKernelRelease, On]);
        crate::sys::fault::set_release(None);
    }

    #[test]
    fn only_0_and_1_mean_anything() {
        assert_eq!(["0", "1"].map(|value| switch_of(value.as_ref())), [Some(false), Some(true)]);
        for value in ["", "default", "00", "01", "on", "true", " 1", "2"] {
            assert_eq!(switch_of(value.as_ref()), None, "{value:?}");
        }
    }

    #[test]
    fn other_texts_are_no_release() {
        for text in ["", "7", "seven", "7.x", ".7.0", "7..0", "99999999999.0.0"] {
            assert_eq!(Release::parse(text), None, "{text}");
        }
    }

    proptest! {
        /// The twin compares one number.
        #[test]
        fn the_damaging_releases_are_a_range(
            major in 5u32..10, minor in 0u32..4, patch in prop::option::of(0u32..20),
            tail in "(-[a-z0-9.+_-]{0,12})?",
        ) {
            let third = patch.map_or(String::new(), |patch| format!(".{patch}"));
            let release = Release::parse(&format!("{major}.{minor}{third}{tail}"));
            let patch = patch.unwrap_or(0);
            prop_assert_eq!(release, Some(Release(major, minor, patch)));
            let number = major * 10_000 + minor * 100 + patch;
            let damages = release.is_some_and(Release::damages_batches);
            prop_assert_eq!(damages, (70_000..=70_104).contains(&number));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,24}") {
            let _ = Release::parse(&text);
        }
    }
}
