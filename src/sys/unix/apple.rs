//! Where Apple's systems have `recvmsg_x` and `sendmsg_x`.
//!
//! The functions are looked up when the program runs, since a program that is linked to them does not start on a
//! system without them.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::OnceLock;

use libc::c_uint;

use super::msg_x::{Calls, MOST, RecvFn, SendFn, is_safe};
use super::release::kernel_release;

/// The system's calls, found once.
#[inline]
pub(super) fn calls() -> Option<Calls> {
    static CALLS: OnceLock<Option<Calls>> = OnceLock::new();
    *CALLS.get_or_init(find)
}

#[cold]
fn find() -> Option<Calls> {
    if !is_safe(&kernel_release()?) {
        return None;
    }
    let (recv, send) = (symbol(c"recvmsg_x")?, symbol(c"sendmsg_x")?);
    // SAFETY: the functions of these names have these types (bsd/sys/socket_private.h).
    let (recv, send) = unsafe {
        (
            std::mem::transmute::<*mut c_void, RecvFn>(recv),
            std::mem::transmute::<*mut c_void, SendFn>(send),
        )
    };
    Some(Calls { recv, send, most: most() })
}

/// The address of a function of the C library.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a text that ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The most messages of a receive: `kern.ipc.maxrecvmsgx`, beyond which the kernel would return fewer
/// without a word, though more wait.
fn most() -> usize {
    let mut limit: c_uint = 0;
    let mut len = size_of::<c_uint>();
    let name = c"kern.ipc.maxrecvmsgx".as_ptr();
    // SAFETY: `limit` is `len` writable bytes; nothing is set.
    let result = unsafe {
        libc::sysctlbyname(name, ptr::from_mut(&mut limit).cast(), &mut len, ptr::null_mut(), 0)
    };
    // A sandbox may keep it from being read.
    if result == 0 { (limit as usize).clamp(1, MOST) } else { MOST }
}
