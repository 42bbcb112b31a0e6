//! What the socket has by the target: its descriptor, and the options, which are tokio's. Not every target has all of them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
#[cfg(windows)]
use std::os::windows::io::{AsRawSocket, AsSocket, BorrowedSocket, RawSocket};

use tokio::net;

use crate::socket::UdpSocket;

macro_rules! descriptor {
    ($(#[$cfg:meta] $trait:ident, $method:ident -> $type:ty;)*) => {$(
        #[$cfg]
        impl $trait for UdpSocket {
            fn $method(&self) -> $type {
                self.plain().$method()
            }
        }
    )*};
}

descriptor! {
    #[cfg(unix)] AsFd, as_fd -> BorrowedFd<'_>;
    #[cfg(unix)] AsRawFd, as_raw_fd -> RawFd;
    #[cfg(windows)] AsSocket, as_socket -> BorrowedSocket<'_>;
    #[cfg(windows)] AsRawSocket, as_raw_socket -> RawSocket;
}

fn tokios(socket: &net::UdpSocket) -> &net::UdpSocket {
    socket
}

macro_rules! options {
    ($($(#[$cfg:meta])? $through:path, $on:ident.$name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        /// Socket options. What is queued is sent before one changes.
        impl UdpSocket {
            $(
                $(#[$cfg])?
                #[doc = concat!("As tokio's `", stringify!($name), "`.")]
                ///
                /// # Errors
                ///
                /// The system's error.
                pub fn $name(&self $(, $arg: $type)*) -> io::Result<$result> {
                    $through(self.$on()).$name($($arg),*)
                }
            )*
        }
    };
}

// tokio 1.47 lacks some options that socket2 has.
options! {
    tokios, plain.broadcast() -> bool;
    tokios, flushed.set_broadcast(on: bool) -> ();
    tokios, plain.multicast_loop_v4() -> bool;
    tokios, flushed.set_multicast_loop_v4(on: bool) -> ();
    tokios, plain.multicast_loop_v6() -> bool;
    tokios, flushed.set_multicast_loop_v6(on: bool) -> ();
    tokios, plain.multicast_ttl_v4() -> u32;
    tokios, flushed.set_multicast_ttl_v4(ttl: u32) -> ();
    tokios, plain.ttl() -> u32;
    tokios, flushed.set_ttl(ttl: u32) -> ();
    tokios, plain.join_multicast_v4(group: Ipv4Addr, interface: Ipv4Addr) -> ();
    tokios, plain.join_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
    tokios, plain.leave_multicast_v4(group: Ipv4Addr, interface: Ipv4Addr) -> ();
    tokios, plain.leave_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
    #[cfg(not(any(target_os = "fuchsia", target_os = "redox", target_os = "solaris", target_os = "illumos", target_os = "haiku")))]
    socket2::SockRef::from, plain.tos_v4() -> u32;
    #[cfg(not(any(target_os = "fuchsia", target_os = "redox", target_os = "solaris", target_os = "illumos", target_os = "haiku")))]
    socket2::SockRef::from, flushed.set_tos_v4(tos: u32) -> ();
    #[cfg(any(target_os = "android", target_os = "dragonfly", target_os = "freebsd", target_os = "linux", target_os = "macos", target_os = "netbsd", target_os = "openbsd"))]
    socket2::SockRef::from, plain.tclass_v6() -> u32;
    #[cfg(any(target_os = "android", target_os = "dragonfly", target_os = "freebsd", target_os = "linux", target_os = "macos", target_os = "netbsd", target_os = "openbsd"))]
    socket2::SockRef::from, flushed.set_tclass_v6(class: u32) -> ();
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    tokios, plain.device() -> Option<Vec<u8>>;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    tokios, flushed.bind_device(interface: Option<&[u8]>) -> ();
}
