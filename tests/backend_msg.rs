//! The suite with `recvmsg` and `sendmsg`, one call for each message.

mod common;
#[path = "suite/mod.rs"]
mod suite;

/// All sockets of the suite use this backend.
const BACKEND: Option<mmsg::Backend> = Some(mmsg::Backend::Msg);
