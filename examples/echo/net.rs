//! The sockets.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// How long a server's thread waits in a call before it looks whether to stop.
const SERVER_WAIT: Duration = Duration::from_millis(200);
/// How long a client waits in a call before it looks whether datagrams have been lost.
const CLIENT_WAIT: Duration = Duration::from_millis(20);

/// Room in the socket for bursts. The system gives what it allows, on Linux at most
/// net.core.rmem_max and wmem_max.
const ROOM: usize = 4 << 20;

/// Sockets that listen on `addr`, `count` of them on one port.
pub fn listen(addr: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    let first = new_socket(addr)?;
    // The first one does not share the port while it binds: otherwise two servers of several
    // threads would share one without a word, instead of the second being told that it is in use.
    first.bind(&addr.into())?;
    if count > 1 {
        share_port(&first)?;
    }
    let first = UdpSocket::from(first);
    let addr = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..count {
        let next = new_socket(addr)?;
        share_port(&next)?;
        next.bind(&addr.into())?;
        sockets.push(next.into());
    }
    for socket in &sockets {
        // Both directions: a socket that is full must not hold up the end either.
        socket.set_read_timeout(Some(SERVER_WAIT))?;
        socket.set_write_timeout(Some(SERVER_WAIT))?;
    }
    Ok(sockets)
}

/// A socket that is connected to `addr`, so that only its datagrams are received.
pub fn connect(addr: SocketAddr) -> io::Result<UdpSocket> {
    let local = match addr {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = new_socket(local)?;
    socket.bind(&local.into())?;
    socket.connect(&addr.into())?;
    let socket = UdpSocket::from(socket);
    socket.set_read_timeout(Some(CLIENT_WAIT))?;
    socket.set_write_timeout(Some(CLIENT_WAIT))?;
    Ok(socket)
}

fn new_socket(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    // A system that refuses the size leaves its own, which does as well with a smaller window.
    let _ = socket.set_recv_buffer_size(ROOM);
    let _ = socket.set_send_buffer_size(ROOM);
    Ok(socket)
}

/// Lets further sockets of this user bind to the same port.
#[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos", target_os = "cygwin"))))]
fn share_port(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

/// This system has no SO_REUSEPORT.
#[cfg(not(all(
    unix,
    not(any(target_os = "solaris", target_os = "illumos", target_os = "cygwin"))
)))]
fn share_port(_: &Socket) -> io::Result<()> {
    let reason = "several threads need SO_REUSEPORT, which this system does not have";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}
