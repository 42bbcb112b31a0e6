//! `Offload` on real sockets and across network namespaces.
#![cfg(unix)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

#[path = "../common/mod.rs"]
mod common;
mod environment;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod own_segments;
#[cfg(target_os = "linux")]
mod receive;
#[cfg(target_os = "linux")]
mod rejected;
#[cfg(target_os = "linux")]
#[allow(dead_code)] // The other calls are denied in other test binaries.
#[path = "../common/seccomp.rs"]
mod seccomp;
#[cfg(target_os = "linux")]
mod socket;
mod state;
#[cfg(target_os = "linux")]
#[path = "../common/veth.rs"]
mod veth;

/// The backend of this build.
const BACKEND: Option<mmsg::Backend> = None;
