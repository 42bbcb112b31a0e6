//! Unix: sockets as descriptors, headers in C's structs, and two backends that make the calls.

pub(super) mod calls;
mod clock;
mod cmsg;
mod fds;
pub(super) mod header;
pub(super) mod icmp;
#[cfg(mmsg_calls)]
mod mmsg;
mod msg;
mod path;
#[cfg(feature = "tokio")]
mod poll;
mod release;
mod send_space;
mod socket;

use std::io;

pub(crate) use clock::clock_time;
pub(crate) use cmsg::{
    CONTROL_LAYOUT, MICROSECONDS_LEN, is_about_the_option, option, set_option, set_option_bytes,
    set_transmit_clock,
};
pub(crate) use icmp::has_queued_messages;
pub(super) use path::{bytes_path, path_bytes};
#[cfg(feature = "tokio")]
pub(crate) use poll::has_error;
pub(crate) use release::kernel_release;
pub use socket::AsSocket;
pub(crate) use socket::{
    BorrowedSocket, borrow, conflicting_option, families, for_datagram_sockets, has_error_queue,
    has_segmentation, has_transmit_times, lend_socket, may_be_about_tos, peer_is_v4,
    reports_send_times, segmentation_rejected,
};
pub(super) use socket::{is_inet, waits};

/// Whether a multi-message call failed by this error because the process has no such calls.
#[cold]
pub(super) fn mmsg_is_missing(error: &io::Error) -> bool {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => true,
        // From a sandbox, or from a firewall for one datagram.
        #[cfg(mmsg_calls)]
        Some(libc::EPERM) => !mmsg::permitted(),
        _ => false,
    }
}
