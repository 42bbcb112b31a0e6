//! A seccomp filter that denies some system calls of the calling thread, as a sandbox does.

use std::io;

use libc::{c_ulong, sock_filter, sock_fprog};

/// A function of the C library, and the system calls that it may make.
#[derive(Clone, Copy, PartialEq)]
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
    let denial = answer(libc::SECCOMP_RET_ERRNO | errno as u32);
    let mut program = vec![load(NUMBER)];
    for number in calls.iter().flat_map(|call| call.numbers) {
        program.extend([if_is(*number as u32, 1), denial]);
    }
    if let Some(number) = SOCKETCALL {
        // Any other call jumps to the end of the filter.
        let rest = 1 + 2 * calls.len() as u8;
        program.extend([if_is(number as u32, rest), load(FIRST_ARGUMENT)]);
        for call in calls {
            program.extend([if_is(call.socketcall, 1), denial]);
        }
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    install(&mut program)
}

/// From now on, each `recvmmsg` of this thread with `MSG_WAITFORONE` fails with `EINVAL`.
///
/// # Errors
///
/// If the system does not let this thread install a filter, or receives by another call.
pub fn reject_wait_flag() -> io::Result<()> {
    let flag = libc::MSG_WAITFORONE as u32;
    let has_flag = sock_filter { code: (libc::BPF_JMP | libc::BPF_JSET) as u16, ..if_is(flag, 1) };
    let error = libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32;
    install_for(libc::SYS_recvmmsg, &[load(FIRST_ARGUMENT + 24), has_flag, answer(error)])
}

/// From now on, setting this option of any level fails with `errno` on this thread.
///
/// # Errors
///
/// If the system does not let this thread install a filter, or sets options by another call.
pub fn deny_option(name: i32, errno: i32) -> io::Result<()> {
    let error = answer(libc::SECCOMP_RET_ERRNO | errno as u32);
    let statements = [load(FIRST_ARGUMENT + 16), if_is(name as u32, 1), error];
    install_for(libc::SYS_setsockopt, &statements)
}

/// From now on, this thread can set this option of any level without effect, unless `sets`, and reading it fails with
/// `ENOPROTOOPT`.
///
/// # Errors
///
/// If the system does not let this thread install a filter, or has options by another call.
pub fn ignore_option(name: i32, sets: bool) -> io::Result<()> {
    let ask = |answer| [load(FIRST_ARGUMENT + 16), if_is(name as u32, 1), answer];
    if !sets {
        install_for(libc::SYS_setsockopt, &ask(answer(libc::SECCOMP_RET_ERRNO)))?;
    }
    let error = libc::SECCOMP_RET_ERRNO | libc::ENOPROTOOPT as u32;
    install_for(libc::SYS_getsockopt, &ask(answer(error)))
}

/// Installs a filter that runs `statements` for a system call, and lets everything else pass.
fn install_for(number: libc::c_long, statements: &[sock_filter]) -> io::Result<()> {
    if SOCKETCALL.is_some() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let call = [load(NUMBER), if_is(number as u32, statements.len() as u8)];
    install(&mut [&call, statements, &[answer(libc::SECCOMP_RET_ALLOW)]].concat())
}

fn load(at: u32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at)
}

fn answer(with: u32) -> sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, with)
}

/// Skips this many statements unless the loaded value is `value`.
fn if_is(value: u32, else_skip: u8) -> sock_filter {
    sock_filter { jf: else_skip, ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value) }
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
