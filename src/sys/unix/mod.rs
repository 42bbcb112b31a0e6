//! Unix: sockets as descriptors, headers in C's structs, and two backends that make the calls.

mod addr;
mod call;
mod cmsg;
#[cfg(all(linux_like, feature = "tokio"))]
mod epoll;
mod fds;
mod header;
mod headers;
mod icmp;
#[cfg(mmsg_calls)]
mod mmsg;
mod msg;
mod poll;
mod retry;
#[cfg(linux_like)]
mod reuseport;
mod socket;
mod zeroed;

pub(crate) use addr::{RawAddr, RawAddrRef, socket_addr};
pub(crate) use call::send_plain;
pub(crate) use cmsg::{
    CONTROL_LAYOUT, MICROSECONDS_LEN, is_about_the_option, option, set_option, set_transmit_clock,
};
#[cfg(all(linux_like, feature = "tokio"))]
pub(crate) use epoll::{Events, has_error, is_shut_down};
pub(crate) use headers::{RecvStorage, SendStorage, Singles, Slots, WiredBatches};
pub(crate) use icmp::has_arrivals;
#[cfg(linux_like)]
pub(crate) use reuseport::{keep_to_cpus, leave_port, spread_by, wait_for_deliveries};
pub(crate) use socket::{
    AsSocket, BorrowedSocket, OwnedSocket, RawSocket, borrow, conflicting_option, families,
    has_error_queue, has_segmentation, has_transmit_times, peer, raw, reports_send_times,
    segmentation_rejected, socket_cookie,
};
