//! Typed socket options on real sockets.
#![cfg(unix)]

mod buffers;
#[path = "../common/mod.rs"]
mod common;
mod constant;
#[cfg(target_os = "linux")]
mod fragmentation;
#[cfg(target_os = "linux")]
mod pacing;
#[cfg(target_os = "linux")]
#[path = "../common/veth.rs"]
mod veth;

/// No test here depends on the backend.
const BACKEND: Option<mmsg::Backend> = None;
