//! Datagrams from port 0, which no UDP socket sends.

use std::io;
use std::net::SocketAddrV4;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Sends UDP datagrams from any port to one address. Needs permission to make a raw socket.
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
