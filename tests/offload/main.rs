//! `Offload` on real sockets and across network namespaces.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;
mod environment;
mod namespaces;
mod own_segments;
mod receive;
mod rejected;
#[allow(dead_code)] // Other calls are denied elsewhere.
#[path = "../common/seccomp.rs"]
mod seccomp;
mod socket;
mod state;
#[path = "../common/veth.rs"]
mod veth;

/// Whichever the process has.
const BACKEND: Option<mmsg::Backend> = None;
