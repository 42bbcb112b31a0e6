//! The tests that every backend must pass, on real sockets and with the public API.

// Some are only used by Linux' tests.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

mod batches;
mod call_flags;
mod empties;
mod errors;
mod in_place;
mod memory;
mod own_sockets;
mod panics;
mod queue;
mod raw_control;
mod replies;
mod scatter;
#[cfg(unix)]
mod signals;
mod sizes;
mod threads;
mod uninit;
#[cfg(unix)]
mod unix_sources;
mod until;
mod waiting;

#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod debug;
#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod drained;
#[cfg(target_os = "linux")]
mod gro;
#[cfg(target_os = "linux")]
mod icmp;
#[cfg(target_os = "linux")]
mod rejections;
#[cfg(target_os = "linux")]
mod sessions;
#[cfg(target_os = "linux")]
mod unix_dests;

#[test]
fn the_backend_of_this_binary_is_in_use() {
    crate::common::choose_backend();
    assert_eq!(Some(mmsg::Backend::current()), crate::BACKEND);
}
