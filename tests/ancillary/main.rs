//! Ancillary data on real sockets, received and sent, and the socket options that enable it.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;
mod errors;
mod kit;
mod options;
mod receive;
mod reply;
mod reports;
mod routes;
mod send;
mod sockets;
#[path = "../common/veth.rs"]
mod veth;

/// Tests that need a certain backend select it themselves.
const BACKEND: Option<mmsg::Backend> = None;
