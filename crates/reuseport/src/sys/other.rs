//! Systems without Linux's programs. FreeBSD spreads by flow; the others give all datagrams to one socket.

use std::io;
use std::num::NonZeroU32;

use socket2::{Socket, Type};

use super::Instruction;

pub(crate) const SPREADS: bool = cfg!(target_os = "freebsd");
pub(crate) const SHARES_WHEN_BOUND: bool = false;
/// `Unsupported` has no number.
pub(crate) const NO_PROGRAMS: Option<i32> = None;

#[cfg(target_os = "freebsd")]
pub(crate) fn share(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_port_lb(true)
}

#[cfg(target_os = "freebsd")]
pub(crate) fn is_shared(socket: &Socket) -> io::Result<bool> {
    socket.reuse_port_lb()
}

#[cfg(not(target_os = "freebsd"))]
pub(crate) fn is_shared(_: &Socket) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "freebsd"))]
pub(crate) fn share(_: &Socket) -> io::Result<()> {
    let reason = "this system does not spread datagrams over the sockets on an address";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

pub(crate) fn is_udp(socket: &Socket) -> io::Result<bool> {
    Ok(socket.r#type()? == Type::DGRAM)
}

pub(crate) fn scope(socket: &Socket) -> (Option<bool>, Option<NonZeroU32>) {
    (socket.only_v6().ok(), None)
}

pub(crate) fn cookie(_: &Socket) -> Option<u64> {
    None
}

pub(crate) fn attach_cbpf(_: &Socket, _: &[Instruction]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn detach(_: &Socket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn wait_for_deliveries() {}

pub(crate) fn set_affinity(_: impl Fn(usize) -> bool) {}
