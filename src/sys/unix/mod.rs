//! Unix: sockets are descriptors, headers are C's structs, and there are two backends.

pub(super) mod calls;
mod cmsg;
mod fds;
pub(super) mod header;
pub(super) mod icmp;
#[cfg(mmsg_calls)]
mod mmsg;
mod send_space;
mod socket;
mod system;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(crate) use cmsg::{
    CONTROL_LAYOUT, MICROSECONDS_LEN, is_about_the_option, option, set_option_bytes,
};
pub use socket::AsSocket;
pub(crate) use socket::{
    BorrowedSocket, borrow, families, for_datagram_sockets, has_error_queue, impl_as_socket,
    may_be_about_tos, segmentation_rejected,
};
pub(super) use socket::{is_inet, waits};
#[cfg(feature = "tokio")]
pub(crate) use system::has_error;
pub(crate) use system::{clock_time, kernel_release, wait_readable};

/// The bytes of a path in an address.
pub(super) fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The path of the bytes. Any bytes are a path on Unix, but not on Windows.
pub(super) fn bytes_path(bytes: &[u8]) -> Option<&Path> {
    Some(Path::new(OsStr::from_bytes(bytes)))
}

/// Whether this error of a multi-message call means that the process cannot make such calls.
#[cold]
pub(super) fn mmsg_is_missing(error: &io::Error) -> bool {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => true,
        // A sandbox forbids the call, or a firewall rejects one datagram.
        #[cfg(mmsg_calls)]
        Some(libc::EPERM) => !mmsg::permitted(),
        _ => false,
    }
}
