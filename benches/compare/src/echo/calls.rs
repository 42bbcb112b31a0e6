//! Counts a server's system calls, by functions of the C library that this program defines in its place.
//!
//! A tracer would slow each call down. The count is exact with one thread; several may lose a few.

use std::ffi::{c_int, c_long, c_void};
use std::ptr::null;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libc::{
    SYS_epoll_ctl, SYS_epoll_pwait, SYS_getpeername, SYS_getsockname, SYS_getsockopt, SYS_ppoll,
    SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_setsockopt,
};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// The calls of this process so far.
pub fn count() -> u64 {
    COUNT.load(Relaxed)
}

fn counted() {
    // A locked addition would cost more than the rest of the function.
    COUNT.store(COUNT.load(Relaxed) + 1, Relaxed);
}

/// Functions whose parameters are those of the system call.
macro_rules! count {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty = $number:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            counted();
            // SAFETY: the caller's arguments, unchanged.
            unsafe { libc::syscall($number, $($arg),*) as $result }
        }
    )*};
}

count! {
    recvmmsg(fd: c_int, headers: *mut c_void, len: u32, flags: c_int, timeout: *mut c_void) -> c_int = SYS_recvmmsg;
    sendmmsg(fd: c_int, headers: *mut c_void, len: u32, flags: c_int) -> c_int = SYS_sendmmsg;
    recvmsg(fd: c_int, header: *mut c_void, flags: c_int) -> isize = SYS_recvmsg;
    sendmsg(fd: c_int, header: *const c_void, flags: c_int) -> isize = SYS_sendmsg;
    recvfrom(fd: c_int, data: *mut c_void, len: usize, flags: c_int, from: *mut c_void, from_len: *mut c_void) -> isize = SYS_recvfrom;
    sendto(fd: c_int, data: *const c_void, len: usize, flags: c_int, to: *const c_void, to_len: u32) -> isize = SYS_sendto;
    epoll_ctl(epoll: c_int, op: c_int, fd: c_int, event: *mut c_void) -> c_int = SYS_epoll_ctl;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut c_void) -> c_int = SYS_getsockopt;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: u32) -> c_int = SYS_setsockopt;
    getsockname(fd: c_int, addr: *mut c_void, len: *mut c_void) -> c_int = SYS_getsockname;
    getpeername(fd: c_int, addr: *mut c_void, len: *mut c_void) -> c_int = SYS_getpeername;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: c_int, data: *mut c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: the caller's arguments, and no memory for a source.
    unsafe { recvfrom(fd, data, len, flags, std::ptr::null_mut(), std::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, data: *const c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: the caller's arguments, and no destination.
    unsafe { sendto(fd, data, len, flags, null(), 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut c_void, max: c_int, ms: c_int) -> c_int {
    counted();
    // SAFETY: the caller's arguments, and no signal mask, of 8 bytes as in the kernel.
    unsafe {
        libc::syscall(SYS_epoll_pwait, epoll, events, max, ms, null::<c_void>(), 8usize) as c_int
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn poll(fds: *mut c_void, len: libc::nfds_t, ms: c_int) -> c_int {
    counted();
    let time =
        libc::timespec { tv_sec: (ms / 1000).into(), tv_nsec: c_long::from(ms % 1000) * 1_000_000 };
    let time: *const libc::timespec = if ms < 0 { null() } else { &time };
    // SAFETY: the caller's arguments, a time that lives through the call, no signal mask.
    unsafe { libc::syscall(SYS_ppoll, fds, len, time, null::<c_void>(), 8usize) as c_int }
}
