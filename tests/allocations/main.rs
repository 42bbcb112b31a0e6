//! No call allocates once its thread has made a call of the same size.
//!
//! Measures every single call, with an allocator that counts for each thread.

#[cfg(target_os = "linux")]
mod ancillary;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/counting.rs"]
mod counting;
#[cfg(target_os = "linux")]
#[path = "../ancillary/kit/mod.rs"]
mod kit;
#[cfg(target_os = "linux")]
mod offload;
mod plain;
#[cfg(target_os = "linux")]
#[allow(dead_code)] // The other calls are denied in other test binaries.
#[path = "../common/seccomp.rs"]
mod seccomp;
#[cfg(all(target_os = "linux", feature = "tokio"))]
mod tokio;
#[cfg(target_os = "linux")]
#[path = "../common/veth.rs"]
mod veth;
mod way;

use std::sync::{Mutex, MutexGuard, PoisonError};

use counting::{Counting, Counts, counted};
use mmsg::Backend;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tests that need a certain backend select it with `use_backend`.
const BACKEND: Option<Backend> = None;

/// The backend applies to the whole process, so only one test at a time may select it.
fn use_backend(backend: Backend) -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    backend.make_process_default().expect("this platform has it");
    turn
}

/// Makes a call and fails if it allocates.
#[track_caller]
fn without_allocating<R>(what: &str, call: impl FnOnce() -> R) -> R {
    let (result, counts) = counted(call);
    assert_eq!(counts, Counts::NONE, "{what} allocates");
    result
}
