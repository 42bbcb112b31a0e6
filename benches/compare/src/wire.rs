//! The sockets of one way.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use mmsg::options::{self, Fragmentation};
use nix::sys::socket::{setsockopt, sockopt};

use crate::load::Load;

/// Bytes of a receive buffer that the kernel charges for a waiting datagram with its overhead, rounded up.
const CHARGE: usize = 4096;
/// Space for the largest batch.
const MOST: usize = 1024;

/// Sockets of one way: datagrams go from `near` to one of `far`.
pub struct Wire {
    pub near: UdpSocket,
    pub far: Vec<UdpSocket>,
    /// The addresses of `far`.
    pub to: Vec<SocketAddr>,
}

impl Wire {
    pub fn new(load: &Load) -> io::Result<Self> {
        let bind = || UdpSocket::bind("127.0.0.1:0");
        let far = (0..load.dests).map(|_| bind()).collect::<io::Result<Vec<_>>>()?;
        for socket in &far {
            options::set_recv_buffer(socket, CHARGE * if load.dests == 1 { MOST } else { 128 })?;
            // A datagram that was lost ends the benchmark instead of stopping it.
            socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        }
        let near = bind()?;
        // quinn-udp's sockets have this, so the others have it, too: the kernel's work is the same. It is
        // spared the choice of an identification for each datagram.
        far.iter().chain([&near]).try_for_each(|socket| Fragmentation::Probe.set(socket))?;
        let to = far.iter().map(UdpSocket::local_addr).collect::<io::Result<_>>()?;
        Ok(Self { near, far, to })
    }

    /// Enables ECN bits and destinations at each receiver, or disables them.
    pub fn enable_metadata(&self, on: bool) -> io::Result<()> {
        for socket in &self.far {
            setsockopt(socket, sockopt::IpRecvTos, &on)?;
            setsockopt(socket, sockopt::Ipv4PacketInfo, &on)?;
        }
        Ok(())
    }

    /// Enables GRO.
    pub fn enable_gro(&self) -> io::Result<()> {
        for socket in &self.far {
            setsockopt(socket, sockopt::UdpGroSegment, &true)?;
        }
        Ok(())
    }
}

/// Datagrams that may wait at a socket here.
pub fn capacity() -> io::Result<usize> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    // The kernel doubles the size.
    Ok(2 * options::set_recv_buffer(&socket, CHARGE * MOST)? / CHARGE)
}
