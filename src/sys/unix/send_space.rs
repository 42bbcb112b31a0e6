//! Messages that can never pass the send buffer of macOS.
//!
//! XNU (`sosendcheck` in bsd/kern/uipc_socket.c) compares a datagram's payload with the size of the send
//! buffer, and payload and control data together with the space in it. If only the payload fits, the call
//! waits for ever, or returns `EWOULDBLOCK` for ever: nothing is in the buffer that could leave.

use std::io;

use socket2::SockRef;

use super::socket::BorrowedSocket;
#[cfg(any(test, fuzzing))]
use crate::sys::fault;
use crate::sys::numbers;

/// Whether the system counts control data like this, or a test says that it does.
const COUNTS_CONTROL: bool = cfg!(any(target_vendor = "apple", test, fuzzing));
/// A blocking send would wait, so the size of the buffer is read before the call, but only for messages of at
/// least this length: reading it takes a tenth of a send, and hardly any buffer is so small.
const MIN_CHECKED_LEN: usize = 2_048;

/// Bytes of the send buffer that a message takes, if it has control data and the system counts these. `len` is asked
/// for the length of its payload.
#[inline(always)]
pub(super) fn needed(control_len: usize, len: impl FnOnce() -> usize) -> Option<usize> {
    (COUNTS_CONTROL && control_len > 0).then(|| control_len + len())
}

/// Checks a long message before it is sent.
///
/// # Errors
///
/// `EMSGSIZE` if it would wait for ever.
#[inline(always)]
pub(super) fn check(socket: BorrowedSocket<'_>, needed: Option<usize>) -> io::Result<()> {
    match needed {
        Some(len) if len > MIN_CHECKED_LEN && never_fits(socket, len) => Err(too_long()),
        _ => Ok(()),
    }
}

/// `EMSGSIZE` in place of the error of a send that would return `EWOULDBLOCK` for ever.
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

/// Whether a message that takes `len` bytes of the send buffer is longer than all of it.
#[cold]
fn never_fits(socket: BorrowedSocket<'_>, len: usize) -> bool {
    #[cfg(any(test, fuzzing))]
    if let Some(size) = fault::send_buffer() {
        return len > size;
    }
    cfg!(target_vendor = "apple")
        && SockRef::from(&socket).send_buffer_size().is_ok_and(|size| len > size)
}
