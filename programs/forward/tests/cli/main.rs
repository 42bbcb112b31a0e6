//! The forwarder as a user sees it, between plain clients and plain upstreams.

#![cfg(unix)]

#[path = "../../../../tests/common/mod.rs"]
mod common;
mod kit;
mod load;
#[cfg(target_os = "linux")]
mod pressure;
#[path = "../../../../tests/common/program.rs"]
mod running;
mod sessions;
#[cfg(target_os = "linux")]
#[path = "../../../../tests/common/veth.rs"]
mod veth;

/// The backend of this build.
const BACKEND: Option<mmsg::Backend> = None;
