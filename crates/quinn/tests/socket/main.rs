//! The socket alone, and under quinn's endpoints.

mod alone;
#[cfg(target_os = "linux")]
#[path = "../../../../tests/common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod full;
mod kit;
mod life;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod memory;
mod own;
mod relay;
mod transfers;
#[cfg(target_os = "linux")]
#[path = "../../../../tests/common/veth.rs"]
mod veth;

/// `common` needs this constant. No test here depends on the backend.
#[cfg(target_os = "linux")]
const BACKEND: Option<mmsg::Backend> = None;
