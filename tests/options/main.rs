//! Typed socket options on real sockets.
#![cfg(target_os = "linux")]

mod buffers;
#[path = "../common/mod.rs"]
mod common;
mod constant;
mod fragmentation;
mod pacing;
#[path = "../common/veth.rs"]
mod veth;

/// No test here depends on the backend.
const BACKEND: Option<mmsg::Backend> = None;
