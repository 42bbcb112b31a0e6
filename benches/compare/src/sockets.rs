//! Socket options beyond std.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr;

use libc::{c_int, socklen_t};

/// Gives a socket space for `bytes` of waiting datagrams, or as much as may be had, and returns how
/// much that is.
pub fn grow_receive_buffer(socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
    let socket2 = socket2::SockRef::from(socket);
    socket2.set_recv_buffer_size(bytes)?;
    if socket2.recv_buffer_size()? < bytes {
        // Beyond the system's limit, which root may do; everybody else goes without.
        let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes as c_int);
    }
    socket2.recv_buffer_size()
}

/// Has a socket's datagrams carry the don't-fragment bit, whatever the path's MTU: what QUIC wants. It
/// spares the kernel the choice of an identification for each datagram.
pub fn never_fragment(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
}

fn set(socket: &UdpSocket, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    let (value, len) = (ptr::from_ref(&value).cast(), size_of::<c_int>() as socklen_t);
    // SAFETY: the option's value is one C int.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
