//! System calls, and everything else that differs between targets.
//!
//! Its files form a stack: [`retry`] (what every backend owes), a target's `calls` (both backends), [`headers`] (filled
//! here, without a call), a target's `header`, [`buffers`], [`addr`], [`control_message`], [`zeroed`], [`message`], [`flags`],
//! [`numbers`]. The files of a target answer questions beside it.
//!
//! # What a target provides
//!
//! - Sockets: `AsSocket`, `BorrowedSocket` and `borrow`; the macro `for_datagram_sockets`, which lists the types that own a
//!   datagram socket; the macro `impl_as_socket`, which implements `AsSocket`.
//! - `header::Header` and `header::Buffer`: the C structs of a message, with the same methods on every target.
//! - `calls::recv_one` and `calls::send_one` move one message; with `mmsg_calls`, `calls::recvmmsg` and `calls::sendmmsg`
//!   move a batch in order, and `mmsg_is_missing` tells whether an error means that the process cannot make them. A receive
//!   waits for its first message only, and not at all with `Flags::DONT_WAIT`; it closes received descriptors before it
//!   returns. A socket that was shut down gives messages without payload and source.
//! - Questions about a socket: `waits`, `is_inet`, `families`, `has_error_queue`, `has_filter`, for the feature `tokio`
//!   `has_error`, `has_space` and `is_other_unix`.
//!   `wait_readable` waits.
//! - Questions about an error: `icmp::is_unrelated`, `icmp::may_be_unrelated`, and `may_be_about_tos` for kernels that
//!   reject a TOS.
//! - For sends with GSO: `segmentation_rejected` and `kernel_release`.
//! - [`numbers`], the numbers of control messages and socket options; `CMSG_LEN_BYTES`, `CMSG_DATA_OFFSET` and `CMSG_ALIGN`, the
//!   layout of a control message; `option` and `set_option_bytes`; `clock_time`.

mod addr;
mod buffers;
pub(crate) mod control_message;
#[cfg(any(test, fuzzing))]
pub(crate) mod fault;
mod flags;
mod headers;
mod message;
pub(crate) mod numbers;
mod retry;
mod zeroed;

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::SockRef;

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

pub use self::addr::UnixAddr;
pub(crate) use self::addr::{Name, RawAddr, decode_addr, encode_addr};
pub(crate) use self::buffers::RecvBuffers;
pub(crate) use self::control_message::Layout;
pub use self::control_message::{CONTROL_SPACE, ControlMessage, ControlMessages};
pub use self::flags::Flags;
pub(crate) use self::headers::{OpenHeader, RecvStorage, SendHeaders, SendStorage, Slots};
pub(crate) use self::message::{Dest, Families, Payload, Received, RecvResult, Rejection};
pub use self::native::AsSocket;
pub(crate) use self::native::icmp::may_be_unrelated as may_be_unrelated_icmp;
pub(crate) use self::native::{
    BorrowedSocket, MICROSECONDS_LEN, borrow, clock_time, families, for_datagram_sockets,
    has_error_queue, has_filter, impl_as_socket, is_about_the_option, kernel_release,
    may_be_about_tos, option, option_bytes, segmentation_rejected, set_option_bytes, wait_readable,
};
#[cfg(feature = "tokio")]
pub(crate) use self::native::{has_error, has_space, is_other_unix};
pub(crate) use self::numbers::{MAX_BATCH, MAX_SEGMENTS};
pub use self::retry::Backend;
pub(crate) use self::retry::{recv, send};

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

/// Sets an option and reads it back: gVisor accepts options that it does not have.
///
/// # Errors
///
/// As for [`set_option_bytes`], and if the option cannot be read.
pub(crate) fn set_option_checked(
    socket: BorrowedSocket<'_>,
    name: Option<numbers::OptionName>,
    value: &[u8],
) -> io::Result<()> {
    set_option_bytes(socket, name, value)?;
    option(socket, name).map(drop)
}

/// An IPv4 destination as an IPv6 socket needs it on the platforms whose IPv6 sockets take no other. `is_v6` keeps what the
/// socket is.
#[cold]
pub(crate) fn mapped(
    socket: BorrowedSocket<'_>,
    dest: &Dest<'_>,
    is_v6: &mut Option<bool>,
) -> Option<Dest<'static>> {
    let mapped = dest.mapped()?;
    let ask = || SockRef::from(&socket).local_addr().is_ok_and(|local| local.is_ipv6());
    is_v6.get_or_insert_with(ask).then_some(mapped)
}

/// The Internet address that the socket is connected to.
#[cold]
pub(crate) fn peer(socket: BorrowedSocket<'_>) -> Option<SocketAddr> {
    SockRef::from(&socket).peer_addr().ok()?.as_socket()
}

/// The address that the socket is bound to: unspecified if the system chooses one for each datagram.
///
/// # Errors
///
/// The system's.
#[cold]
pub(crate) fn own_ip(socket: BorrowedSocket<'_>) -> io::Result<Option<IpAddr>> {
    #[cfg(test)]
    fault::count_question();
    Ok(SockRef::from(&socket).local_addr()?.as_socket().map(|local| local.ip()))
}

/// The system's [`numbers::V4_RULES`].
#[inline]
pub(crate) fn v4_rules() -> numbers::V4Rules {
    #[cfg(test)]
    if let Some(rules) = fault::v4_rules() {
        return rules;
    }
    numbers::V4_RULES
}
