//! `programs/wireguard` as a user has it before them: nodes in two network namespaces.

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

/// Whichever the process has.
const BACKEND: Option<mmsg::Backend> = None;
