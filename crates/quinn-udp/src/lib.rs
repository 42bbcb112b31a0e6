//! The API of [quinn-udp](https://docs.rs/quinn-udp/0.6.3) on [mmsg]: a UDP socket with ECN, source addresses, GSO and
//! GRO, for QUIC and whatever else has its needs.
//!
//! A crate that depends on quinn-udp 0.6 changes one line of `Cargo.toml`, and no code:
//!
//! ```toml
//! quinn-udp = { package = "mmsg-quinn-udp", version = "0.6" }
//! ```
//!
//! It is not for crates that pass quinn-udp's types to quinn or noq: these have types of their own.
//! [mmsg-quinn](https://docs.rs/mmsg-quinn) and [mmsg-noq](https://docs.rs/mmsg-noq) are for them.
//!
//! # Differences
//!
//! What is better:
//!
//! - If the system rejects a GSO batch, [`try_send`](UdpSocketState::try_send) sends its datagrams one by one in the
//!   same call, where quinn-udp returns an error. If the device cannot segment, GSO is off for a minute, where quinn-udp
//!   turns it off for good. It is off on kernel releases that damage batches.
//! - A transmit with a segment size is sent also while GSO is off or missing.
//! - With [transport errors](UdpSocketState::enable_transport_errors) on, a report about another datagram fails no send
//!   and no receive.
//! - A truncated message is its whole datagrams, and empty (`len` is 0) if it has none, where quinn-udp returns its
//!   beginning as if it were whole. [`stride`](RecvMeta::stride) is at least 1, so an empty datagram cannot make a program
//!   divide by zero.
//! - If a buffer is shorter than 65,527 bytes, over IPv4 65,507, the first receive turns GRO off, for good, and
//!   [`gro_segments`](UdpSocketState::gro_segments) is 1. quinn-udp truncates coalesced messages.
//! - A receive uses no more buffers than there are metadata, where quinn-udp panics.
//! - The crate contains no `unsafe` code.
//!
//! What differs:
//!
//! - A socket with `UDP_SEGMENT` or `UDP_CORK` set is an error of [`UdpSocketState::new`].
//! - Without an [`ecn`](Transmit::ecn), a datagram has the socket's own ECN bits; quinn-udp clears them.
//! - A [`src_ip`](Transmit::src_ip) of the other family than the destination is `InvalidInput`; quinn-udp may ignore it.
//! - A batch that stays too big for the path as single datagrams is an error only if its first datagram is.
//! - With transport errors on, a send that no path takes (65,600 bytes over IPv6) leaves more than one report in the queue,
//!   since the call is repeated; with quinn-udp one.
//!
//! What is missing: Apple's private calls (`set_apple_fast_path` and the feature `fast-apple-datapath` do nothing; the
//! function is not `unsafe` here), GRO on Windows, WASI.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod convert;
mod state;
mod udp;

pub use state::UdpSocketState;
pub use udp::{
    EcnCodepoint, RecvMeta, Transmit, TransportError, TransportErrorPayload, UdpSockRef,
};

/// The most messages that a receive takes.
pub const BATCH_SIZE: usize = 32;

/// Whether a message was too big for the socket or the path (`EMSGSIZE`), as an MTU probe may be.
///
/// ```
/// let error = std::io::Error::from(std::io::ErrorKind::WouldBlock);
/// assert!(!mmsg_quinn_udp::is_msg_size_err(&error));
/// ```
#[must_use]
pub fn is_msg_size_err(err: &std::io::Error) -> bool {
    mmsg::errors::is_too_big(err)
}
