//! A seccomp filter that denies some system calls of the calling thread, as a sandbox does.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use libc::{c_ulong, sock_filter, sock_fprog};

/// A function of the C library, and the system calls that it may make.
#[derive(Clone, Copy)]
pub struct DeniedCall {
    numbers: &'static [libc::c_long],
    /// Its number as the first argument of `socketcall` (include/uapi/linux/net.h), which older architectures use for
    /// socket calls.
    socketcall: u32,
}

pub const RECVMMSG: DeniedCall = DeniedCall {
    numbers: &[
        libc::SYS_recvmmsg,
        // A 32-bit C library tries recvmmsg_time64 first. Its number is the same on all architectures
        // (include/uapi/asm-generic/unistd.h); the libc crate lacks it on some.
        #[cfg(target_pointer_width = "32")]
        417,
    ],
    socketcall: 19,
};

pub const SENDMSG: DeniedCall = DeniedCall { numbers: &[libc::SYS_sendmsg], socketcall: 16 };

pub const SENDTO: DeniedCall = DeniedCall { numbers: &[libc::SYS_sendto], socketcall: 11 };

pub const RECVMSG: DeniedCall = DeniedCall { numbers: &[libc::SYS_recvmsg], socketcall: 17 };

pub const SENDMMSG: DeniedCall = DeniedCall { numbers: &[libc::SYS_sendmmsg], socketcall: 20 };

pub const GETPEERNAME: DeniedCall = DeniedCall { numbers: &[libc::SYS_getpeername], socketcall: 7 };

/// Whether the C library's `sendmmsg` calls `sendmsg` in a loop, so that a filter of `sendmmsg` never sees it. 64-bit
/// musl does.
pub const SENDMMSG_IS_A_LOOP: bool = cfg!(all(target_env = "musl", target_pointer_width = "64"));

#[cfg(any(target_arch = "x86", target_arch = "s390x"))]
const SOCKETCALL: Option<libc::c_long> = Some(libc::SYS_socketcall);
#[cfg(not(any(target_arch = "x86", target_arch = "s390x")))]
const SOCKETCALL: Option<libc::c_long> = None;

/// Offsets in `struct seccomp_data`: the number of the call, and the low half of its first argument.
const NUMBER: u32 = 0;
const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "big") { 20 } else { 16 };

/// From now on, this thread's calls of `calls` fail with `errno`; all others go through.
///
/// The filter need not check the architecture: this program uses only one.
///
/// # Errors
///
/// If the system does not let this thread install a filter.
pub fn deny(calls: &[DeniedCall], errno: i32) -> io::Result<()> {
    let load = |at| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at);
    let answer = |with| statement(libc::BPF_RET | libc::BPF_K, with);
    let denial = answer(libc::SECCOMP_RET_ERRNO | errno as u32);
    let is = |value| statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value);
    // Skips the next statement unless the loaded value is `value`.
    let if_is = |value| sock_filter { jf: 1, ..is(value) };

    let mut program = vec![load(NUMBER)];
    for number in calls.iter().flat_map(|call| call.numbers) {
        program.extend([if_is(*number as u32), denial]);
    }
    if let Some(number) = SOCKETCALL {
        // Any other call jumps to the end of the filter.
        let rest = 1 + 2 * calls.len() as u8;
        program.extend([sock_filter { jf: rest, ..is(number as u32) }, load(FIRST_ARGUMENT)]);
        for call in calls {
            program.extend([if_is(call.socketcall), denial]);
        }
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    install(&mut program)
}

/// From now on, setting this option of any level fails with `errno` on this thread.
///
/// # Errors
///
/// If the system does not let this thread install a filter, or sets options by another call.
pub fn deny_option(name: i32, errno: i32) -> io::Result<()> {
    deny_setsockopt(FIRST_ARGUMENT + 16, name, errno)
}

/// The same for every option of this level.
pub fn deny_level(level: i32, errno: i32) -> io::Result<()> {
    deny_setsockopt(FIRST_ARGUMENT + 8, level, errno)
}

/// The same for every option with `value` as the argument at `at`.
fn deny_setsockopt(at: u32, value: i32, errno: i32) -> io::Result<()> {
    if SOCKETCALL.is_some() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let load = |at| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at);
    let answer = |with| statement(libc::BPF_RET | libc::BPF_K, with);
    let if_is = |value, jf| sock_filter {
        jf,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value)
    };
    let mut program = [
        load(NUMBER),
        if_is(libc::SYS_setsockopt as u32, 3),
        load(at),
        if_is(value as u32, 1),
        answer(libc::SECCOMP_RET_ERRNO | errno as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    install(&mut program)
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn install(program: &mut [sock_filter]) -> io::Result<()> {
    let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let (yes, unused): (c_ulong, c_ulong) = (1, 0);
    // SAFETY: no pointers. A thread must give up new privileges before it may filter itself.
    let given_up = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, unused, unused, unused) };
    if given_up != 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: the program and its length are those of the slice, and the kernel copies it.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Calls the C library's `recvmmsg` and `sendmmsg` with no messages.
pub fn ask(socket: &impl AsFd) -> [Result<(), i32>; 2] {
    let fd = socket.as_fd().as_raw_fd();
    let result = |answer: libc::c_int| match answer {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error().raw_os_error().expect("the system's")),
    };
    [
        // SAFETY: no headers, so no pointer is followed.
        result(unsafe {
            libc::recvmmsg(fd, ptr::null_mut(), 0, libc::MSG_DONTWAIT as _, ptr::null_mut())
        }),
        // SAFETY: as above.
        result(unsafe { libc::sendmmsg(fd, ptr::null_mut(), 0, 0) }),
    ]
}
