//! The sockets.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use mmsg::Ancillary;
use socket2::{Domain, Protocol, Socket, Type};

/// How long a thread waits in a call before it checks whether to stop.
const WAIT: Duration = Duration::from_millis(200);
/// Space in the socket for bursts; the system gives at most net.core.rmem_max and wmem_max.
const BUFFER_BYTES: usize = 4 << 20;

/// Sockets that listen on `addr`, `count` of them on one port.
pub fn listen(addr: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    let first = new_socket(addr)?;
    // The first one does not share the port while it binds, so that a second server is rejected.
    first.bind(&addr.into())?;
    first.set_reuse_port(count > 1)?;
    let mut sockets = vec![UdpSocket::from(first)];
    let addr = sockets[0].local_addr()?;
    for _ in 1..count {
        let next = new_socket(addr)?;
        next.set_reuse_port(true)?;
        next.bind(&addr.into())?;
        sockets.push(next.into());
    }
    Ok(sockets)
}

fn new_socket(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    // A system that rejects the size leaves its own.
    let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    // Both directions: a socket that is full must not hold up the end either.
    socket.set_read_timeout(Some(WAIT))?;
    socket.set_write_timeout(Some(WAIT))?;
    Ok(socket)
}

/// Enables the address that each query was sent to, if the socket listens on several: an
/// answer from another one would be taken for forged.
pub fn enable_destinations(socket: &UdpSocket, addr: SocketAddr) -> io::Result<()> {
    if addr.ip().is_unspecified() && !Ancillary::DEST.enable(socket)?.contains(Ancillary::DEST) {
        let reason = "this system does not report the address that a datagram was sent to";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    Ok(())
}
