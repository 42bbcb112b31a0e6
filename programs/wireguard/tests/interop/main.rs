//! A node beside Linux's own WireGuard: each talks to the other.
//!
//! Needs root, a kernel with WireGuard, and `wg` of wireguard-tools. `.ci/cross test:6.12` has the kernel.

#![cfg(target_os = "linux")]

#[path = "../../../../tests/common/mod.rs"]
mod common;
mod kernel;
#[path = "../cli/kit.rs"]
mod kit;
#[path = "../../../../tests/common/program.rs"]
mod running;
#[path = "../../../../tests/common/veth.rs"]
mod veth;

/// Whichever the process has.
const BACKEND: Option<mmsg::Backend> = None;
