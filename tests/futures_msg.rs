//! The futures with `recvmsg` and `sendmsg`, where a short batch has itself met `WouldBlock`.
#![cfg(feature = "tokio")]

mod common;
#[path = "futures/mod.rs"]
mod futures;
#[cfg(target_os = "linux")]
#[path = "common/veth.rs"]
mod veth;

/// All sockets use this backend.
const BACKEND: Option<mmsg::Backend> = Some(mmsg::Backend::Msg);
