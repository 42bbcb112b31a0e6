//! The system calls: `WSARecvMsg`, and `WSASendMsg` or `WSASendTo` for each message.

#![allow(unsafe_code)]

use std::io;
use std::os::windows::io::BorrowedSocket;
use std::time::Duration;
use std::{ptr, slice, thread};

use windows_sys::Win32::Networking::WinSock::{
    MSG_CTRUNC, MSG_TRUNC, POLLHUP, POLLRDNORM, POLLWRNORM, WSAEMSGSIZE, WSAESHUTDOWN,
    WSAEWOULDBLOCK, WSAPOLLFD, WSAPoll, WSASendMsg, WSASendTo,
};

use super::header::Header;
use super::options::recv_msg_function;
use super::{check, handle};
#[cfg(test)]
use crate::sys::fault::{self, Call};
use crate::sys::flags::Flags;
use crate::sys::headers::{PreparedRecvs, PreparedSends};
use crate::sys::numbers;

/// Receives one message into header `i`.
pub(in crate::sys) fn recv_one(
    socket: BorrowedSocket<'_>,
    prepared: &mut PreparedRecvs<'_>,
    i: usize,
    flags: Flags,
) -> io::Result<()> {
    assert!(i < prepared.as_slice().len());
    // SAFETY: the header is one of PreparedRecvs, and nobody else uses it. Calls fill headers in order.
    let header = unsafe {
        prepared.set_touched(i + 1);
        &mut *prepared.as_mut_ptr().add(i)
    };
    match recv_header(socket, header, flags) {
        Err(error) if error.raw_os_error() == Some(WSAESHUTDOWN) => {
            (header.received, header.msg.namelen) = (0, 0);
            Ok(())
        }
        result => result,
    }
}

/// Receives one message into a header in [`PreparedRecvs`].
fn recv_header(socket: BorrowedSocket<'_>, header: &mut Header, flags: Flags) -> io::Result<()> {
    #[cfg(test)]
    fault::next(Call::RecvMsg, 1)?;
    if flags.contains(Flags::DONT_WAIT) {
        check_ready(socket, POLLRDNORM)?;
    }
    let capacity = (header.msg.namelen, header.msg.Control.len);
    header.received = 0;
    header.msg.dwFlags = (flags.0 & numbers::MSG_PEEK) as u32;
    let function = recv_msg_function(socket)?;
    let Header { msg, received } = header;
    // SAFETY: the header comes from PreparedRecvs, and meets its invariant.
    let result = unsafe { function(handle(socket), msg, received, ptr::null_mut(), None) };
    header.msg.dwFlags &= MSG_TRUNC | MSG_CTRUNC;
    match check(result) {
        // Payload or control data did not fit. For a truncated payload, Wine sets no flag and reports no length.
        Err(error) if error.raw_os_error() == Some(WSAEMSGSIZE) => {
            if lacks_payload(header) {
                header.msg.dwFlags |= MSG_TRUNC;
                // SAFETY: the header meets the invariant of PreparedRecvs, so the list has that many buffers.
                let buffers = unsafe {
                    slice::from_raw_parts(header.msg.lpBuffers, header.msg.dwBufferCount as usize)
                };
                header.received = buffers.iter().fold(0, |sum, b| b.len.saturating_add(sum));
            }
            Ok(())
        }
        Err(error) => {
            // A repeated call needs the original capacities.
            (header.msg.namelen, header.msg.Control.len) = capacity;
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Whether a message that did not fit lacks payload, and not control data alone. An empty datagram lacks none.
pub(super) fn lacks_payload(header: &Header) -> bool {
    header.msg.dwFlags != MSG_CTRUNC
}

/// Returns `WouldBlock` if the socket is not ready. Windows has no flag for a non-blocking call.
#[cold]
fn check_ready(socket: BorrowedSocket<'_>, events: i16) -> io::Result<()> {
    match poll(socket, events, 0)? {
        0 => Err(io::Error::from_raw_os_error(WSAEWOULDBLOCK)),
        _ => Ok(()),
    }
}

/// Waits until the socket is readable or `timeout` passes, rounded up to milliseconds. Returns false if it was shut down.
pub(crate) fn wait_readable(socket: BorrowedSocket<'_>, timeout: Duration, _again: bool) -> bool {
    let millis = timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
    match poll(socket, POLLRDNORM, millis) {
        Ok(ready) if ready & POLLHUP != 0 => return false,
        Ok(ready) if ready & POLLRDNORM != 0 || ready == 0 => {}
        // An error that no receive returns must not cause a busy loop.
        _ => thread::sleep(timeout.min(Duration::from_millis(1))),
    }
    true
}

/// Waits for events, at most `millis`, and returns them.
fn poll(socket: BorrowedSocket<'_>, events: i16, millis: i32) -> io::Result<i16> {
    let mut poll = WSAPOLLFD { fd: handle(socket), events, revents: 0 };
    // SAFETY: `poll` is one writable WSAPOLLFD.
    match unsafe { WSAPoll(&mut poll, 1, millis) } {
        0.. => Ok(poll.revents),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends the message of header `i`. Without control data it uses `WSASendTo`, for which the system reads no header.
pub(in crate::sys) fn send_one(
    socket: BorrowedSocket<'_>,
    prepared: &mut PreparedSends<'_>,
    i: usize,
    flags: Flags,
) -> io::Result<()> {
    #[cfg(test)]
    if let Some(result) = super::tests::segments::send(socket, prepared, i) {
        return result;
    }
    #[cfg(test)]
    fault::next(Call::SendMsg, 1)?;
    if flags.contains(Flags::DONT_WAIT) {
        check_ready(socket, POLLWRNORM)?;
    }
    let (s, flags, mut sent, overlapped) = (handle(socket), 0, 0, ptr::null_mut());
    let msg = &prepared.as_slice()[i].msg;
    if msg.Control.len > 0 {
        // SAFETY: the header meets the invariant of PreparedSends.
        return check(unsafe { WSASendMsg(s, msg, flags, &mut sent, overlapped, None) });
    }
    let (buffers, count) = (msg.lpBuffers.cast_const(), msg.dwBufferCount);
    let (to, to_len) = (msg.name.cast_const(), msg.namelen);
    // SAFETY: the header meets the invariant of PreparedSends.
    check(unsafe { WSASendTo(s, buffers, count, &mut sent, flags, to, to_len, overlapped, None) })
}
