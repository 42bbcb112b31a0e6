//! Everything that differs between targets, and every system call.
//!
//! # What a target must provide
//!
//! - `AsSocket`, `BorrowedSocket`, `OwnedSocket`, `borrow`: the standard library's trait and
//!   types of a borrowed and an owned socket; on Unix those of any descriptor.
//! - The macros `for_datagram_sockets`, over the types of sockets that there are, and `lend_socket`, which
//!   implements `AsSocket`.
//! - [`SendStorage`]: memory for the headers of a send of up to [`MAX_BATCH`] messages, which grows
//!   by `reserve` and shrinks by `shrink_to`. Its `begin` lends a builder, [`SendHeaders`], that takes
//!   bytes and knows no messages:
//!   - `push` and `push_gathered` begin a header, [`OpenHeader`], for a destination and its buffers;
//!     `extend` adds buffers, `set_control`, `encode_control` and `share_control` give it control data, and
//!     `complete` counts it. A header that is not complete is not sent;
//!   - `set_unix_dest` gives a header the address of a Unix socket, where there are such addresses;
//!   - `has_capacity` says whether another one fits, in an empty builder at least one of any size;
//!   - `send` sends complete headers, `send_segments` the datagrams of one, a GSO batch, one by one.
//! - `SingleHeader` sends a message or a GSO batch by a header on the stack.
//! - [`RecvStorage`]: memory for the headers of a receive, whose `wire` gives [`RecvHeaders`]: these take
//!   each message's memory by `push`, and `recv` fills it. `recv_buffers` does both for messages of one
//!   buffer. Then `rows` has what the system reported of each message, as bytes and plain values.
//! - Of both directions, each system call:
//!   - takes messages in order and returns a [`CallResult`]: how many were transferred, and the error of
//!     the message after them, if any;
//!   - after a partial transfer may omit an error that the next call will meet again, and no other: no
//!     error is lost;
//!   - is repeated within the socket's timeout if it was interrupted (`EINTR`).
//! - Of a receive:
//!   - it waits for its first message only, and for none with `RecvFlags::DONT_WAIT`;
//!   - every field of a received message is set from what this call returned;
//!   - received descriptors are owned by the message or the slots, or closed, before the call
//!     returns.
//! - [`Slots`]: payload memory with its headers in place, with the same receive and the same rows.
//! - [`RawAddr`], [`RawAddrRef`], [`AddrSpace`]: an Internet address in the system's own form, owned
//!   and borrowed, and memory for one. [`UnixAddrBuf`]: memory for that of a Unix socket, too; `unix_addr` reads the bytes
//!   that it encodes.
//! - `peer_is_v4`, for options on a connected socket; `has_segmentation`, `segmentation_rejected`,
//!   `conflicting_option`, `reports_send_times` and `peer`, for sends with GSO; `has_queued_messages`, for receives with GRO.
//! - `kernel_release`, as text, if the system has GSO.
//! - `rejects_tos`, whether the kernel rejected the TOS of a message on the socket.
//! - `raw`, `local_port` and `socket_cookie`, to find a socket again; `families`, which it carries;
//!   `has_error_queue` and `has_transmit_times`, whether it has those; `waits_for`, how long its receives wait.
//! - `spread_by`, `leave_port`, `wait_for_deliveries`, `keep_to_cpus`: for groups of sockets on one
//!   port.
//! - For the feature `tokio`: `has_error`, `is_shut_down` and `is_reported_once`; `Events` where there is epoll.
//! - [`numbers`]: the numbers of control messages and options, `CONTROL_LAYOUT`, `socket_addr` (a
//!   `sockaddr` out of bytes), `option`, `set_option` and `set_option_bytes`; `clock_time` of a clock
//!   by its number.
//!
//! All targets share `headers` (the memory), `zeroed` and `addr` (addresses as bytes), which ask of a
//! target's own folder:
//!
//! - `header::Header` and `header::Buffer`, the C structs behind methods of one name everywhere;
//! - `call::send` and `call::recv`, which make the system calls on wired headers, and `call::send_plain`, which sends
//!   one buffer without options and needs none;
//! - `fds::ReceivedFds`, `is_inet`, `path_bytes`, `bytes_path`, and `has_batch_calls` for [`backend`].
//!
//! On Unix one of two backends makes the calls, `mmsg` many messages at once (`msg_x` on Apple's systems), `msg` one by
//! one: [`backend`] chooses. Windows has the second alone.

mod addr;
mod backend;
pub(crate) mod control_message;
#[cfg(any(test, fuzzing))]
pub(crate) mod fault;
mod flags;
mod headers;
mod layout;
pub(crate) mod numbers;
mod unix_addr;
mod zeroed;

pub use backend::Backend;
pub use control_message::{ControlMessage, ControlMessages};
pub(crate) use flags::flag_set;
pub use flags::{RecvFlags, SendFlags};
pub use layout::CONTROL_SPACE;
pub(crate) use layout::Layout;
pub use unix_addr::UnixAddr;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
use self::unix as native;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
use self::windows as native;

