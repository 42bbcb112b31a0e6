//! The futures over whichever calls the platform has.
#![cfg(all(unix, feature = "tokio"))]

mod common;
#[path = "futures/mod.rs"]
mod futures;
#[cfg(target_os = "linux")]
#[path = "common/veth.rs"]
mod veth;

/// The backend of every socket.
const BACKEND: Option<mmsg::Backend> = None;
