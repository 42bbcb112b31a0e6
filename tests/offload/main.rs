//! `Offload` on real sockets and across network namespaces.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;
mod environment;
mod namespaces;
mod own_segments;
mod receive;
mod rejected;
#[allow(dead_code)] // The other calls are denied in other test binaries.
#[path = "../common/seccomp.rs"]
mod seccomp;
mod socket;
mod state;
#[path = "../common/veth.rs"]
mod veth;

/// The backend of this build.
const BACKEND: Option<mmsg::Backend> = None;
