//! Linux and Android: which member gets a datagram, and how one leaves.

use std::num::NonZeroU32;
use std::os::fd::AsRawFd;
use std::{io, mem, ptr};

use libc::c_ulong;
use socket2::{Protocol, Socket, Type};

use super::Instruction;

pub(crate) const SPREADS: bool = true;
pub(crate) const SHARES_WHEN_BOUND: bool = true;
/// Linux before 4.5, and gVisor.
pub(crate) const NO_PROGRAMS: Option<i32> = Some(libc::ENOPROTOOPT);

pub(crate) fn share(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

pub(crate) fn is_shared(socket: &Socket) -> io::Result<bool> {
    socket.reuse_port()
}

pub(crate) fn is_udp(socket: &Socket) -> io::Result<bool> {
    Ok(socket.r#type()? == Type::DGRAM && socket.protocol()? == Some(Protocol::UDP))
}

/// What sockets on one address must have in common to be one group for the kernel (`udp_reuseport_add_sock` in
/// net/ipv4/udp.c): whether they serve IPv6 alone, and their network interface.
pub(crate) fn scope(socket: &Socket) -> (Option<bool>, Option<NonZeroU32>) {
    (socket.only_v6().ok(), socket.device_index_v4().ok().flatten())
}

/// The kernel's number of the socket, which its duplicates have too.
#[cfg(target_os = "linux")]
pub(crate) fn cookie(socket: &Socket) -> Option<u64> {
    socket.cookie().ok()
}

/// socket2 has no call for it there.
#[cfg(target_os = "android")]
pub(crate) fn cookie(_: &Socket) -> Option<u64> {
    None
}

/// `struct sock_fprog` (include/uapi/linux/filter.h). The kernel copies the padding, too, so it must be initialised.
#[repr(C)]
struct Program {
    len: u16,
    padding: [u8; PADDING],
    filter: *const Instruction,
}

const PADDING: usize = mem::offset_of!(libc::sock_fprog, filter) - size_of::<u16>();

/// `SO_ATTACH_REUSEPORT_CBPF`, include/uapi/asm-generic/socket.h. libc lacks it for Android.
const ATTACH_CBPF: libc::c_int = 51;

/// Spreads the datagrams of the socket's group by a program (socket(7), Linux 4.5). The kernel checks the program.
#[allow(unsafe_code)]
pub(crate) fn attach_cbpf(socket: &Socket, program: &[Instruction]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let value = Program { len, padding: [0; PADDING], filter: program.as_ptr() };
    let size = size_of_val(&value) as libc::socklen_t;
    let (fd, data) = (socket.as_raw_fd(), ptr::from_ref(&value).cast());
    // SAFETY: `data` points at `value`, `size` bytes laid out as a `sock_fprog` whose pointer is to `len` instructions,
    // each laid out as a `sock_filter`. The kernel copies both during the call.
    let result = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, ATTACH_CBPF, data, size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the socket out of its group at once, by binding it to a network interface that does not exist. From then on
/// the socket receives nothing, and a loop that receives from it ends with `WouldBlock`. The kernel does not check that
/// the interface exists, and rehashing the socket removes it from its group (`sock_bindtoindex_locked` in
/// net/core/sock.c, `udp_lib_rehash` in net/ipv4/udp.c).
pub(crate) fn detach(socket: &Socket) -> io::Result<()> {
    // The option is the same for IPv6.
    socket.bind_device_by_index_v4(NonZeroU32::new(i32::MAX as u32))?;
    socket.set_nonblocking(true)
}

/// Waits until every CPU has finished what it is doing, such as delivering a datagram (`synchronize_rcu` in
/// membarrier(2)). Does nothing where a sandbox denies the call, nor on Android: its C library has no function for the
/// call, and its sandbox kills a process that makes it by number.
#[allow(unsafe_code)]
pub(crate) fn wait_for_deliveries() {
    #[cfg(not(target_os = "android"))]
    // SAFETY: the call takes three numbers and touches no memory of this process.
    let _ = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0, 0) };
}

/// Runs the calling thread on those of its CPUs that `keep` picks. Changes nothing if there are none.
#[allow(unsafe_code)]
pub(crate) fn set_affinity(keep: impl Fn(usize) -> bool) {
    const BITS: usize = c_ulong::BITS as usize;
    // A bit for each CPU, as many as a `cpu_set_t` has.
    let mut cpus: [c_ulong; 1024 / BITS] = [0; 1024 / BITS];
    let size = size_of_val(&cpus);
    // If this fails, the set stays empty.
    // SAFETY: `cpus` is an array of `size` bytes, aligned as a `cpu_set_t`, and the kernel writes no more than these.
    let _ = unsafe { libc::sched_getaffinity(0, size, cpus.as_mut_ptr().cast()) };
    for (word, bits) in cpus.iter_mut().enumerate() {
        for bit in (0..BITS).filter(|bit| !keep(word * BITS + bit)) {
            *bits &= !(1 << bit);
        }
    }
    // SAFETY: `cpus` is an array of `size` bytes, which the kernel reads. It rejects an empty set.
    let _ = unsafe { libc::sched_setaffinity(0, size, cpus.as_ptr().cast()) };
}
