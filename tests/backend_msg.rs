//! The suite over `recvmsg` and `sendmsg`, a call for each message.

mod common;
#[path = "suite/mod.rs"]
mod suite;

/// The backend of every socket of the suite.
const BACKEND: Option<mmsg::Backend> = Some(mmsg::Backend::Msg);
