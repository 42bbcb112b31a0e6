//! Bound sockets on loopback, with space for large batches and a time limit on receives.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
#[cfg(unix)]
pub use std::os::fd::{BorrowedFd as BorrowedHandle, OwnedFd as OwnedHandle};
#[cfg(unix)]
use std::os::unix::net::UnixDatagram;
#[cfg(windows)]
pub use std::os::windows::io::{BorrowedSocket as BorrowedHandle, OwnedSocket as OwnedHandle};

use mmsg::{AsSocket, BatchSocket};
use socket2::{Domain, SockRef, Socket, Type};

use super::{TIME_LIMIT, choose_backend, skip};

/// Receive buffer to ask for: 2,000 small datagrams count about 2 MB with their overhead.
const BUFFER_BYTES: usize = 8 << 20;
/// As many datagrams as loopback delivers if they are sent at once. The BSDs queue them for another thread, and drop more
/// than 256 (`net.isr.defaultqlimit`).
pub const MAX_BURST: usize = if cfg!(any(target_os = "linux", windows)) { usize::MAX } else { 256 };

/// A blocking UDP socket on the IPv4 loopback address.
pub fn udp4() -> UdpSocket {
    choose_backend();
    prepared(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("an IPv4 loopback socket"))
}

/// A blocking UDP socket on the IPv6 loopback address; prints why and returns `None` if the machine has no IPv6.
pub fn udp6() -> Option<UdpSocket> {
    choose_backend();
    match UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) {
        Ok(socket) => Some(prepared(socket)),
        Err(error) => {
            skip(format_args!("no IPv6: {error}"));
            None
        }
    }
}

/// A blocking UDP socket on all addresses of both families; `None` as with [`udp6`].
pub fn dual_stack() -> Option<UdpSocket> {
    drop(udp6()?);
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, None).expect("an IPv6 socket");
    socket.set_only_v6(false).expect("a dual-stack socket");
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    socket.bind(&any.into()).expect("any port");
    Some(prepared(socket.into()))
}

/// Two IPv4 sockets, each connected to the other.
pub fn connected() -> (UdpSocket, UdpSocket) {
    let (a, b) = (udp4(), udp4());
    a.connect(addr(&b)).expect("connecting only stores the peer");
    b.connect(addr(&a)).expect("connecting only stores the peer");
    (a, b)
}

/// Two unnamed Unix datagram sockets, connected to each other.
#[cfg(unix)]
pub fn unix_pair() -> (UnixDatagram, UnixDatagram) {
    choose_backend();
    let (a, b) = UnixDatagram::pair().expect("a pair of Unix sockets");
    for socket in [&a, &b] {
        socket.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
        socket.set_write_timeout(Some(TIME_LIMIT)).expect("a timeout");
    }
    (a, b)
}

/// Two connected sockets. The first is non-blocking and soon full, except on Windows, where no socket gets full.
pub fn narrow() -> (impl BatchSocket, impl BatchSocket) {
    #[cfg(unix)]
    let (a, b) = unix_pair();
    #[cfg(not(unix))]
    let (a, b) = connected();
    a.set_nonblocking(true).expect("an open socket");
    (a, b)
}

/// Borrows what the system knows the socket by.
#[cfg(unix)]
pub fn borrow(socket: &impl AsSocket) -> BorrowedHandle<'_> {
    socket.as_fd()
}
#[cfg(windows)]
pub fn borrow(socket: &impl AsSocket) -> BorrowedHandle<'_> {
    socket.as_socket()
}

/// A socket that rejects datagrams with ECONNREFUSED, because it is connected to itself. (Another test could get the
/// port of a closed socket.)
pub fn refusing() -> UdpSocket {
    let socket = udp4();
    socket.connect(addr(&socket)).expect("connecting only stores the peer");
    socket
}

/// Where a socket is bound.
pub fn addr(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("it is bound")
}

/// Whether `datagrams` small ones fit the socket's buffer; prints it if not.
pub fn has_space_for(socket: &UdpSocket, datagrams: usize) -> bool {
    let capacity = SockRef::from(socket).recv_buffer_size().expect("its receive buffer");
    // A small datagram counts about 768 bytes with the kernel's overhead.
    let enough = capacity / 1024 >= datagrams;
    if !enough {
        skip(format_args!("{datagrams} datagrams do not fit a buffer of {capacity} bytes"));
    }
    enough
}

/// Sets the socket's buffers and timeouts.
fn prepared(socket: UdpSocket) -> UdpSocket {
    // Only root may exceed the system's limit; a test that needs the space calls has_space_for.
    #[cfg(target_os = "linux")]
    let forced = super::linux::set_option(
        &socket,
        libc::SOL_SOCKET,
        libc::SO_RCVBUFFORCE,
        BUFFER_BYTES as i32,
    )
    .is_ok();
    #[cfg(not(target_os = "linux"))]
    let forced = false;
    if !forced {
        let _ = mmsg::options::set_recv_buffer(&socket, BUFFER_BYTES);
    }
    // The BSDs send no datagram over 9,216 bytes without it.
    if cfg!(not(any(target_os = "linux", windows))) {
        let _ = mmsg::options::set_send_buffer(&socket, 1 << 17);
    }
    socket.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    socket.set_write_timeout(Some(TIME_LIMIT)).expect("a timeout");
    socket
}

/// Waits until everything that this thread has sent on loopback is delivered.
///
/// The kernel delivers loopback datagrams before the send returns or, under load, a little later, but always in
/// order. So once a last datagram arrives, all have.
pub fn settle() {
    let marker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("an IPv4 loopback socket");
    marker.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    marker.send_to(b"last", addr(&marker)).expect("loopback takes it");
    marker.recv(&mut [0; 4]).expect("loopback brings it");
}

/// Waits until everything that this thread has sent on loopback is delivered, and then for all ICMP answers.
pub fn settle_answers() {
    settle();
    settle();
}

/// Waits until the system has an error for this socket's datagrams. Nothing else may wait in the socket. (Linux
/// reports POLLERR, others POLLIN.)
#[track_caller]
pub fn wait_for_error(socket: &impl AsSocket) {
    assert!(wait_readable(borrow(socket)), "no error within {TIME_LIMIT:?}");
}

/// Waits until there is a datagram or an error; false after the time limit.
#[cfg(unix)]
pub fn wait_readable(socket: BorrowedHandle<'_>) -> bool {
    use std::os::fd::AsRawFd;
    let mut look = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let wait = TIME_LIMIT.as_millis().try_into().expect("a short time");
    // SAFETY: one `pollfd`, which outlives the call.
    unsafe { libc::poll(&mut look, 1, wait) == 1 }
}
#[cfg(windows)]
pub fn wait_readable(socket: BorrowedHandle<'_>) -> bool {
    use std::os::windows::io::AsRawSocket;
    use windows_sys::Win32::Networking::WinSock::{POLLRDNORM, WSAPOLLFD, WSAPoll};
    let fd = socket.as_raw_socket() as usize;
    let mut look = WSAPOLLFD { fd, events: POLLRDNORM, revents: 0 };
    let wait = TIME_LIMIT.as_millis().try_into().expect("a short time");
    // SAFETY: one `WSAPOLLFD`, which outlives the call.
    unsafe { WSAPoll(&mut look, 1, wait) == 1 }
}
