//! What kind of socket it is, and what the system does for that kind.

use std::io;

use socket2::{Domain, SockRef, Type};

use super::call::BorrowedSocket;
use super::cmsg::option;
use crate::sys::{Families, numbers};

/// Which Internet families the socket carries. A Unix socket carries none.
#[cold]
pub(crate) fn families(socket: BorrowedSocket<'_>) -> io::Result<Families> {
    let handle = SockRef::from(&socket);
    let local = handle.local_addr()?;
    let v6 = local.is_ipv6();
    // A raw IPv6 socket receives IPv6 alone, whatever IPV6_V6ONLY says.
    let both = v6 && !is_raw(&handle)? && !handle.only_v6()?;
    Ok(Families { v4: local.is_ipv4() || both, v6 })
}

/// Whether the socket has an error queue that can be read. Sockets without one ignore the flag
/// that asks for it and receive data.
#[cold]
pub(crate) fn has_error_queue(socket: BorrowedSocket<'_>) -> io::Result<bool> {
    let handle = SockRef::from(&socket);
    if numbers::ERROR_V4.is_none() || !is_internet(&handle)? {
        return Ok(false);
    }
    Ok(is_raw(&handle)? || numbers::WITH_ERROR_QUEUE.contains(&option(socket, numbers::PROTOCOL)?))
}

/// Whether the socket sends its datagrams by their transmit times. The kernel accepts the option
/// on every socket.
#[cold]
pub(crate) fn has_transmit_times(socket: BorrowedSocket<'_>) -> io::Result<bool> {
    let handle = SockRef::from(&socket);
    if numbers::TXTIME.is_none() || handle.r#type()? == Type::STREAM {
        return Ok(false);
    }
    let domain = handle.local_addr()?.domain();
    let is_packet = numbers::PACKET_DOMAIN.is_some_and(|packet| domain == Domain::from(packet));
    Ok(is_packet || is_internet(&handle)?)
}

fn is_internet(socket: &SockRef<'_>) -> io::Result<bool> {
    let local = socket.local_addr()?;
    Ok(local.is_ipv4() || local.is_ipv6())
}

fn is_raw(socket: &SockRef<'_>) -> io::Result<bool> {
    Ok(socket.r#type()? == Type::from(libc::SOCK_RAW))
}
