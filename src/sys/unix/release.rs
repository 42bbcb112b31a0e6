//! The call `uname`.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem::MaybeUninit;

/// The release of the running kernel, as `uname -r` prints it.
#[cold]
pub(crate) fn kernel_release() -> Option<String> {
    let mut names = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: the pointer is to writable memory of the struct's size.
    if unsafe { libc::uname(names.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: a C struct of arrays of characters, of which zero is a value, and so is what the call wrote.
    let names = unsafe { names.assume_init() };
    // SAFETY: the array is not changed while it is borrowed, and the call ends the text in it with a zero
    // byte (uname(2)).
    let release = unsafe { CStr::from_ptr(names.release.as_ptr()) };
    release.to_str().ok().map(str::to_owned)
}
