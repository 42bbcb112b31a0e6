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
//!   - an interrupted call (`EINTR`) is made again, within the socket's timeout;
//!   - every field of a received message is set from what this call returned.
//! - [`Slots`]: payload memory with its headers in place, with the same receive.
//! - `send_plain`, for one message by itself.
//! - [`RawAddr`], [`RawAddrRef`]: an address in the system's own form, owned and lent.
//! - `has_segmentation`, `segmentation_refused` and `wait_writable`, for trains.
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
mod retry;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
mod zeroed;
#[cfg(unix)]
pub(crate) use self::{
    addr::{RawAddr, RawAddrRef, socket_addr},
    cmsg::{
        CONTROL_LAYOUT, MICROSECONDS_LEN, is_about_the_option, option, set_option,
        set_transmit_clock,
    },
    headers::{Headers, Singles, Slots},
    msg::wait_writable,
    unix::{
        AsSocket, BorrowedSocket, RawSocket, borrow, families, has_segmentation, raw,
        segmentation_refused, send_plain, socket_id,
    },
};

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use self::windows::{
    AsSocket, BorrowedSocket, CONTROL_LAYOUT, Headers, MICROSECONDS_LEN, RawAddr, RawAddrRef,
    RawSocket, Singles, Slots, borrow, families, has_segmentation, is_about_the_option, option,
    raw, segmentation_refused, send_plain, set_option, set_transmit_clock, socket_addr, socket_id,
    wait_writable,
};

#[cfg(not(any(unix, windows)))]
compile_error!("mmsg is for Unix and Windows: this target has no sockets that it knows");

use std::io;

use crate::segment::Run;

/// The most messages of one system call: `UIO_MAXIOV` in the Linux kernel, which cuts longer
/// batches there without a word (`__sys_sendmmsg` in net/socket.c).
pub(crate) const MAX_BATCH: usize = 1024;

/// The most buffers of one message: `IOV_MAX` of every Unix (limits.h), and `UIO_MAXIOV` in the Linux
/// kernel.
pub(crate) const MAX_BUFFERS: usize = if cfg!(unix) { 1024 } else { usize::MAX };

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
    /// System calls made.
    pub(crate) calls: usize,
}

/// A header's worth of messages: one, or a run of them.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(one_by_one, allow(dead_code))]
pub(crate) struct Train {
    /// Messages in it.
    pub(crate) count: usize,
    pub(crate) bytes: usize,
    /// Length of each message but the last.
    pub(crate) segment: usize,
    /// The segment size that its only message had from the caller.
    pub(crate) own_segment_size: Option<u16>,
}

impl Train {
    /// Whether the kernel is asked to cut it.
    pub(crate) fn is_segmented(&self) -> bool {
        self.count > 1 || self.own_segment_size.is_some()
    }

    /// What it is on the wire.
    fn datagrams(&self) -> usize {
        match self.own_segment_size {
            None => self.count,
            Some(size) => self.bytes.div_ceil(usize::from(size).max(1)).max(1),
        }
    }
}

/// Why the kernel may refuse to cut a train where a datagram would go.
#[cfg_attr(one_by_one, allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no segmentation on the way out.
    Unsupported,
    /// These segments are too long.
    Size,
}

impl From<&Run<'_>> for Train {
    #[inline]
    fn from(run: &Run<'_>) -> Self {
        Self {
            count: run.count(),
            bytes: run.bytes(),
            segment: run.segment(),
            own_segment_size: run.own_segment_size(),
        }
    }
}

/// What trains have moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) datagrams: usize,
    pub(crate) bytes: usize,
    /// Trains of two and more, and the datagrams in them.
    pub(crate) trains: usize,
    pub(crate) segments: usize,
}

impl<'a> FromIterator<&'a Train> for Moved {
    #[inline]
    fn from_iter<I: IntoIterator<Item = &'a Train>>(trains: I) -> Self {
        trains.into_iter().fold(Self::default(), |mut moved, train| {
            let datagrams = train.datagrams();
            moved.datagrams += datagrams;
            moved.bytes += train.bytes;
            if datagrams > 1 {
                moved.trains += 1;
                moved.segments += datagrams;
            }
            moved
        })
    }
}

/// What a step of trains came to; its count is of messages.
#[derive(Debug)]
pub(crate) struct TrainStep {
    pub(crate) step: Step,
    /// Messages that were to be moved.
    pub(crate) offered: usize,
    pub(crate) moved: Moved,
    /// The header that was not sent, if one was not.
    pub(crate) stopped_at: Option<Train>,
}

impl Step {
    pub(crate) const fn moved(count: usize) -> Self {
        Self { count, error: None, ended: false, calls: 1 }
    }

    pub(crate) const fn stopped(count: usize, error: io::Error) -> Self {
        Self { count, error: Some(error), ended: false, calls: 1 }
    }

    /// The same, if a receive met the end of the socket in place of message `end`. That nothing more
    /// is waiting is no news then.
    #[cfg_attr(one_by_one, allow(dead_code))]
    pub(crate) fn ended_at(self, end: Option<usize>) -> Self {
        let Some(count) = end else { return self };
        let error = self.error.filter(|error| error.kind() != io::ErrorKind::WouldBlock);
        Self { count, error, ended: true, ..self }
    }

    /// The same, after so many system calls.
    #[cfg_attr(one_by_one, allow(dead_code))]
    pub(crate) const fn after(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }
}
