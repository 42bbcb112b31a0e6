//! A kernel without memory for a socket's receives.

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};

use crate::alone::Log;
use crate::kit::{Pair, run, transfer};

/// The socket, and how many of its receives fail from now on.
static SOCKET: AtomicI32 = AtomicI32::new(-1);
static FAILURES: AtomicUsize = AtomicUsize::new(0);

/// In place of the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn recvmmsg(
    fd: c_int,
    headers: *mut c_void,
    len: c_uint,
    flags: c_int,
    timeout: *mut c_void,
) -> c_int {
    let take = |left: usize| left.checked_sub(1);
    if fd == SOCKET.load(Relaxed) && FAILURES.fetch_update(Relaxed, Relaxed, take).is_ok() {
        // SAFETY: the C library has an `errno` for each thread.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return -1;
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { libc::syscall(libc::SYS_recvmmsg, fd, headers, len, flags, timeout) as c_int }
}

#[test]
fn an_endpoint_goes_on_after_receives_that_fail_for_long_and_logs_it_once() {
    let logged = Arc::new(AtomicUsize::new(0));
    let _log = tracing::subscriber::set_default(Log(Arc::clone(&logged)));
    run(async {
        let pair = Pair::new();
        SOCKET.store(pair.server_socket.offload().get_ref().as_raw_fd(), Relaxed);
        FAILURES.store(100, Relaxed);
        let (client, server) = pair.connect().await;
        transfer(&client, &server, 10_000, 1).await;
        assert_eq!((FAILURES.load(Relaxed), logged.load(Relaxed)), (0, 1));
    });
}
