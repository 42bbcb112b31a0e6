//! The futures, on the backend that the platform has.
#![cfg(all(unix, feature = "tokio"))]

mod common;
#[cfg(target_os = "linux")]
#[path = "futures/cpu.rs"]
mod cpu;
#[path = "futures/mod.rs"]
mod futures;
#[cfg(target_os = "linux")]
#[path = "futures/reports.rs"]
mod reports;
#[cfg(target_os = "linux")]
#[path = "futures/stuck.rs"]
mod stuck;

#[cfg(target_os = "linux")]
use futures::{adopted, once, through, udp};

/// All sockets use this backend.
const BACKEND: Option<mmsg::Backend> = None;
