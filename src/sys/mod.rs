//! System calls, and everything else that differs between targets.
//!
//! # What a target provides
//!
//! - Sockets: `AsSocket`, `BorrowedSocket` and `borrow`; the macro `for_datagram_sockets`, which lists the types that own a
//!   datagram socket; the macro `impl_as_socket`, which implements `AsSocket`.
//! - `header::Header` and `header::Buffer`: the C structs of a message, with the same methods on every target.
//! - `calls::recv` and `calls::send`: the backends. They move messages in order, and return how many moved (a receive as
//!   [`Taken`]) or the error of the first. A receive waits for its first message only, and not at all with `RecvFlags::DONT_WAIT`; it closes
//!   received descriptors before it returns. [`backend`] does the rest for all targets.
//! - Questions about a socket: `waits`, `is_inet`, `families`, `has_error_queue`, for the feature `tokio` `has_error`. `wait_readable` waits.
//! - Questions about an error: `icmp::is_unrelated`, `icmp::may_be_unrelated`, and `may_be_about_tos` for kernels that
//!   reject a TOS.
//! - For sends with GSO: `segmentation_rejected` and `kernel_release`.
//! - [`numbers`], the numbers of control messages and options; `CONTROL_LAYOUT`; `option` and `set_option_bytes`.
//! - `clock_time`, `path_bytes` and `bytes_path`.
//!
//! All targets share `headers` (memory for headers), `zeroed`, and `addr` (addresses as bytes).

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

use std::io::{self, IoSlice};
use std::net::SocketAddr;

use socket2::SockRef;

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

pub(crate) use self::addr::{RawAddr, RawAddrRef, decode_addr, decode_unix};
pub(crate) use self::headers::{
    RecvEntry, RecvHeaders, RecvStorage, SendHeaders, SendStorage, Slots,
};
pub use self::native::AsSocket;
#[cfg(feature = "tokio")]
pub(crate) use self::native::has_error;
pub(crate) use self::native::icmp::may_be_unrelated as may_be_unrelated_icmp;
pub(crate) use self::native::{
    BorrowedSocket, CONTROL_LAYOUT, MICROSECONDS_LEN, borrow, clock_time, families,
    for_datagram_sockets, has_error_queue, impl_as_socket, is_about_the_option, kernel_release,
    may_be_about_tos, option, segmentation_rejected, set_option_bytes, wait_readable,
};

/// The maximum number of messages in one system call: `UIO_MAXIOV` in the Linux kernel, which truncates longer batches
/// without an error (`__sys_sendmmsg` in net/socket.c).
pub(crate) const MAX_BATCH: usize = 1024;

/// The maximum number of buffers in one message: `IOV_MAX` of every Unix (limits.h), and `UIO_MAXIOV` in the Linux kernel.
/// Windows documents no limit.
pub(crate) const MAX_BUFFERS: usize = 1024;

/// The maximum number of segments in a GSO batch.
pub(crate) const MAX_SEGMENTS: usize = numbers::MAX_SEGMENTS;

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dest<'a> {
    /// The peer of a connected socket.
    None,
    Addr(SocketAddr),
    Unix(UnixAddr<'a>),
}

/// The payload of a message to send: one buffer, or several to be joined in order.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    One(&'a [u8]),
    Many(&'a [IoSlice<'a>]),
}

/// Which Internet families a socket carries: an IPv6 socket may carry both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Families {
    pub(crate) v4: bool,
    pub(crate) v6: bool,
}

/// What a receive reports about one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvResult {
    /// Bytes of payload: more than the buffers hold if the system reports the full length of a truncated message.
    pub(crate) len: usize,
    /// Whether payload is missing (`MSG_TRUNC`).
    pub(crate) truncated: bool,
    /// Whether control messages are missing (`MSG_CTRUNC`).
    pub(crate) control_truncated: bool,
    /// Bytes of the source address: more than its memory holds if the address was truncated.
    pub(crate) source_len: usize,
    /// Bytes of control data that were written.
    pub(crate) control_len: usize,
}

/// How many messages a receive brought, and whether it emptied the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) count: usize,
    /// The last system call brought fewer messages than the headers offered to it: for the next header the kernel said
    /// `WouldBlock`, or met an error. It keeps that error for the next call, and readiness shows it (`POLLERR`).
    #[allow(dead_code)] // For the layer on tokio.
    pub(crate) drained: bool,
}

/// Why the kernel may reject a GSO batch although it would send its datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The route has no segmentation offload.
    Unsupported,
    /// The segments are too long.
    Size,
}

impl RecvResult {
    /// A message of `len` bytes, of which `copied` are in its buffers, without source and control data.
    pub(crate) fn of(len: usize, copied: usize) -> Self {
        let truncated = copied < len;
        Self { len, truncated, control_truncated: false, source_len: 0, control_len: 0 }
    }
}

/// Sets an option that is an `int`.
///
/// # Errors
///
/// As for [`set_option_bytes`].
pub(crate) fn set_option(
    socket: BorrowedSocket<'_>,
    name: Option<numbers::OptionName>,
    value: i32,
) -> io::Result<()> {
    set_option_bytes(socket, name, &value.to_ne_bytes())
}

/// The Internet address that the socket is connected to.
#[cold]
pub(crate) fn peer(socket: BorrowedSocket<'_>) -> Option<SocketAddr> {
    SockRef::from(&socket).peer_addr().ok()?.as_socket()
}
