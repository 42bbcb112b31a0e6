//! The suite over `recvmsg` and `sendmsg`, a call for each message.

mod common;
#[path = "suite/mod.rs"]
mod suite;

/// What every socket of the suite is served by.
const BACKEND: Option<mmsg::Backend> = Some(mmsg::Backend::Msg);
