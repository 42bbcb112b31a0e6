//! What goes down to the system with a message, and what comes back.

use std::io::IoSlice;
use std::net::SocketAddr;

use super::addr::UnixAddr;

/// Where a message goes.
#[derive(Clone, Copy, Debug, Eq)]
pub(crate) enum Dest<'a> {
    /// The peer of a connected socket.
    None,
    Addr(SocketAddr),
    Unix(UnixAddr<'a>),
}

impl Dest<'_> {
    /// The IPv4-mapped form of an IPv4 destination.
    pub(super) fn mapped(&self) -> Option<Dest<'static>> {
        let Dest::Addr(SocketAddr::V4(to)) = self else { return None };
        Some(Dest::Addr((to.ip().to_ipv6_mapped(), to.port()).into()))
    }
}

impl PartialEq for Dest<'_> {
    /// Inlined into the loop that forms GSO batches.
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        use SocketAddr::{V4, V6};
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Addr(V4(one)), Self::Addr(V4(other))) => one == other,
            (Self::Addr(V6(one)), Self::Addr(V6(other))) => one == other,
            (Self::Unix(one), Self::Unix(other)) => one == other,
            _ => false,
        }
    }
}

/// The payload of a message to send: one buffer, or several to be joined in order.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    One(&'a [u8]),
    Many(&'a [IoSlice<'a>]),
}

/// What a receive reports about one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvResult {
    /// Bytes of payload.
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

impl RecvResult {
    /// A message of `len` bytes, of which `copied` are in its buffer, without control data.
    pub(crate) fn of(len: usize, copied: usize, source_len: usize) -> Self {
        let truncated = copied < len;
        Self { len: copied, truncated, control_truncated: false, source_len, control_len: 0 }
    }
}

/// How many messages a receive brought, and whether it emptied the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    pub(crate) count: usize,
    /// The last system call brought fewer messages than the headers offered to it: for the next header the kernel said
    /// `WouldBlock`, or met an error. It keeps that error for the next call, and readiness shows it (`POLLERR`).
    pub(crate) drained: bool,
}

/// Which Internet families a socket carries: an IPv6 socket may carry both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Families {
    pub(crate) v4: bool,
    pub(crate) v6: bool,
}

/// Why the kernel may reject a GSO batch although it would send its datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The route has no segmentation offload.
    Unsupported,
    /// The segments are too long.
    Size,
}
