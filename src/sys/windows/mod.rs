//! Windows: the calls of Winsock, one message each.
//!
//! There is no multi-message call. A receive waits for its first message and takes further ones by calls
//! that do not wait.

pub(super) mod call;
pub(super) mod fds;
pub(super) mod header;
mod options;
mod overlapped;
mod retry;
#[cfg(test)]
mod segments;
mod socket;
#[cfg(test)]
mod tests;

#[cfg(feature = "tokio")]
pub(crate) use call::is_reported_once;
pub(crate) use options::{
    CONTROL_LAYOUT, MICROSECONDS_LEN, has_queued_messages, is_about_the_option, option, set_option,
    set_option_bytes,
};
pub use socket::AsSocket;
pub(super) use socket::is_inet;
pub(crate) use socket::{
    BorrowedSocket, OwnedSocket, RawSocket, borrow, conflicting_option, families,
    for_datagram_sockets, has_error_queue, has_segmentation, has_transmit_times, lend_socket, peer,
    peer_is_v4, raw, reports_send_times, segmentation_rejected, set_transmit_clock, socket_cookie,
    waits_for,
};

use std::io;
use std::path::Path;
use std::str;
use std::time::Duration;

use windows_sys::Win32::Networking::WinSock::SOCKET;

/// The socket as the system calls take it.
#[inline]
fn handle(socket: BorrowedSocket<'_>) -> SOCKET {
    use std::os::windows::io::AsRawSocket;
    // A `RawSocket` is as wide as a pointer, and so is this.
    socket.as_raw_socket() as SOCKET
}

/// The error of the thread's last call.
#[inline]
fn last_error() -> io::Error {
    io::Error::last_os_error()
}

pub(crate) fn clock_time(_: i32) -> io::Result<Duration> {
    Err(io::ErrorKind::Unsupported.into())
}

/// No release is known to mangle segmented sends.
pub(crate) fn kernel_release() -> Option<String> {
    None
}

pub(crate) fn rejects_tos(_: BorrowedSocket<'_>) -> bool {
    false
}

/// No datagram socket of the Unix family exists here.
pub(super) fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

pub(super) fn bytes_path(bytes: &[u8]) -> Option<&Path> {
    str::from_utf8(bytes).ok().map(Path::new)
}

/// Windows has no multi-message calls.
pub(super) fn has_batch_calls() -> bool {
    false
}
