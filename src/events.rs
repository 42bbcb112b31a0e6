//! Events of the feature `tracing`. Without it these functions do nothing.

#![cfg_attr(not(feature = "tracing"), allow(unused_variables))]

use std::fmt::Display;
use std::io;

/// GSO was asked for, but is off for a socket.
#[cold]
pub(crate) fn gso_off(status: &impl Display) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "mmsg", %status, "GSO is off");
}

/// The kernel rejected a GSO batch, but took its datagrams one by one. `turns_off`: this turned GSO off.
#[cold]
pub(crate) fn gso_rejected(error: &io::Error, segment_size: usize, turns_off: bool) {
    #[cfg(feature = "tracing")]
    if turns_off {
        tracing::warn!(
            target: "mmsg",
            %error, segment_size,
            "the kernel rejected a GSO batch: GSO is off for a minute"
        );
    } else {
        tracing::debug!(
            target: "mmsg",
            %error, segment_size,
            "the kernel rejected a GSO batch for its segment size"
        );
    }
}

/// A socket's buffer is smaller than was asked for, in bytes.
#[cold]
pub(crate) fn small_buffer(buffer: &str, asked: usize, in_force: usize) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "mmsg", buffer, asked, in_force, "a buffer is smaller than asked for");
}

/// From now on each system call of the process moves one message.
#[cfg_attr(not(mmsg_calls), allow(dead_code))]
#[cold]
pub(crate) fn single_message_calls(error: &io::Error) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "mmsg",
        %error,
        "the multi-message calls are not available: one message a call from now on"
    );
}
