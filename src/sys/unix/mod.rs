//! Unix: sockets as descriptors, headers in C's structs, and two backends that make the calls.

#[cfg(msg_x_calls)]
mod apple;
pub(super) mod call;
mod clock;
mod cmsg;
#[cfg(all(linux_like, feature = "tokio"))]
mod epoll;
pub(super) mod fds;
pub(super) mod header;
mod icmp;
#[cfg(mmsg_calls)]
mod mmsg;
pub(super) mod msg;
#[cfg(any(msg_x_calls, all(test, target_os = "linux")))]
mod msg_x;
mod path;
mod poll;
mod release;
mod retry;
#[cfg(linux_like)]
mod reuseport;
mod send_space;
mod socket;
mod tos;

pub(crate) use clock::clock_time;
pub(crate) use cmsg::{
    CONTROL_LAYOUT, MICROSECONDS_LEN, is_about_the_option, option, set_option, set_option_bytes,
    set_transmit_clock,
};
#[cfg(all(linux_like, feature = "tokio"))]
pub(crate) use epoll::{Events, has_error, is_shut_down};
pub(crate) use icmp::has_queued_messages;
#[cfg(feature = "tokio")]
pub(crate) use icmp::is_reported_once;
pub(super) use path::{bytes_path, path_bytes};
pub(crate) use release::kernel_release;
#[cfg(linux_like)]
pub(crate) use reuseport::{keep_to_cpus, leave_port, spread_by, wait_for_deliveries};
pub use socket::AsSocket;
pub(super) use socket::is_inet;
pub(crate) use socket::{
    BorrowedSocket, OwnedSocket, RawSocket, borrow, conflicting_option, families,
    for_datagram_sockets, has_error_queue, has_segmentation, has_transmit_times, lend_socket, peer,
    peer_is_v4, raw, reports_send_times, segmentation_rejected, socket_cookie, waits_for,
};
pub(crate) use tos::rejects_tos;

/// Whether the system has multi-message calls, be they out of use or not.
#[inline]
pub(super) fn has_batch_calls() -> bool {
    #[cfg(msg_x_calls)]
    return apple::calls().is_some();
    #[cfg(not(msg_x_calls))]
    return cfg!(mmsg_calls);
}
