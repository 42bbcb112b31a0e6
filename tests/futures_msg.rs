//! The futures with `recvmsg` and `sendmsg`, where a short batch has itself met `WouldBlock`.
#![cfg(feature = "tokio")]

mod common;
#[path = "futures/mod.rs"]
mod futures;

/// All sockets use this backend.
const BACKEND: Option<mmsg::Backend> = Some(mmsg::Backend::Msg);
