//! Which system calls move the messages.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(any(test, fuzzing))]
use super::fault;
use super::native;
use crate::events;

/// The system calls that carry a batch.
///
/// Both give the same results, but for an asynchronous error that arrives during a call: the kernel keeps it for the call
/// after a `recvmmsg`, single calls may lose it (see [`BatchSocket`](crate::BatchSocket#errors)). One message alone goes by the
/// single-message calls in any case, which costs less. The process starts with the faster backend that the platform has. It changes to [`Msg`](Self::Msg) for good if the
/// kernel has no multi-message calls (`ENOSYS`) or a sandbox forbids them (`EPERM`, unless a firewall
/// rejected a datagram).
///
/// ```
/// use mmsg::{Backend, MmsgBuf, SendMsg};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # let to = socket.local_addr()?;
/// // A call for each message, whatever the process's backend is.
/// let mut arena = MmsgBuf::with_backend(Backend::Msg);
/// assert_eq!(arena.send(&socket, &[SendMsg::to(to, b"hello")])?, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias("recvmmsg", "sendmmsg"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// `recvmmsg` and `sendmmsg`: Linux, Android, FreeBSD, NetBSD, OpenBSD 7.2.
    Mmsg,
    /// `recvmsg` and `sendmsg`, a call for each message: everywhere (Windows: `WSARecvMsg` and `WSASendMsg`).
    Msg,
}

/// Whether the system has multi-message calls, be they out of use or not.
const HAS_MMSG: bool = cfg!(mmsg_calls);
/// Whether the multi-message calls are out of use, by [`Backend::make_process_default`] or because they failed.
static WITHOUT_MMSG: AtomicBool = AtomicBool::new(false);

impl Backend {
    /// The process's backend: what [`make_process_default`](Self::make_process_default) chose, or the
    /// crate itself.
    ///
    /// ```
    /// println!("batches go by {:?}", mmsg::Backend::current());
    /// ```
    #[must_use]
    #[inline]
    pub fn current() -> Self {
        if !HAS_MMSG || without_mmsg() { Self::Msg } else { Self::Mmsg }
    }

    /// Makes this the backend of the whole process: of every call by any thread on any socket, from
    /// the next one on. A [`MmsgBuf::with_backend`](crate::MmsgBuf::with_backend) keeps its own.
    ///
    /// ```
    /// use mmsg::Backend;
    /// Backend::Msg.make_process_default()?;
    /// assert_eq!(Backend::current(), Backend::Msg);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` for [`Mmsg`](Self::Mmsg) on a system without these calls.
    pub fn make_process_default(self) -> io::Result<()> {
        if self == Self::Mmsg && !HAS_MMSG {
            let reason = "this system has no multi-message calls";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        set_without_mmsg(self == Self::Msg);
        Ok(())
    }
}

#[inline]
fn without_mmsg() -> bool {
    #[cfg(any(test, fuzzing))]
    if let Some(chosen) = fault::without_mmsg() {
        return chosen;
    }
    WITHOUT_MMSG.load(Ordering::Relaxed)
}

fn set_without_mmsg(on: bool) {
    // In unit tests the choice is a thread's own: a scripted ENOSYS must not change what other tests run on.
    #[cfg(any(test, fuzzing))]
    fault::set_without_mmsg(on);
    #[cfg(not(any(test, fuzzing)))]
    WITHOUT_MMSG.store(on, Ordering::Relaxed);
}

/// Whether `error` means that the multi-message calls are missing, rather than that a message failed; if
/// so, the process does not try them again.
#[cold]
pub(super) fn calls_are_missing(error: &io::Error) -> bool {
    let missing = native::mmsg_is_missing(error);
    if missing {
        events::single_message_calls(error);
        set_without_mmsg(true);
    }
    missing
}
