//! macOS: sends that would block for ever become EMSGSIZE.
//!
//! XNU (`sosendcheck` in bsd/kern/uipc_socket.c) rejects a datagram whose payload exceeds the send buffer, but waits for
//! space for payload and control data together. If only the payload fits, the call waits for ever, or returns
//! `EWOULDBLOCK` for ever: the buffer is empty already. Tests imitate that.

use std::io;

use socket2::SockRef;

use super::header::{Buffer, Header};
use super::socket::BorrowedSocket;
#[cfg(any(test, fuzzing))]
use crate::sys::fault;
use crate::sys::headers::PreparedSends;
use crate::sys::numbers;

/// Messages up to this length are not checked before the call: hardly any buffer is smaller, and reading its size takes a
/// tenth of the time of a send.
const MAX_UNCHECKED: usize = 2_048;

/// Sends message `i` by `call`.
///
/// # Errors
///
/// `EMSGSIZE` if the call would wait for ever; the error of `call`.
#[inline(always)]
pub(super) fn send(
    socket: BorrowedSocket<'_>,
    prepared: &PreparedSends<'_>,
    i: usize,
    call: impl FnOnce(&Header) -> io::Result<()>,
) -> io::Result<()> {
    let header = &prepared.as_slice()[i];
    let (_, control_len) = header.control();
    if control_len == 0 {
        return call(header);
    }
    let needed = control_len + prepared.buffers(i).iter().map(Buffer::len).sum::<usize>();
    let too_long = || io::Error::from_raw_os_error(numbers::EMSGSIZE);
    if needed > MAX_UNCHECKED && never_fits(socket, needed) {
        return Err(too_long());
    }
    call(header).map_err(|error| {
        let blocked = error.kind() == io::ErrorKind::WouldBlock;
        if blocked && never_fits(socket, needed) { too_long() } else { error }
    })
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
