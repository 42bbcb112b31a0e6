//! Questions about a socket: its type and family, and what the kernel supports on it.

use std::io;

use socket2::{SockRef, Type};

pub use std::os::fd::AsFd as AsSocket;
pub(crate) use std::os::fd::BorrowedFd as BorrowedSocket;

use crate::sys::message::{Families, Rejection};
use crate::sys::numbers;

/// Which Internet families the socket carries. A Unix socket carries none.
#[cold]
pub(crate) fn families(socket: BorrowedSocket<'_>) -> io::Result<Families> {
    let handle = SockRef::from(&socket);
    let local = handle.local_addr()?;
    let v6 = local.is_ipv6();
    // A raw IPv6 socket receives only IPv6, whatever IPV6_V6ONLY says.
    let both = v6 && handle.r#type()? != Type::RAW && !handle.only_v6()?;
    Ok(Families { v4: local.is_ipv4() || both, v6 })
}

/// Whether the socket is blocking; `None` if the system does not tell.
#[cold]
pub(crate) fn waits(socket: BorrowedSocket<'_>) -> Option<bool> {
    SockRef::from(&socket).nonblocking().ok().map(|on| !on)
}

/// Whether the socket has a readable error queue. A socket without one ignores `MSG_ERRQUEUE` and receives data.
#[cold]
pub(crate) fn has_error_queue(socket: BorrowedSocket<'_>) -> io::Result<bool> {
    let handle = SockRef::from(&socket);
    let is_of_messages = [Type::DGRAM, Type::RAW].contains(&handle.r#type()?);
    Ok(numbers::ERROR_V4.is_some() && is_of_messages && is_internet(&handle)?)
}

fn is_internet(socket: &SockRef<'_>) -> io::Result<bool> {
    socket.local_addr().map(|local| local.is_ipv4() || local.is_ipv6())
}

/// Borrows the socket.
#[inline]
pub(crate) fn borrow(socket: &(impl AsSocket + ?Sized)) -> BorrowedSocket<'_> {
    socket.as_fd()
}

/// Calls a macro for each type that owns a datagram socket.
macro_rules! for_datagram_sockets {
    ($each:ident) => {
        $each!([] std::net::UdpSocket);
        $each!([] std::os::unix::net::UnixDatagram);
        $each!([] std::os::fd::OwnedFd);
        $each!(#[cfg(feature = "mio")] [] mio::net::UdpSocket);
        $each!(#[cfg(feature = "mio")] [] mio::net::UnixDatagram);
    };
}
pub(crate) use for_datagram_sockets;

/// Implements `AsSocket` for a type that contains a socket.
macro_rules! impl_as_socket {
    ([$($generics:tt)*] $type:ty, |$this:ident| $socket:expr) => {
        impl<$($generics)*> std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                let $this = self;
                $socket
            }
        }

        impl<$($generics)*> std::os::fd::AsRawFd for $type {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                let $this = self;
                std::os::fd::AsRawFd::as_raw_fd(&$socket)
            }
        }
    };
}
pub(crate) use impl_as_socket;

/// Whether the socket is an Internet socket, of either family.
#[cold]
pub(crate) fn is_inet(socket: BorrowedSocket<'_>) -> bool {
    is_internet(&SockRef::from(&socket)).unwrap_or(false)
}

/// The likely reason for this error of a GSO batch. Each error has other causes, too: only sending the datagrams one by
/// one tells them apart.
pub(crate) fn segmentation_rejected(error: &io::Error) -> Option<Rejection> {
    match error.raw_os_error()? {
        // The device has no checksum offload, or IPsec forbids GSO (udp_send_skb in net/ipv4/udp.c).
        libc::EIO | libc::EOPNOTSUPP => Some(Rejection::Unsupported),
        // Segments exceed the route's MTU, or there are too many segments or bytes for this kernel (udp_send_skb and
        // ip_append_data).
        libc::EINVAL | libc::EMSGSIZE => Some(Rejection::Size),
        _ => None,
    }
}

/// Whether this error may mean that the kernel rejects a message's TOS byte or traffic class, as some Android kernels do.
pub(crate) fn may_be_about_tos(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO))
}
