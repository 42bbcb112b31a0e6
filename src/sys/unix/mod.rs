//! Unix: sockets as descriptors, headers in C's structs, and two backends that make the calls.

mod addr;
mod call;
mod cmsg;
mod domain;
#[cfg(all(linux_like, feature = "tokio"))]
mod epoll;
mod fds;
mod headers;
#[cfg(mmsg_calls)]
mod mmsg;
mod msg;
mod retry;
mod zeroed;

pub(crate) use addr::{RawAddr, RawAddrRef, socket_addr};
pub(crate) use call::{
    AsSocket, BorrowedSocket, OwnedSocket, RawSocket, borrow, conflicting_option, has_segmentation,
    is_from_network, raw, reports_send_times, segmentation_rejected, send_plain, socket_cookie,
};
pub(crate) use cmsg::{
    CONTROL_LAYOUT, MICROSECONDS_LEN, is_about_the_option, option, set_option, set_transmit_clock,
};
pub(crate) use domain::{families, has_error_queue, has_transmit_times};
#[cfg(all(linux_like, feature = "tokio"))]
pub(crate) use epoll::{Events, has_error, is_shut_down};
pub(crate) use headers::{Headers, Singles, Slots, WiredBatches};
