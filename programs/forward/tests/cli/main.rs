//! `programs/forward` as a user has it before them: between plain clients and plain upstreams.

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

/// Whichever the process has.
const BACKEND: Option<mmsg::Backend> = None;
