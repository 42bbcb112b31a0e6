//! `programs/wireguard` as a user runs it: nodes in two network namespaces.

#![cfg(target_os = "linux")]

#[path = "../../../../tests/common/mod.rs"]
mod common;
mod faults;
mod kit;
#[path = "../../../../tests/common/program.rs"]
mod running;
mod tunnel;
#[path = "../../../../tests/common/veth.rs"]
mod veth;
mod wrong;

/// `None`: the process's own backend.
const BACKEND: Option<mmsg::Backend> = None;
