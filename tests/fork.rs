//! Children made by `fork` while other threads are in calls of the crate.
//!
//! A test binary of its own: a child has copies of all descriptors and would keep other tests' sockets open.
#![cfg(target_os = "linux")]

mod common;

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::sockets::{addr, udp4};
use common::{TIME_LIMIT, exchange, repetitions};
use mmsg::{Backend, BatchSocket, RecvBatch};

/// The test selects each backend in turn.
const BACKEND: Option<Backend> = None;

const BATCH: usize = 40;

/// Runs `work` in a child process and returns whether it succeeded.
fn in_child(work: impl FnOnce() + std::panic::UnwindSafe) -> bool {
    // SAFETY: the child only does what glibc allows after a fork with threads: it uses memory (glibc keeps its
    // allocator usable) and system calls. It ends with `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        // SAFETY: both take numbers. The alarm ends a hanging child.
        unsafe { libc::alarm(TIME_LIMIT.as_secs() as u32) };
        let code = if catch_unwind(work).is_ok() { 0 } else { 1 };
        // SAFETY: it takes a number, and no destructor of this process runs.
        unsafe { libc::_exit(code) };
    }
    let mut status = -1;
    // SAFETY: the pid is that of this process's child, and the status outlives the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn children_and_their_parent_go_on_with_the_same_sockets() {
    for backend in [Backend::Mmsg, Backend::Msg] {
        backend.make_process_default().expect("Linux has both");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            // These threads may be anywhere in a call when the child is made.
            for _ in 0..2 {
                scope.spawn(|| {
                    let (near, far) = (udp4(), udp4());
                    while !over.load(Ordering::Relaxed) {
                        exchange(&near, &far, BATCH);
                    }
                });
            }
            let (near, far) = (udp4(), udp4());
            let mut batch = RecvBatch::new(8, 100);
            let mut all_well = true;
            for i in 0..repetitions(200, 5) {
                // The parent's arenas are in use when they are copied.
                exchange(&near, &far, BATCH);
                all_well &= in_child(|| {
                    exchange(&near, &far, BATCH);
                    near.send_to(&[i as u8], addr(&far)).expect("loopback takes it");
                });
                // Parent and child share the socket, so the child may receive here what it sent.
                all_well &= far.recv_into(&mut batch).is_ok_and(|count| count == 1);
                all_well &= batch.iter().all(|datagram| datagram.data() == [i as u8]);
            }
            over.store(true, Ordering::Relaxed);
            assert!(all_well, "a child failed or hung");
        });
    }
}