#[cfg(not(any(unix, windows)))]
compile_error!("mmsg is for Unix and Windows: this target has no sockets that it knows");

pub use self::addr::UnixAddrBuf;
pub(crate) use self::addr::{AddrSpace, RawAddr, RawAddrRef, socket_addr, unix_addr};
pub(crate) use self::headers::{
    Extension, OpenHeader, Others, RecvHeaders, RecvStorage, Row, SendHeaders, SendStorage,
    SingleHeader, SlotIter, SlotIterMut, Slots, Storage,
};
pub use self::native::AsSocket;
pub(crate) use self::native::{
    BorrowedSocket, CONTROL_LAYOUT, MICROSECONDS_LEN, OwnedSocket, RawSocket, borrow, clock_time,
    conflicting_option, families, for_datagram_sockets, has_error_queue, has_queued_messages,
    has_segmentation, has_transmit_times, is_about_the_option, kernel_release, lend_socket, option,
    peer, peer_is_v4, raw, rejects_tos, reports_send_times, segmentation_rejected, set_option,
    set_option_bytes, set_transmit_clock, socket_cookie, waits_for,
};

#[cfg(feature = "tokio")]
pub(crate) use self::native::is_reported_once;

#[cfg(all(not(linux_like), feature = "tokio"))]
pub(crate) use self::no_epoll::{has_error, is_shut_down};
#[cfg(all(linux_like, feature = "tokio"))]
pub(crate) use self::unix::{Events, has_error, is_shut_down};

/// These systems have no error queue, and tokio's readiness reports a shutdown.
#[cfg(all(not(linux_like), feature = "tokio"))]
mod no_epoll {
    use super::BorrowedSocket;

    pub(crate) fn has_error(_: BorrowedSocket<'_>) -> bool {
        false
    }

    pub(crate) fn is_shut_down(_: BorrowedSocket<'_>) -> bool {
        false
    }
}

#[cfg(not(linux_like))]
pub(crate) use self::no_group::{keep_to_cpus, leave_port, spread_by, wait_for_deliveries};
#[cfg(linux_like)]
pub(crate) use self::unix::{keep_to_cpus, leave_port, spread_by, wait_for_deliveries};

/// These systems spread datagrams over sockets in their own way, or not at all.
#[cfg(not(linux_like))]
mod no_group {
    use std::io;

    use super::{BorrowedSocket, Instruction};

    pub(crate) fn spread_by(_: BorrowedSocket<'_>, _: &[Instruction]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn leave_port(_: BorrowedSocket<'_>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn wait_for_deliveries() {}

    pub(crate) fn keep_to_cpus(_: impl Fn(usize) -> bool) {}
}

use std::io;
use std::net::SocketAddr;

use socket2::SockRef;

/// The most messages of one system call: `UIO_MAXIOV` in the Linux kernel, which silently
/// truncates longer batches (`__sys_sendmmsg` in net/socket.c).
pub(crate) const MAX_BATCH: usize = 1024;

/// The most buffers of one message: `IOV_MAX` of every Unix (limits.h), and `UIO_MAXIOV` in the Linux
/// kernel. Windows names no limit.
pub(crate) const MAX_BUFFERS: usize = 1024;

/// The most segments of a GSO batch.
pub(crate) const MAX_SEGMENTS: usize = numbers::MAX_SEGMENTS;

/// A destination, if there is one.
#[derive(Clone, Copy)]
pub(crate) enum DestRef<'m, 'a> {
    /// A `SocketAddr` in the message.
    Addr(Option<&'m SocketAddr>),
    /// An Internet address in the system's form, in memory that the message borrows.
    Raw(RawAddrRef<'a>),
    /// That of a Unix socket.
    Unix(UnixAddr<'a>),
}

impl DestRef<'_, '_> {
    /// The Internet address.
    pub(crate) fn get(self) -> Option<SocketAddr> {
        match self {
            DestRef::Addr(dest) => dest.copied(),
            DestRef::Raw(dest) => dest.get(),
            DestRef::Unix(_) => None,
        }
    }

    /// Whether the Internet address is of IPv4, or one of IPv4 mapped to IPv6.
    #[inline]
    pub(crate) fn is_v4(self) -> Option<bool> {
        match self {
            DestRef::Addr(Some(SocketAddr::V4(_))) => Some(true),
            _ => self.get().map(|dest| dest.ip().to_canonical().is_ipv4()),
        }
    }
}

/// The port that the socket is bound to; 0 if there is none.
#[cold]
pub(crate) fn local_port(socket: BorrowedSocket<'_>) -> u16 {
    let local = SockRef::from(&socket).local_addr().ok().and_then(|local| local.as_socket());
    local.map_or(0, |local| local.port())
}

/// Sends one message of one buffer without options. It needs no header.
#[inline]
pub(crate) fn send_plain(
    socket: BorrowedSocket<'_>,
    dest: DestRef<'_, '_>,
    data: &[u8],
    flags: SendFlags,
) -> io::Result<()> {
    let mut name = [0; addr::NAME_LEN];
    let len = addr::encode_dest(dest, &mut name);
    native::call::send_plain(socket, &name[..len], data, flags)
}

/// Which Internet families a socket carries: an IPv6 socket may carry both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Families {
    pub(crate) v4: bool,
    pub(crate) v6: bool,
}

/// An instruction of a classic BPF program: `struct sock_filter` (include/uapi/linux/filter.h).
#[cfg_attr(not(linux_like), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    /// Instructions to skip if a condition holds, and if it does not.
    pub(crate) if_true: u8,
    pub(crate) if_false: u8,
    pub(crate) k: u32,
}

/// Which way a call moves messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Receive,
    Send,
}

/// The result of one system call, or of a call for each message.
#[derive(Debug)]
pub(crate) struct CallResult {
    /// Messages transferred.
    pub(crate) count: usize,
    /// The error of the message after them, if the system reported one.
    pub(crate) error: Option<io::Error>,
    /// Whether the error of a send is about an earlier datagram, as far as can be known: the system
    /// reports it once, and the message at hand does not meet it again.
    pub(crate) reported_once: bool,
    /// Whether the socket is shut down for receiving: nothing further will come.
    pub(crate) ended: bool,
    /// System calls made.
    pub(crate) calls: usize,
}

/// What a receive reports about one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvResult {
    /// Bytes of payload: more than the buffers' capacity if the system reports the full length of a
    /// truncated message.
    pub(crate) len: usize,
    /// Whether payload is missing (`MSG_TRUNC`).
    pub(crate) truncated: bool,
    /// Whether control messages are missing (`MSG_CTRUNC`).
    pub(crate) control_truncated: bool,
    /// Bytes of the source address: more than its memory if it was truncated.
    pub(crate) source_len: usize,
    /// Bytes of control data that were written.
    pub(crate) control_len: usize,
}

