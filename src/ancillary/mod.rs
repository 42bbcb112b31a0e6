//! Ancillary data: control messages that travel with a datagram.
//!
//! [`Ancillary`] enables it on a socket, [`RecvMeta`] holds the decoded metadata of a received message,
//! and [`SendMeta`] the settings of a message to be sent. [`ControlBuf`] is a buffer for raw
//! control messages, in both directions.
//!
//! # To add a kind of metadata
//!
//! 1. Its number, and the socket option's if it differs: as `None` in `sys/numbers/defaults.rs`, as `Some` in the files of
//!    the platforms that support it.
//! 2. Its length: `PAYLOADS` in `sys/control_message.rs`. Their sum is the control space of every receive.
//! 3. Its flag: a constant of `Ancillary` and its line in `MEMBERS`, in `set.rs`.
//! 4. Its socket options: `OPTIONS` in `socket_options.rs`. The test `each_member_has_a_name_and_options` fails if one is
//!    missing.
//! 5. Its field in `RecvMeta` and `RecvMeta::NONE`, and an arm in `add_rare` (`add` has the frequent ones), in
//!    `recv_meta.rs`.
//! 6. Tests: bytes in `tests/meta.rs`, other systems' in `tests/systems.rs`; a real socket in `tests/ancillary/receive.rs` and
//!    `sockets.rs`; `tests/allocations/ancillary.rs`; `KNOWN` in `fuzz/fuzz_targets/control_messages.rs`.
//! 7. Pages: `src/guide/platforms.md`, `docs/public-api.txt`, `CHANGELOG.md`.
//!
//! The compiler asks for the field in `NONE`; only the tests of step 6 ask for name, length and arm.
//!
//! # To add a setting of sends
//!
//! 1. Its number, as for a kind of metadata.
//! 2. Its field and its `with_` method in `send_meta.rs`.
//! 3. Its control message in `SendMeta::encode`, and in `needs_one_family` if it cannot be written for both families at
//!    once. The longest combination of settings must fit the control space (`PAYLOADS`).
//! 4. `may_join` in `send/coalesce.rs` if it belongs to one datagram, as `timestamp_id` does. Nothing finds a forgotten
//!    step 4.
//! 5. Tests: the twin in `tests/settings.rs`; a real socket in `tests/ancillary/send.rs`; for step 4
//!    `send/coalesce/tests.rs`.
//! 6. Pages, as for a kind of metadata.
//!
//! The compiler asks for the field in `SendMeta::new`, `encode` and the twin; the twin finds what does not fit.

mod control_buf;
mod ecn;
mod recv_meta;
mod send_meta;
mod set;
mod socket_options;
#[cfg(test)]
mod tests;
mod transmit_clock;

pub use control_buf::ControlBuf;
pub use ecn::Ecn;
pub use recv_meta::RecvMeta;
pub use send_meta::SendMeta;
pub use set::Ancillary;
pub use transmit_clock::TransmitClock;

use std::io;

// The codecs reach it through this module, so that tests put other systems in its place.
use crate::sys;

/// The error of a message whose settings or control messages are invalid.
#[cold]
pub(crate) fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason.into())
}
