//! One batch by the backend in use: one multi-message call, or a call for each message.

use std::io;

use libc::c_int;

#[cfg(msg_x_calls)]
use super::apple::calls as msg_x_calls;
#[cfg(mmsg_calls)]
use super::icmp::send_stopped;
#[cfg(mmsg_calls)]
use super::mmsg;
use super::msg;
#[cfg(any(msg_x_calls, all(test, target_os = "linux")))]
use super::msg_x;
#[cfg(all(test, target_os = "linux"))]
use super::msg_x::installed as msg_x_calls;
use super::retry::{Tried, retry_unrelated_icmp_error};
use super::socket::BorrowedSocket;
#[cfg(any(mmsg_calls, msg_x_calls))]
use crate::events;
#[cfg(any(mmsg_calls, msg_x_calls))]
use crate::sys::backend;
use crate::sys::headers::{WiredRecvs, WiredSends};
use crate::sys::{Backend, CallResult, RecvFlags, SendFlags};

/// Receives into wired headers, with one multi-message call or a call for each message.
#[inline]
pub(crate) fn recv(
    backend: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut WiredRecvs<'_>,
    flags: RecvFlags,
) -> CallResult {
    let flags = native_flags(flags);
    // For one message the single-message call costs less. For none, FreeBSD's recvmmsg would
    // receive a message.
    if wired.len() == 1 {
        return match msg::recv_one(socket, wired, 0, flags) {
            Ok(()) => CallResult::moved(1),
            Err(error) => CallResult::stopped(0, error),
        };
    }
    #[cfg(any(msg_x_calls, all(test, target_os = "linux")))]
    if let (Backend::Mmsg, Some(calls)) = (backend, msg_x_calls()) {
        let result = msg_x::recv(&calls, socket, wired, flags);
        return if fails_without(&calls, &result) {
            msg::recv(socket, wired, flags)
        } else {
            result
        };
    }
    #[cfg(mmsg_calls)]
    if backend == Backend::Mmsg && wired.len() > 1 {
        return match mmsg::recvmmsg(socket, wired, flags | libc::MSG_WAITFORONE) {
            Ok(count) => CallResult::moved(count),
            Err(error) if calls_are_missing(&error, mmsg::permitted) => {
                msg::recv(socket, wired, flags)
            }
            Err(error) => CallResult::stopped(0, error),
        };
    }
    let _ = backend;
    msg::recv(socket, wired, flags)
}

/// Sends wired headers, with one multi-message call or a call for each message.
///
/// After a partial `sendmmsg` the kernel has dropped the error that ended it. The rest is sent one by
/// one: a message that cannot be sent meets its error, and one that an ICMP error stopped is sent.
#[inline]
pub(crate) fn send(
    backend: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut WiredSends<'_>,
    flags: SendFlags,
) -> CallResult {
    let flags = native_send_flags(flags);
    #[cfg(any(msg_x_calls, all(test, target_os = "linux")))]
    if let (Backend::Mmsg, 2.., Some(calls)) = (backend, wired.len(), msg_x_calls()) {
        let result = msg_x::send(&calls, socket, wired, flags);
        return if fails_without(&calls, &result) {
            msg::send(socket, wired, flags)
        } else {
            result
        };
    }
    #[cfg(mmsg_calls)]
    if backend == Backend::Mmsg && wired.len() > 1 {
        let has_dest = wired.has_dest(0);
        if msg::is_without_tos(socket, wired, 0) {
            return msg::send(socket, wired, flags);
        }
        let send = || mmsg::sendmmsg(socket, wired, flags);
        return match retry_unrelated_icmp_error(socket, has_dest, Tried::No, send) {
            Ok(count) if count < wired.len() => msg::send_rest(socket, wired, count, flags),
            Ok(count) => CallResult::moved(count),
            Err(error)
                if calls_are_missing(&error, mmsg::permitted)
                    || msg::may_go_without_tos(&error, wired, 0) =>
            {
                msg::send(socket, wired, flags)
            }
            Err(error) => send_stopped(socket, has_dest, 0, error),
        };
    }
    let _ = backend;
    msg::send(socket, wired, flags)
}

/// Sends the only one of wired headers.
#[inline(always)]
pub(crate) fn send_only(
    socket: BorrowedSocket<'_>,
    wired: &WiredSends<'_>,
    flags: SendFlags,
) -> CallResult {
    msg::send_only(socket, wired, native_send_flags(flags))
}

/// Sends one message of one buffer without options, to the address in `name` if that is not empty.
#[inline]
pub(crate) fn send_plain(
    socket: BorrowedSocket<'_>,
    name: &[u8],
    data: &[u8],
    flags: SendFlags,
) -> io::Result<()> {
    let flags = native_send_flags(flags);
    let send = || msg::send_plain(socket, name, data, flags);
    retry_unrelated_icmp_error(socket, !name.is_empty(), Tried::No, send)
}

/// Whether a call moved nothing because Apple's multi-message calls are missing.
#[cfg(any(msg_x_calls, all(test, target_os = "linux")))]
fn fails_without(calls: &msg_x::Calls, result: &CallResult) -> bool {
    let error = result.error.as_ref().filter(|_| result.count == 0);
    error.is_some_and(|error| calls_are_missing(error, || msg_x::permitted(calls)))
}

/// Whether `error` means that the multi-message calls are missing, rather than that a message failed; if
/// so, the process does not try them again. `permitted` finds out whether it may make them.
#[cfg(any(mmsg_calls, msg_x_calls))]
#[cold]
fn calls_are_missing(error: &io::Error, permitted: impl FnOnce() -> bool) -> bool {
    let missing = match error.raw_os_error() {
        Some(libc::ENOSYS) => true,
        // From a sandbox, or from a firewall for one datagram.
        Some(libc::EPERM) => !permitted(),
        _ => false,
    };
    if missing {
        events::single_message_calls(error);
        backend::set_without_mmsg(true);
    }
    missing
}

#[inline]
fn native_send_flags(flags: SendFlags) -> c_int {
    // A message to a peer that is gone must not end the process by a signal.
    let mut native = libc::MSG_NOSIGNAL;
    if flags.contains(SendFlags::DONT_WAIT) {
        native |= libc::MSG_DONTWAIT;
    }
    if flags.contains(SendFlags::DONT_ROUTE) {
        native |= libc::MSG_DONTROUTE;
    }
    #[cfg(linux_like)]
    if flags.contains(SendFlags::CONFIRM) {
        native |= libc::MSG_CONFIRM;
    }
    native
}

#[inline]
fn native_flags(flags: RecvFlags) -> c_int {
    // Child processes must not inherit received descriptors.
    #[cfg(not(target_vendor = "apple"))]
    let mut native = libc::MSG_CMSG_CLOEXEC;
    #[cfg(target_vendor = "apple")]
    let mut native = 0;
    if flags.is_empty() {
        return native;
    }
    if flags.contains(RecvFlags::PEEK) {
        native |= libc::MSG_PEEK;
    }
    if flags.contains(RecvFlags::DONT_WAIT) {
        native |= libc::MSG_DONTWAIT;
    }
    #[cfg(linux_like)]
    if flags.contains(RecvFlags::ERROR_QUEUE) {
        native |= libc::MSG_ERRQUEUE;
    }
    // As an input flag it is Linux's own (recv(2)); elsewhere it may be rejected.
    if flags.contains(RecvFlags::FULL_LEN) && cfg!(linux_like) {
        native |= libc::MSG_TRUNC;
    }
    native
}
