//! Unix: sockets are descriptors, headers are C's structs, and there are two backends.

pub(super) mod calls;
mod cmsg;
mod fds;
pub(super) mod header;
pub(super) mod icmp;
mod send_space;
mod socket;
mod system;

pub(super) use cmsg::{CMSG_ALIGN, CMSG_DATA_OFFSET, CMSG_LEN_BYTES};
pub(crate) use cmsg::{
    MICROSECONDS_LEN, has_filter, is_about_the_option, option, option_bytes, set_option_bytes,
};
pub(super) use send_space::until_space;
pub use socket::AsSocket;
pub(crate) use socket::{
    BorrowedSocket, borrow, families, for_datagram_sockets, has_error_queue, impl_as_socket,
    may_be_about_tos, segmentation_rejected,
};
pub(super) use socket::{is_inet, waits};
pub(crate) use system::is_other_unix;
pub(super) use system::wait_for_message;
pub(crate) use system::{clock_time, kernel_release, wait_readable};
#[cfg(feature = "tokio")]
pub(crate) use system::{has_error, has_space};
