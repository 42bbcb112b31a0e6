//! Events for the feature `tracing`: what somebody asks later. Without the feature they are nothing.

use std::io;

/// A rejected GSO batch whose datagrams were sent one by one. `gso_off`: whether GSO is off from now on.
#[cold]
pub(crate) fn gso_rejected(error: &io::Error, segment_size: usize, gso_off: bool) {
    #[cfg(feature = "tracing")]
    if gso_off {
        tracing::warn!(
            target: "mmsg",
            %error, segment_size,
            "GSO is off: the kernel rejected a GSO batch"
        );
    } else {
        tracing::debug!(
            target: "mmsg",
            %error, segment_size,
            "the kernel rejected a GSO batch for its segment size"
        );
    }
    #[cfg(not(feature = "tracing"))]
    let _ = (error, segment_size, gso_off);
}

/// GSO was asked for, and the kernel does not have it for this socket.
#[cold]
pub(crate) fn gso_unavailable() {
    #[cfg(feature = "tracing")]
    tracing::info!(target: "mmsg", "GSO is off: the kernel does not have it for this socket");
}

/// The process moves one message with each call from now on.
#[cfg_attr(not(mmsg_calls), allow(dead_code))]
#[cold]
pub(crate) fn single_message_calls(error: &io::Error) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "mmsg",
        %error,
        "recvmmsg and sendmmsg are not available: one message a call from now on"
    );
    #[cfg(not(feature = "tracing"))]
    let _ = error;
}
