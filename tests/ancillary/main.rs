//! Ancillary data on real sockets, received and sent, and the socket options that enable it.
#![cfg(unix)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod errors;
mod kit;
mod options;
mod receive;
mod reply;
#[cfg(target_os = "linux")]
mod reports;
#[cfg(target_os = "linux")]
mod routes;
mod send;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
#[path = "../common/veth.rs"]
mod veth;

/// Tests that need a certain backend select it themselves.
const BACKEND: Option<mmsg::Backend> = None;
