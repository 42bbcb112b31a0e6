//! Linux only: options without a safe name, network namespaces, CPU affinity and datagrams from port 0.

use std::io;
use std::mem;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{skip, test_name};

/// `SOL_UDP` (include/linux/socket.h).
pub const SOL_UDP: i32 = libc::IPPROTO_UDP;
/// The segment size of sent messages, an unsigned 16-bit number (include/uapi/linux/udp.h).
pub const UDP_SEGMENT: i32 = 103;
/// GRO: coalesced messages (in the same header).
pub const UDP_GRO: i32 = 104;

/// Sets a socket option that is an int.
pub fn set_option(socket: &impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_raw(socket, level, name, &value)
}

/// Reads a socket option of 32 bits.
pub fn option(socket: &impl AsFd, level: i32, name: i32) -> io::Result<u32> {
    let (mut value, mut len) = (0u32, 4);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer is to `len` writable bytes.
    let result = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Whether the kernel can read an option, as each that it has. If not, prints why the test is skipped.
pub fn has_option(socket: &impl AsFd, level: i32, name: i32) -> bool {
    let value = option(socket, level, name);
    value.inspect_err(|error| skip(format_args!("option {level}, {name}: {error}"))).is_ok()
}

/// Whether the kernel reports when messages were sent and received, as every Linux does. If not, prints that.
pub fn has_timestamps() -> bool {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    has_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING)
}

/// Sets a socket option that is a plain C value.
pub fn set_raw<T: Copy>(socket: &impl AsFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of `value`, which outlives the call.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const *value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Runs `test` in a new network namespace with only loopback. Prints why and does nothing if the process may not make
/// one.
pub fn in_namespace(test: impl FnOnce() + Send) {
    let run = || {
        // SAFETY: it takes no pointers; it changes the namespace of this thread only.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return skip(format_args!("no namespace: {}", io::Error::last_os_error()));
        }
        match raise_loopback() {
            Ok(()) => test(),
            Err(error) => skip(format_args!("no loopback in a namespace: {error}")),
        }
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(test_name());
        if let Err(panic) = thread.spawn_scoped(scope, run).expect("a thread").join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// What a clock shows, for one `CLOCK_THREAD_CPUTIME_ID`: this thread's CPU time, user and kernel.
pub fn time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes one `timespec`.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The CPUs that this thread may run on.
pub fn cpus() -> Vec<usize> {
    // SAFETY: a C struct of numbers, for which all zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the kernel fills a set of the given size.
    let result = unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &mut set) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    // SAFETY: the number is less than the number of bits in the set.
    let is_in = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..8 * mem::size_of_val(&set)).filter(is_in).collect()
}

/// Keeps this thread on one CPU from now on.
pub fn run_on(cpu: usize) {
    // SAFETY: a C struct of numbers, for which all zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    assert!(cpu < 8 * mem::size_of_val(&set));
    // SAFETY: the number was checked above.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the kernel reads a set of the given size.
    let result = unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &set) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

fn raise_loopback() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind(("0.0.0.0", 0))?;
    // SAFETY: ifreq is a C struct of bytes, numbers and raw pointers, for which all zeros are valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as _;
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as _;
    // SAFETY: this request reads an ifreq (netdevice(7)), which outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends UDP datagrams from any port to one address, also from port 0, as no UDP socket does. Needs permission to make a raw socket.
pub struct RawSender {
    socket: Socket,
    to: SocketAddrV4,
}

impl RawSender {
    pub fn to(to: SocketAddrV4) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP))?;
        Ok(Self { socket, to })
    }

    /// Sends a datagram with this source port in its header (RFC 768; a checksum of 0 means none).
    pub fn send_from(&self, port: u16, data: &[u8]) -> io::Result<()> {
        let len = 8 + u16::try_from(data.len()).map_err(io::Error::other)?;
        let mut bytes = [port, self.to.port(), len, 0].map(u16::to_be_bytes).concat();
        bytes.extend(data);
        self.socket.send_to(&bytes, &SockAddr::from(self.to)).map(drop)
    }
}
