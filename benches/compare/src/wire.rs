//! The sockets of one way.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use mmsg::options::{self, Fragmentation};
use nix::sys::socket::{setsockopt, sockopt};

use crate::load::Load;

/// Bytes of a receive buffer that the kernel charges for a waiting datagram, rounded up.
const CHARGE: usize = 4096;
/// Datagrams that the buffer of a single receiver is to hold.
const MAX: usize = 1024;

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
            options::set_recv_buffer(socket, CHARGE * if load.dests == 1 { MAX } else { 128 })?;
            // A lost datagram ends the benchmark; without a timeout it would hang.
            socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        }
        let near = bind()?;
        // quinn-udp sets this, so all sockets have it. The kernel then need not choose an
        // identification for each datagram.
        far.iter().chain([&near]).try_for_each(|socket| Fragmentation::Probe.set(socket))?;
        let to = far.iter().map(UdpSocket::local_addr).collect::<io::Result<_>>()?;
        Ok(Self { near, far, to })
    }

    /// Enables or disables ECN bits and destinations at each receiver, without timestamps.
    pub fn enable_metadata(&self, on: bool) -> io::Result<()> {
        for socket in &self.far {
            setsockopt(socket, sockopt::IpRecvTos, &on)?;
            setsockopt(socket, sockopt::Ipv4PacketInfo, &on)?;
            setsockopt(socket, sockopt::ReceiveTimestampns, &false)?;
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

/// Datagrams that a receive buffer holds on this machine.
pub fn capacity() -> io::Result<usize> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    // The kernel doubles the size.
    Ok(2 * options::set_recv_buffer(&socket, CHARGE * MAX)? / CHARGE)
}
