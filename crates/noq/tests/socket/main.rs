//! The socket alone, and under noq's endpoints: the tests of `crates/quinn`, with noq in quinn's place.

extern crate noq as quinn;

#[path = "../../../quinn/tests/socket/alone.rs"]
mod alone;
#[cfg(target_os = "linux")]
#[path = "../../../../tests/common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
#[path = "../../../quinn/tests/socket/full.rs"]
mod full;
#[path = "../../../quinn/tests/socket/kit.rs"]
mod kit;
#[path = "../../../quinn/tests/socket/life.rs"]
mod life;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "../../../quinn/tests/socket/memory.rs"]
mod memory;
mod own;
#[path = "../../../quinn/tests/socket/relay.rs"]
mod relay;
#[path = "../../../quinn/tests/socket/transfers.rs"]
mod transfers;
#[cfg(target_os = "linux")]
#[path = "../../../../tests/common/veth.rs"]
mod veth;

/// `common` needs this constant. No test here depends on the backend.
#[cfg(target_os = "linux")]
const BACKEND: Option<mmsg::Backend> = None;
