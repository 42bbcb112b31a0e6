//! The futures over `recvmsg` and `sendmsg`: a batch that comes short has met `WouldBlock` itself.
#![cfg(feature = "tokio")]

mod common;
#[path = "futures/mod.rs"]
mod futures;
#[cfg(target_os = "linux")]
#[path = "common/veth.rs"]
mod veth;

/// What every socket is served by.
const BACKEND: Option<mmsg::Backend> = Some(mmsg::Backend::Msg);
