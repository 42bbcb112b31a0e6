//! Faults planted for the sanitizers, one for each. `.ci/sanitizers` first runs these and fails if a sanitizer
//! reports nothing. They run only by name.
#![cfg(planted_fault)]

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// A receive whose iovec is longer than its buffer.
#[test]
#[ignore = "a fault"]
fn address() {
    let (near, far) = UnixDatagram::pair().expect("a pair");
    near.send(&[1; 64]).expect("it is taken");
    let mut buffer = vec![0u8; 32];
    let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: 64 };
    // SAFETY: none, on purpose: the iovec claims 64 bytes of a 32-byte buffer.
    let len = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut iov;
        header.msg_iovlen = 1;
        libc::recvmsg(far.as_raw_fd(), &raw mut header, 0)
    };
    assert_eq!(len, 64);
    drop(IoSliceMut::new(&mut buffer));
}

/// A branch that depends on an uninitialized byte after the received ones.
#[test]
#[ignore = "a fault"]
fn memory() {
    let (near, far) = UnixDatagram::pair().expect("a pair");
    near.send(&[1; 8]).expect("it is taken");
    let mut buffer = Vec::<MaybeUninit<u8>>::with_capacity(16);
    let start = buffer.spare_capacity_mut().as_mut_ptr().cast::<u8>();
    // SAFETY: the 16 bytes may be written; reading byte 12, which `recv` did not write, is the planted fault.
    let past = unsafe {
        libc::recv(far.as_raw_fd(), start.cast(), 16, 0);
        start.add(12).read()
    };
    if past == 77 {
        println!("seventy-seven");
    }
}

/// Two threads write to one number.
#[test]
#[ignore = "a fault"]
fn thread() {
    struct Shared(*mut u32);
    // SAFETY: none, on purpose: nothing orders the two threads' writes.
    unsafe impl Send for Shared {}
    // Both threads run before either writes. Otherwise a lock of the standard library between the end of one and the
    // start of the other could order them.
    static RUNNING: AtomicU32 = AtomicU32::new(0);
    let mut number = Box::new(0u32);
    let mut add = || {
        let shared = Shared(&raw mut *number);
        thread::spawn(move || {
            let shared = shared;
            RUNNING.fetch_add(1, Ordering::Relaxed);
            while RUNNING.load(Ordering::Relaxed) < 2 {
                thread::yield_now();
            }
            for _ in 0..10_000 {
                // SAFETY: as above; the box outlives the thread.
                unsafe { *shared.0 += 1 };
            }
        })
    };
    for thread in [add(), add()] {
        thread.join().expect("it adds");
    }
}
