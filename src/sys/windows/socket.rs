//! Questions about a socket: its type and family, and what the system supports on it.

use std::io;
pub use std::os::windows::io::AsSocket;
pub(crate) use std::os::windows::io::BorrowedSocket;

use socket2::SockRef;
use windows_sys::Win32::Networking::WinSock::{
    AF_INET, AF_INET6, SOCK_RAW, WSAEINVAL, WSAEMSGSIZE, WSAEOPNOTSUPP,
};

use super::options::protocol;
use crate::sys::message::{Families, Rejection};

/// Calls a macro for each type that owns a datagram socket.
macro_rules! for_datagram_sockets {
    ($each:ident) => {
        $each!([] std::net::UdpSocket);
        $each!([] std::os::windows::io::OwnedSocket);
        $each!(#[cfg(feature = "mio")] [] mio::net::UdpSocket);
    };
}
pub(crate) use for_datagram_sockets;

/// Implements `AsSocket` for a type that contains a socket.
macro_rules! impl_as_socket {
    ([$($generics:tt)*] $type:ty, |$this:ident| $socket:expr) => {
        impl<$($generics)*> std::os::windows::io::AsSocket for $type {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                let $this = self;
                $socket
            }
        }

        impl<$($generics)*> std::os::windows::io::AsRawSocket for $type {
            fn as_raw_socket(&self) -> std::os::windows::io::RawSocket {
                let $this = self;
                std::os::windows::io::AsRawSocket::as_raw_socket(&$socket)
            }
        }
    };
}
pub(crate) use impl_as_socket;

/// Borrows the socket.
pub(crate) fn borrow(socket: &(impl AsSocket + ?Sized)) -> BorrowedSocket<'_> {
    socket.as_socket()
}

/// Which Internet families the socket carries.
#[cold]
pub(crate) fn families(socket: BorrowedSocket<'_>) -> io::Result<Families> {
    let info = protocol(socket)?;
    let is_v6 = info.iAddressFamily == i32::from(AF_INET6);
    // A raw IPv6 socket receives only IPv6, whatever IPV6_V6ONLY says.
    let both = is_v6 && info.iSocketType != SOCK_RAW && !SockRef::from(&socket).only_v6()?;
    Ok(Families { v4: info.iAddressFamily == i32::from(AF_INET) || both, v6: is_v6 })
}

/// Windows has no socket filters.
pub(crate) fn has_filter(_: BorrowedSocket<'_>) -> bool {
    false
}

/// Whether the socket is an Internet socket, of either family.
#[cold]
pub(crate) fn is_inet(socket: BorrowedSocket<'_>) -> bool {
    families(socket).is_ok_and(|families| families.v4 || families.v6)
}

pub(crate) fn has_error_queue(_: BorrowedSocket<'_>) -> io::Result<bool> {
    Ok(false)
}

/// The likely reason for this error of a segmented message. Each error has other causes, too: only sending the datagrams
/// one by one tells them apart.
pub(crate) fn segmentation_rejected(error: &io::Error) -> Option<Rejection> {
    match error.raw_os_error()? {
        WSAEOPNOTSUPP => Some(Rejection::Unsupported),
        WSAEINVAL | WSAEMSGSIZE => Some(Rejection::Size),
        _ => None,
    }
}

/// Whether the socket is blocking. Windows does not tell.
pub(crate) fn waits(_: BorrowedSocket<'_>) -> Option<bool> {
    None
}
