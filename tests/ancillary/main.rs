//! Ancillary data on real sockets: what is received, what is sent, and the options that ask for it.
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;
mod errors;
mod guide;
mod kit;
mod options;
mod receive;
mod reply;
mod routes;
mod send;
mod sockets;

/// Tests that need a backend choose it themselves.
const BACKEND: Option<mmsg::Backend> = None;
