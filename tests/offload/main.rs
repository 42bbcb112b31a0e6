//! `Offload` on real sockets and across network namespaces.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;
mod environment;
mod half_sent;
mod namespaces;
mod receive;
mod socket;
mod state;
#[path = "../common/veth.rs"]
mod veth;

/// Whichever the process has.
const BACKEND: Option<mmsg::Backend> = None;
