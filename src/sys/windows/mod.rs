//! Windows: Winsock's calls, which move one message each. A receive takes one message, a send makes a call for each.

pub(super) mod calls;
pub(super) mod header;
pub(super) mod icmp;
mod options;
mod socket;
#[cfg(test)]
mod tests;

pub(crate) use calls::wait_readable;
pub(super) use options::{CMSG_ALIGN, CMSG_DATA_OFFSET, CMSG_LEN_BYTES};
pub(crate) use options::{
    MICROSECONDS_LEN, is_about_the_option, option, option_bytes, set_option_bytes,
};
pub use socket::AsSocket;
pub(crate) use socket::{
    BorrowedSocket, borrow, families, for_datagram_sockets, has_error_queue, has_filter,
    impl_as_socket, segmentation_rejected,
};
pub(super) use socket::{is_inet, waits};

use std::io;
use std::time::Duration;

use windows_sys::Win32::Networking::WinSock::SOCKET;

/// The socket as the system calls take it.
fn handle(socket: BorrowedSocket<'_>) -> SOCKET {
    use std::os::windows::io::AsRawSocket;
    // Both types are as wide as a pointer.
    socket.as_raw_socket() as SOCKET
}

/// Turns the return value of the thread's last call into a result.
fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn clock_time(_: i32) -> io::Result<Duration> {
    Err(io::ErrorKind::Unsupported.into())
}

/// No release is known to damage segmented sends.
pub(crate) fn kernel_release() -> Option<String> {
    None
}

/// No kernel is known to reject a TOS.
pub(crate) fn may_be_about_tos(_: &io::Error) -> bool {
    false
}

/// tokio's readiness is right on Windows.
#[cfg(feature = "tokio")]
pub(crate) fn has_space(_: BorrowedSocket<'_>) -> bool {
    true
}

/// An event follows each refused send.
#[cfg(feature = "tokio")]
pub(crate) fn is_other_unix() -> bool {
    false
}

/// Windows has no error queue, and tokio's readiness shows other errors.
#[cfg(feature = "tokio")]
pub(crate) fn has_error(_: BorrowedSocket<'_>) -> bool {
    false
}
