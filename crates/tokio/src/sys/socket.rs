//! Calls and traits that are those of tokio's socket. Not every target has all of them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use tokio::io::{Interest, Ready};

use crate::socket::UdpSocket;

macro_rules! forward {
    ($($(#[$cfg:meta])? $on:ident.$name:ident($($arg:ident: $type:ty),*) -> $result:ty $(, $async:ident $await:ident)?;)*) => {
        /// Addresses; readiness: readable while datagrams of a batch are left, writable while the queue or the socket has space;
        /// socket options: what is queued is sent before one changes.
        #[allow(deprecated)] // Later versions of tokio have only new names for some.
        impl UdpSocket {
            $(
                $(#[$cfg])?
                #[doc = concat!("As tokio's [`", stringify!($name), "`](tokio::net::UdpSocket::", stringify!($name), ").")]
                ///
                /// # Errors
                ///
                /// The system's error.
                pub $($async)? fn $name(&self $(, $arg: $type)*) -> $result {
                    self.$on().$name($($arg),*)$(.$await)?
                }
            )*
        }
    };
}

forward! {
    plain.local_addr() -> io::Result<SocketAddr>;
    plain.peer_addr() -> io::Result<SocketAddr>;
    plain.ready(interest: Interest) -> io::Result<Ready>, async await;
    plain.readable() -> io::Result<()>, async await;
    plain.writable() -> io::Result<()>, async await;
    plain.poll_recv_ready(cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    plain.poll_send_ready(cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    plain.broadcast() -> io::Result<bool>;
    flushed.set_broadcast(on: bool) -> io::Result<()>;
    plain.multicast_loop_v4() -> io::Result<bool>;
    flushed.set_multicast_loop_v4(on: bool) -> io::Result<()>;
    plain.multicast_loop_v6() -> io::Result<bool>;
    flushed.set_multicast_loop_v6(on: bool) -> io::Result<()>;
    plain.multicast_ttl_v4() -> io::Result<u32>;
    flushed.set_multicast_ttl_v4(ttl: u32) -> io::Result<()>;
    plain.ttl() -> io::Result<u32>;
    flushed.set_ttl(ttl: u32) -> io::Result<()>;
    plain.join_multicast_v4(group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()>;
    plain.join_multicast_v6(group: &Ipv6Addr, interface: u32) -> io::Result<()>;
    plain.leave_multicast_v4(group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()>;
    plain.leave_multicast_v6(group: &Ipv6Addr, interface: u32) -> io::Result<()>;
    #[cfg(not(any(target_os = "fuchsia", target_os = "redox", target_os = "solaris", target_os = "illumos", target_os = "haiku")))]
    plain.tos() -> io::Result<u32>;
    #[cfg(not(any(target_os = "fuchsia", target_os = "redox", target_os = "solaris", target_os = "illumos", target_os = "haiku")))]
    flushed.set_tos(tos: u32) -> io::Result<()>;
    #[cfg(not(any(target_os = "fuchsia", target_os = "redox", target_os = "solaris", target_os = "illumos", target_os = "haiku")))]
    sock_ref.tos_v4() -> io::Result<u32>;
    #[cfg(not(any(target_os = "fuchsia", target_os = "redox", target_os = "solaris", target_os = "illumos", target_os = "haiku")))]
    sock_ref.set_tos_v4(tos: u32) -> io::Result<()>;
    #[cfg(any(target_os = "android", target_os = "dragonfly", target_os = "freebsd", target_os = "linux", target_os = "macos", target_os = "netbsd", target_os = "openbsd"))]
    sock_ref.tclass_v6() -> io::Result<u32>;
    #[cfg(any(target_os = "android", target_os = "dragonfly", target_os = "freebsd", target_os = "linux", target_os = "macos", target_os = "netbsd", target_os = "openbsd"))]
    sock_ref.set_tclass_v6(class: u32) -> io::Result<()>;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    plain.device() -> io::Result<Option<Vec<u8>>>;
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    flushed.bind_device(interface: Option<&[u8]>) -> io::Result<()>;
}

macro_rules! descriptor {
    ($(#[$cfg:meta] $trait:path, $method:ident -> $type:ty;)*) => {$(
        #[$cfg]
        impl $trait for UdpSocket {
            fn $method(&self) -> $type {
                self.plain().$method()
            }
        }
    )*};
}

descriptor! {
    #[cfg(unix)] std::os::fd::AsFd, as_fd -> std::os::fd::BorrowedFd<'_>;
    #[cfg(unix)] std::os::fd::AsRawFd, as_raw_fd -> std::os::fd::RawFd;
    #[cfg(windows)] std::os::windows::io::AsSocket, as_socket -> std::os::windows::io::BorrowedSocket<'_>;
    #[cfg(windows)] std::os::windows::io::AsRawSocket, as_raw_socket -> std::os::windows::io::RawSocket;
}
