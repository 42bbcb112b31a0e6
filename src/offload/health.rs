//! Whether GSO is used, and why not.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::environment::Switch;
use super::release::Release;
use super::routes::{Routes, Scope};
use crate::events;

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
    /// GSO is on. It may still be off for single destinations whose path rejected it.
    On,
    /// The program turned it off.
    OffByChoice,
    /// The environment variable `MMSG_GSO` is 0.
    OffByEnvironment,
    /// This release of the kernel damages GSO batches: Linux 7.0.0 to 7.1.4.
    OffByKernelRelease,
    /// The kernel has no GSO for this socket, or `UDP_SEGMENT` or `UDP_CORK` is set on it.
    Unsupported,
    /// The kernel rejected GSO batches to every destination tried, as it does for a device without checksum
    /// offload. Tried again after a minute.
    Rejected,
}

impl GsoStatus {
    const ALL: [Self; 6] = [
        Self::On,
        Self::OffByChoice,
        Self::OffByEnvironment,
        Self::OffByKernelRelease,
        Self::Unsupported,
        Self::Rejected,
    ];

    /// The status before the first send.
    fn at_first(
        wanted: bool,
        forced: bool,
        environment: Switch,
        release: Option<Release>,
        supported: bool,
    ) -> Self {
        let forced = forced || environment == Switch::On;
        match () {
            () if !wanted => Self::OffByChoice,
            () if environment == Switch::Off => Self::OffByEnvironment,
            () if !supported => Self::Unsupported,
            () if !forced && release.is_some_and(Release::damages_batches) => {
                Self::OffByKernelRelease
            }
            () => Self::On,
        }
    }
}

impl fmt::Display for GsoStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::OffByChoice => "off by the program's choice",
            Self::OffByEnvironment => "off by the environment variable MMSG_GSO",
            Self::OffByKernelRelease => "off: this kernel release damages GSO batches",
            Self::Unsupported => "off: the kernel does not support it for this socket",
            Self::Rejected => "off: the device rejected it",
        })
    }
}

/// The state of GSO on one socket.
#[derive(Debug)]
pub(super) struct Health {
    /// A [`GsoStatus`], by its place in `ALL`.
    status: AtomicU8,
    /// Whether the release of the kernel does not matter.
    forced: bool,
    /// Whether any destination rejects. While none does, a call pays one load.
    any: AtomicBool,
    routes: Mutex<Routes>,
}

impl Health {
    pub(super) fn new(forced: bool) -> Self {
        Self {
            status: AtomicU8::new(GsoStatus::OffByChoice as u8),
            forced,
            any: AtomicBool::new(false),
            routes: Mutex::default(),
        }
    }

    /// Sets whether GSO is wanted, and forgets what was rejected.
    pub(super) fn set(&self, wanted: bool, supported: impl FnOnce() -> bool) -> GsoStatus {
        let supported = wanted && supported();
        let (environment, release) = (Switch::gso(), Release::current());
        let status = GsoStatus::at_first(wanted, self.forced, environment, release, supported);
        let mut routes = self.lock();
        routes.clear();
        self.any.store(false, Ordering::Relaxed);
        self.status.store(status as u8, Ordering::Relaxed);
        if wanted && status != GsoStatus::On {
            events::gso_off(&status);
        }
        status
    }

    pub(super) fn status(&self) -> GsoStatus {
        GsoStatus::ALL[usize::from(self.status.load(Ordering::Relaxed))]
    }

    /// Whether a call may send with GSO.
    #[inline]
    pub(super) fn permits(&self) -> bool {
        match self.status() {
            GsoStatus::On => true,
            GsoStatus::Rejected => self.retries(),
            _ => false,
        }
    }

    /// Whether it is time to try a socket again that rejected.
    #[cold]
    fn retries(&self) -> bool {
        let routes = self.lock();
        routes.retries_socket(Instant::now()) && self.change(GsoStatus::Rejected, GsoStatus::On)
    }

    /// Whether batches to some destination are not to be tried.
    #[inline]
    pub(super) fn any_rejects(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Whether a batch to `to` is not to be tried.
    #[cold]
    pub(super) fn rejects(&self, to: Option<SocketAddr>) -> bool {
        let Some(to) = to else { return false };
        let mut routes = self.lock();
        let rejects = routes.rejects(to, Instant::now());
        self.any.store(!routes.is_empty(), Ordering::Relaxed);
        rejects
    }

    /// Notes that the kernel rejected a batch to `to` that it would send as datagrams.
    #[cold]
    pub(super) fn reject(&self, to: Option<SocketAddr>) -> Scope {
        let mut routes = self.lock();
        let scope = routes.reject(to, Instant::now());
        self.any.store(!routes.is_empty(), Ordering::Relaxed);
        if scope == Scope::Socket {
            self.change(GsoStatus::On, GsoStatus::Rejected);
        }
        scope
    }

    /// Notes that a batch was accepted, which matters only while some destination rejects.
    #[cold]
    pub(super) fn accept(&self) {
        self.lock().accept();
    }

    /// Unless another thread has changed the status since.
    fn change(&self, from: GsoStatus, to: GsoStatus) -> bool {
        let (from, to) = (from as u8, to as u8);
        self.status.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_status_is_found_by_its_number() {
        for (i, status) in GsoStatus::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, i);
        }
    }

    #[test]
    fn n2_a_socket_that_rejected_is_tried_again_after_a_minute() {
        let now = Instant::now();
        // A machine that has just started has no minute behind it.
        let Some(past) = now.checked_sub(Duration::from_secs(61)) else { return };
        let health = Health::new(false);
        health.status.store(GsoStatus::On as u8, Ordering::Relaxed);
        assert_eq!(health.reject(None), Scope::Socket);
        assert_eq!((health.permits(), health.status()), (false, GsoStatus::Rejected));
        health.lock().reject(None, past);
        assert_eq!((health.permits(), health.status()), (true, GsoStatus::On));
    }

    #[test]
    fn n1_each_reason_has_its_turn() {
        use GsoStatus::*;
        // On Linux 7.0.
        let damaging = {
            crate::sys::fault::set_release(Some("7.0.3"));
            Release::current()
        };
        crate::sys::fault::set_release(None);
        assert!(damaging.is_some_and(Release::damages_batches));
        let (none, off, on) = (Switch::Default, Switch::Off, Switch::On);
        let cases = [
            ((true, false, none, None, true), On),
            ((false, true, on, None, true), OffByChoice),
            ((false, false, off, damaging, false), OffByChoice),
            ((true, true, off, None, true), OffByEnvironment),
            ((true, true, on, damaging, false), Unsupported),
            ((true, false, none, damaging, true), OffByKernelRelease),
            ((true, true, none, damaging, true), On),
            ((true, false, on, damaging, true), On),
        ];
        for ((wanted, forced, environment, release, supported), expected) in cases {
            let status = GsoStatus::at_first(wanted, forced, environment, release, supported);
            assert_eq!(status, expected, "{wanted} {forced} {environment:?} {supported}");
        }
    }
}
