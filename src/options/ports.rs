//! Which local ports the system gives to a socket.

use std::io;
use std::ops::RangeInclusive;

use crate::sys::numbers;
use crate::sys::{self, AsSocket};

/// Limits the ports that the system chooses from for a socket that is bound to port 0 or not bound
/// (`IP_LOCAL_PORT_RANGE`, Linux 6.3). `0..=0` removes the limit.
///
/// The system chooses only ports that are in its own range as well (`net.ipv4.ip_local_port_range`). So processes
/// that share an address can each have ports of their own.
///
/// ```
/// use socket2::{Domain, Socket, Type};
/// let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
/// if mmsg::options::set_local_port_range(&socket, 40_000..=40_999).is_err() {
///     eprintln!("any free port will do");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `Unsupported` on other platforms than Linux and Android; else the system's error: `EINVAL` for an empty range.
#[doc(alias = "IP_LOCAL_PORT_RANGE")]
pub fn set_local_port_range(socket: &impl AsSocket, ports: RangeInclusive<u16>) -> io::Result<()> {
    // The lower 16 bits are the first port (ip(7)).
    let value = u32::from(*ports.start()) | u32::from(*ports.end()) << 16;
    sys::set_option(sys::borrow(socket), numbers::LOCAL_PORT_RANGE, value as i32)
}

/// Makes a bind to port 0 set only the address; the first send or `connect` chooses the port
/// (`IP_BIND_ADDRESS_NO_PORT`, Linux 4.2).
///
/// Until then the socket receives nothing. Useful for many sockets, few of which are used.
///
/// ```
/// use socket2::{Domain, Socket, Type};
/// let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
/// if mmsg::options::set_bind_without_port(&socket, true).is_err() {
///     eprintln!("every bind takes a port");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `Unsupported` on other platforms than Linux and Android; else the system's error.
#[doc(alias = "IP_BIND_ADDRESS_NO_PORT")]
pub fn set_bind_without_port(socket: &impl AsSocket, on: bool) -> io::Result<()> {
    sys::set_option(sys::borrow(socket), numbers::BIND_ADDRESS_NO_PORT, on.into())
}
