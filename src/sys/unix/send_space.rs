//! What other kernels than Linux say of a send without space, in Linux' words.
//!
//! On macOS, sends that would block for ever become EMSGSIZE. XNU (`sosendcheck` in bsd/kern/uipc_socket.c) rejects a
//! datagram whose payload exceeds the send buffer, but waits for space for payload and control data together. If only the
//! payload fits, the call waits for ever, or returns `EWOULDBLOCK` for ever: the buffer is empty already. Tests imitate that.
//!
//! On the BSDs and Apple's systems a send on a Unix socket does not wait for space in the receiver's queue, but fails with
//! ENOBUFS (`uipc_sosend_dgram` in FreeBSD's sys/kern/uipc_usrreq.c). A short message waits nevertheless. A longer one may
//! exceed the receiver's whole buffer, whose size the sender does not know.

#![cfg_attr(not(target_vendor = "apple"), allow(dead_code))] // `send` is macOS's.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::header::{Buffer, Header};
use super::socket::{BorrowedSocket, is_inet, waits};
use super::system::is_other_unix;
#[cfg(any(test, fuzzing))]
use crate::sys::fault;
use crate::sys::flags::Flags;
use crate::sys::headers::PreparedSends;
use crate::sys::numbers;

/// Messages up to this length are not checked before the call, and wait for space in a queue: hardly any buffer is smaller.
/// Reading its size takes a tenth of the time of a send.
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

/// Makes `call` again, each millisecond while the socket would wait, if `error` says that the receiver's queue is full.
///
/// # Errors
///
/// `EAGAIN` if the socket does not wait, or no longer; else the last error.
#[cold]
pub(crate) fn until_space(
    socket: BorrowedSocket<'_>,
    prepared: &mut PreparedSends<'_>,
    flags: Flags,
    mut error: io::Error,
    call: impl Fn(BorrowedSocket<'_>, &mut PreparedSends<'_>, Flags) -> io::Result<usize>,
) -> io::Result<usize> {
    let len = || prepared.buffers(0).iter().map(Buffer::len).sum::<usize>();
    if !is_other_unix() || is_inet(socket) || len() > MAX_UNCHECKED {
        return Err(error);
    }
    let waits = !flags.contains(Flags::DONT_WAIT) && waits(socket) != Some(false);
    let timeout =
        if waits { SockRef::from(&socket).write_timeout()? } else { Some(Duration::ZERO) };
    let start = Instant::now();
    while error.raw_os_error() == Some(libc::ENOBUFS) {
        if timeout.is_some_and(|timeout| start.elapsed() >= timeout) {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        thread::sleep(Duration::from_millis(1));
        match call(socket, prepared, flags) {
            Err(next) => error = next,
            sent => return sent,
        }
    }
    Err(error)
}

/// Whether `len` bytes exceed the whole send buffer.
#[cold]
fn never_fits(socket: BorrowedSocket<'_>, len: usize) -> bool {
    #[cfg(any(test, fuzzing))]
    if let Some(size) = fault::send_buffer() {
        return len > size;
    }
    is_other_unix() && SockRef::from(&socket).send_buffer_size().is_ok_and(|size| len > size)
}
