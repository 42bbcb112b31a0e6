//! Which system calls move the messages.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::native::has_batch_calls;

/// The system calls that carry a batch.
///
/// Both move the same messages with the same results, but for an error that Linux drops within a
/// multi-message call (see [`BatchSocket`](crate::BatchSocket#errors-that-linux-drops)). The process
/// starts with the faster one that the platform has. It changes to [`Msg`](Self::Msg) for good if the
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
#[doc(alias("recvmmsg", "sendmmsg", "recvmsg_x", "sendmsg_x"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// `recvmmsg` and `sendmmsg`: Linux, Android, FreeBSD, NetBSD, OpenBSD 7.2. With the feature `apple-private-api`,
    /// `recvmsg_x` and `sendmsg_x` on macOS 15.6, iOS 18.6 and later (see the [crate's page](crate#macos-and-ios)).
    Mmsg,
    /// `recvmsg` and `sendmsg`, a call for each message: everywhere (Windows: `WSARecvMsg` and `WSASendMsg`).
    Msg,
}

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
        if !has_batch_calls() || without_mmsg() { Self::Msg } else { Self::Mmsg }
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
        if self == Self::Mmsg && !has_batch_calls() {
            let reason = "this system has no multi-message calls";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        set_without_mmsg(self == Self::Msg);
        Ok(())
    }
}

#[cfg(not(any(test, fuzzing)))]
#[inline]
fn without_mmsg() -> bool {
    WITHOUT_MMSG.load(Ordering::Relaxed)
}

#[cfg(not(any(test, fuzzing)))]
pub(super) fn set_without_mmsg(on: bool) {
    WITHOUT_MMSG.store(on, Ordering::Relaxed);
}

// In unit tests the choice is a thread's own: a scripted ENOSYS must not change what other tests
// run on.
#[cfg(any(test, fuzzing))]
use self::per_thread::{set_without_mmsg as set, without_mmsg};
#[cfg(any(test, fuzzing))]
pub(super) fn set_without_mmsg(on: bool) {
    set(on);
}
#[cfg(any(test, fuzzing))]
mod per_thread {
    use super::{AtomicBool, Ordering, WITHOUT_MMSG};
    use std::cell::Cell;

    thread_local!(static WITHOUT: Cell<Option<bool>> = const { Cell::new(None) });

    pub(super) fn without_mmsg() -> bool {
        let process: &AtomicBool = &WITHOUT_MMSG;
        WITHOUT.get().unwrap_or_else(|| process.load(Ordering::Relaxed))
    }

    pub(super) fn set_without_mmsg(on: bool) {
        WITHOUT.set(Some(on));
    }
}
