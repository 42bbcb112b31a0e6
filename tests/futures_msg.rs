//! The futures over `recvmsg` and `sendmsg`: a short batch has met `WouldBlock` itself.
#![cfg(feature = "tokio")]

mod common;
#[path = "futures/mod.rs"]
mod futures;
#[cfg(target_os = "linux")]
#[path = "common/veth.rs"]
mod veth;

/// The backend of every socket.
const BACKEND: Option<mmsg::Backend> = Some(mmsg::Backend::Msg);
