//! Messages that never fit the send buffer of macOS.
//!
//! XNU (`sosendcheck` in bsd/kern/uipc_socket.c) rejects a datagram whose payload exceeds the send buffer, but waits for
//! space for payload and control data together. If only the payload fits, the call waits for ever, or returns
//! `EWOULDBLOCK` for ever: the buffer is empty already.

use std::io;

use socket2::SockRef;

use super::socket::BorrowedSocket;
#[cfg(any(test, fuzzing))]
use crate::sys::fault;
use crate::sys::numbers;

/// Whether sends wait for space for control data too: on Apple's systems, and in tests that imitate them.
const COUNTS_CONTROL: bool = cfg!(any(target_vendor = "apple", test, fuzzing));
/// Messages up to this length are not checked before the call: hardly any buffer is smaller, and reading its size takes a
/// tenth of the time of a send.
const MAX_UNCHECKED: usize = 2_048;

/// Bytes of the send buffer that a message takes, if it has control data and the system counts control data. `len` returns
/// the length of its payload.
#[inline(always)]
pub(super) fn needed(control_len: usize, len: impl FnOnce() -> usize) -> Option<usize> {
    (COUNTS_CONTROL && control_len > 0).then(|| control_len + len())
}

/// Checks a long message before the call.
///
/// # Errors
///
/// `EMSGSIZE` if the call would wait for ever.
#[inline(always)]
pub(super) fn check(socket: BorrowedSocket<'_>, needed: Option<usize>) -> io::Result<()> {
    match needed {
        Some(len) if len > MAX_UNCHECKED && never_fits(socket, len) => Err(too_long()),
        _ => Ok(()),
    }
}

/// Replaces `EWOULDBLOCK` by `EMSGSIZE` if the send would return it for ever.
#[inline(always)]
pub(super) fn correct_error(
    socket: BorrowedSocket<'_>,
    needed: Option<usize>,
    error: io::Error,
) -> io::Error {
    match needed {
        Some(len) if error.kind() == io::ErrorKind::WouldBlock && never_fits(socket, len) => {
            too_long()
        }
        _ => error,
    }
}

fn too_long() -> io::Error {
    io::Error::from_raw_os_error(numbers::EMSGSIZE)
}

/// Whether `len` bytes exceed the whole send buffer.
#[cold]
fn never_fits(socket: BorrowedSocket<'_>, len: usize) -> bool {
    #[cfg(any(test, fuzzing))]
    if let Some(size) = fault::send_buffer() {
        return len > size;
    }
    cfg!(target_vendor = "apple")
        && SockRef::from(&socket).send_buffer_size().is_ok_and(|size| len > size)
}
