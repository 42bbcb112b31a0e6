//! The system beneath: everything that differs between targets, and every system call.
//!
//! # What a target must bring
//!
//! - `AsSocket`, `BorrowedSocket`, `borrow`: the standard library's trait and type of a lent
//!   socket.
//! - [`Headers`]: memory for the headers of up to [`MAX_BATCH`] messages, which grows by
//!   `reserve` and gives back by `shrink_to`, with `recv` and `send`:
//!   - they take messages in order, at most as many as there is room for, and say in a [`Step`]
//!     how many were moved, and which error, if any, met the one after them;
//!   - an error of which the system itself keeps account (it will be met again) may be left out
//!     once a message was moved; any other must be in the step: nothing is lost;
//!   - a receive waits for its first message only, and for none with `RecvFlags::DONT_WAIT`;
//!   - an interrupted call (`EINTR`) is made again;
//!   - every field of a received message is set from what this call returned.
//! - [`Slots`]: payload memory with its headers in place, with the same receive.
//! - `raw` and `socket_id`, to find a socket again; `families`, which it carries.
//! - [`kinds`]: the numbers of control messages and options, `CONTROL_LAYOUT`, `socket_addr` (a
//!   `sockaddr` out of bytes), `option` and `set_option`.
//!
//! On Unix, [`headers`] holds the memory, and one of two backends makes the calls:
//! [`mmsg`] many messages at once, [`msg`] one by one. [`backend`] chooses. Windows is one module.

mod backend;
#[cfg(test)]
pub(crate) mod fault;
pub(crate) mod kinds;

pub use backend::Backend;

#[cfg(unix)]
mod addr;
#[cfg(unix)]
mod cmsg;
#[cfg(unix)]
mod headers;
#[cfg(all(unix, mmsg_calls))]
mod mmsg;
#[cfg(unix)]
mod msg;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
mod zeroed;
#[cfg(unix)]
pub(crate) use self::{
    addr::socket_addr,
    cmsg::{CONTROL_LAYOUT, is_about_the_option, option, set_option, set_transmit_clock},
    headers::{Headers, Slots},
    unix::{AsSocket, BorrowedSocket, RawSocket, borrow, families, raw, socket_id},
};

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use self::windows::{
    AsSocket, BorrowedSocket, CONTROL_LAYOUT, Headers, RawSocket, Slots, borrow, families,
    is_about_the_option, option, raw, set_option, set_transmit_clock, socket_addr, socket_id,
};

#[cfg(not(any(unix, windows)))]
compile_error!("mmsg is for Unix and Windows: this target has no sockets that it knows");

use std::io;

/// The most messages of one system call: `UIO_MAXIOV` in the Linux kernel, which cuts longer
/// batches there without a word (`__sys_sendmmsg` in net/socket.c).
pub(crate) const MAX_BATCH: usize = 1024;

/// Which Internet families a socket carries: an IPv6 socket may carry both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Families {
    pub(crate) v4: bool,
    pub(crate) v6: bool,
}

/// What one step of a batch came to.
#[derive(Debug)]
pub(crate) struct Step {
    /// Messages moved.
    pub(crate) count: usize,
    /// What met the message after them, if the system said so.
    pub(crate) error: Option<io::Error>,
    /// Whether the socket is shut down for receiving: nothing further will come.
    pub(crate) ended: bool,
}

impl Step {
    pub(crate) const fn moved(count: usize) -> Self {
        Self { count, error: None, ended: false }
    }

    pub(crate) const fn stopped(count: usize, error: io::Error) -> Self {
        Self { count, error: Some(error), ended: false }
    }
}
