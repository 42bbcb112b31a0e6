//! Groups of sockets on one port: which of them gets a datagram, and how one leaves.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::cmsg::set_option;
use crate::sys::{Instruction, numbers};

/// `MEMBARRIER_CMD_GLOBAL`, include/uapi/linux/membarrier.h
#[cfg(not(target_os = "android"))]
const GLOBAL: libc::c_int = 1;

/// `struct sock_fprog` (include/uapi/linux/filter.h), with its padding written: the kernel copies it, too.
#[repr(C)]
struct Program {
    len: u16,
    padding: [u8; PADDING],
    filter: *mut libc::sock_filter,
}

const PADDING: usize = mem::offset_of!(libc::sock_fprog, filter) - size_of::<u16>();

/// Has the socket's group spread its datagrams by a program (socket(7), Linux 4.5). The kernel checks
/// the program.
pub(crate) fn spread_by(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut filter: Vec<libc::sock_filter> = program
        .iter()
        .map(|&Instruction { code, if_true, if_false, k }| libc::sock_filter {
            code,
            jt: if_true,
            jf: if_false,
            k,
        })
        .collect();
    let value = Program { len, padding: [0; PADDING], filter: filter.as_mut_ptr() };
    let size = size_of_val(&value) as libc::socklen_t;
    let (level, name) = numbers::ATTACH_PROGRAM.ok_or(io::ErrorKind::Unsupported)?;
    // SAFETY: `value` is laid out as a `sock_fprog` of `size` bytes whose pointer is that of `filter`, which has
    // `len` instructions and lives past the call. The kernel makes a copy of both.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), size)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the socket out of its group at once, by binding it to a network interface that does not exist. From
/// then on the socket receives nothing. The kernel does not check that the interface exists, and a socket that is
/// hashed anew has no group (`sock_bindtoindex_locked` in net/core/sock.c, `udp_lib_rehash` in net/ipv4/udp.c).
pub(crate) fn leave_port(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, numbers::BIND_TO_INTERFACE, i32::MAX)
}

/// Waits until every CPU is past what it was doing, the delivery of a datagram for example
/// (`synchronize_rcu` in membarrier(2)). Does nothing where the call is not allowed, nor on Android: the C library
/// has no function for the call, and Android's sandbox ends a process that makes it by number.
pub(crate) fn wait_for_deliveries() {
    #[cfg(not(target_os = "android"))]
    // SAFETY: the call takes three numbers and touches no memory of this process.
    unsafe {
        libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0)
    };
}

/// Has the calling thread run on those of its CPUs that `keep` keeps, if there are any.
pub(crate) fn keep_to_cpus(keep: impl Fn(usize) -> bool) {
    // SAFETY: a C struct of numbers: zero is a value of it.
    let mut now: libc::cpu_set_t = unsafe { mem::zeroed() };
    let mut kept = now;
    // SAFETY: `now` is a `cpu_set_t` of the size given, which the kernel fills.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&now), &mut now) } != 0 {
        return;
    }
    for cpu in (0..8 * size_of_val(&now)).filter(|cpu| keep(*cpu)) {
        // SAFETY: `cpu` is less than the number of bits in the set.
        if unsafe { libc::CPU_ISSET(cpu, &now) } {
            // SAFETY: as above.
            unsafe { libc::CPU_SET(cpu, &mut kept) };
        }
    }
    // SAFETY: `kept` is a `cpu_set_t` of the size given, which the kernel reads. It rejects an empty one.
    let _ = unsafe { libc::sched_setaffinity(0, size_of_val(&kept), &kept) };
}
