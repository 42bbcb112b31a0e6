//! `examples/forward` as a user has it before them: between plain clients and plain upstreams.
//!
//! `cargo test` builds the example; for these tests alone:
//! `cargo build --example forward && cargo test --test forward_cli`.

#![cfg(unix)]

#[path = "../common/mod.rs"]
mod common;
mod kit;
mod load;
#[cfg(target_os = "linux")]
mod pressure;
#[path = "../common/program.rs"]
mod running;
mod sessions;
#[cfg(target_os = "linux")]
#[path = "../common/veth.rs"]
mod veth;

/// Whichever the process has.
const BACKEND: Option<mmsg::Backend> = None;