/// What one header carries: a message, or several messages as a GSO batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GsoBatch {
    /// Messages in it.
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    /// Length of each datagram but the last, which may be shorter.
    pub(crate) segment: usize,
}

impl GsoBatch {
    /// Whether it is more than one datagram on the wire.
    pub(crate) fn is_segmented(&self) -> bool {
        self.bytes > self.segment
    }

    /// Whether it is one message whose segment size is the caller's.
    pub(crate) fn is_callers(&self) -> bool {
        self.messages == 1 && self.is_segmented()
    }

    /// Datagrams on the wire.
    pub(crate) fn datagrams(&self) -> usize {
        match self.messages {
            1 if self.is_segmented() => self.bytes.div_ceil(self.segment),
            messages => messages,
        }
    }

    /// Bytes before datagram number `i`.
    pub(crate) fn offset(&self, i: usize) -> usize {
        i.saturating_mul(self.segment).min(self.bytes)
    }
}

/// What a header to be sent points to.
#[derive(Clone, Debug)]
pub(crate) struct Memory<'a, P> {
    pub(crate) name: &'a [u8],
    pub(crate) control: &'a [u8],
    /// Buffer by buffer.
    pub(crate) payload: P,
}

/// Why the kernel may reject a GSO batch whose datagrams it would send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The route has no segmentation offload.
    Unsupported,
    /// The segments are too long.
    Size,
}

/// What has been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transferred {
    pub(crate) datagrams: usize,
    pub(crate) bytes: usize,
    /// GSO batches, and the datagrams in them.
    pub(crate) batches: usize,
    pub(crate) segments: usize,
}

impl RecvResult {
    /// Whether the message has no control data, and nothing is missing.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.control_len == 0 && self.is_whole()
    }

    /// Whether nothing is missing.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        !self.truncated && !self.control_truncated
    }
}

impl Transferred {
    #[inline]
    pub(crate) fn add(&mut self, batch: &GsoBatch) {
        let datagrams = batch.datagrams();
        self.datagrams += datagrams;
        self.bytes += batch.bytes;
        if datagrams > 1 {
            self.batches += 1;
            self.segments += datagrams;
        }
    }
}

impl CallResult {
    pub(crate) const fn moved(count: usize) -> Self {
        Self { count, error: None, reported_once: false, ended: false, calls: 1 }
    }

    pub(crate) const fn stopped(count: usize, error: io::Error) -> Self {
        Self { count, error: Some(error), reported_once: false, ended: false, calls: 1 }
    }

    /// Truncates the result of a receive that met the socket's shutdown at message `count`, and drops a
    /// `WouldBlock`.
    #[inline(always)]
    pub(crate) fn ended_at(self, count: usize) -> Self {
        let error = self.error.filter(|error| error.kind() != io::ErrorKind::WouldBlock);
        Self { count, error, ended: true, ..self }
    }

    /// Sets the number of system calls.
    pub(crate) const fn after(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }
}
