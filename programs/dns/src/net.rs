//! The sockets.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use mmsg::{Ancillary, Offload, ReusePortGroup};
use socket2::Socket;

/// How long a thread waits in a call before it checks whether to stop.
const WAIT: Duration = Duration::from_millis(200);
/// Space in the socket for bursts; the system gives at most net.core.rmem_max and wmem_max.
const BUFFER_BYTES: usize = 4 << 20;

/// Sockets that listen on `addr`, `count` of them on one port. A port that another server has is an
/// error.
pub fn listen(addr: SocketAddr, count: usize, destinations: bool) -> io::Result<ReusePortGroup> {
    let prepare = move |socket: &Socket| {
        // A system that rejects the size leaves its own.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(BUFFER_BYTES);
        // Both directions: a socket that is full must not hold up the end either.
        socket.set_read_timeout(Some(WAIT))?;
        socket.set_write_timeout(Some(WAIT))?;
        if destinations { enable_destinations(socket, addr) } else { Ok(()) }
    };
    let group = ReusePortGroup::builder(addr).members(count).prepare(prepare);
    // Only Linux can give an address to one group alone.
    group.exclusive(count == 1 || cfg!(target_os = "linux")).bind()
}

/// The group's sockets with counters, which may be read while threads serve. Queries come from many
/// places, unsegmented: there is nothing to coalesce.
pub fn with_counters(group: &ReusePortGroup, gso: bool) -> io::Result<Arc<[Offload<UdpSocket>]>> {
    let wrap =
        |socket: &UdpSocket| Offload::builder().gso(gso).gro(false).build(socket.try_clone()?);
    group.members().iter().map(wrap).collect()
}

/// Enables the address that each query was sent to, if the socket listens on several: an
/// answer from another one would be taken for forged.
fn enable_destinations(socket: &Socket, addr: SocketAddr) -> io::Result<()> {
    if addr.ip().is_unspecified() && !Ancillary::DEST.enable(socket)?.contains(Ancillary::DEST) {
        let reason = "this system does not report the address that a datagram was sent to";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    Ok(())
}
