//! The suite with `recvmmsg` and `sendmmsg`.
#![cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_os = "openbsd"
))]

mod common;
#[path = "suite/mod.rs"]
mod suite;

/// All sockets of the suite use this backend.
const BACKEND: Option<mmsg::Backend> = Some(mmsg::Backend::Mmsg);
