//! The futures, on the backend that the platform has.
#![cfg(all(unix, feature = "tokio"))]

mod common;
#[path = "futures/mod.rs"]
mod futures;
#[cfg(target_os = "linux")]
#[path = "common/veth.rs"]
mod veth;

/// All sockets use this backend.
const BACKEND: Option<mmsg::Backend> = None;
