//! Shared by the tests of ancillary data: sockets, all ways to receive, waiting for reports, network namespaces.

// Each test binary uses only a part.
#![allow(dead_code, unused_imports)]

#[cfg(target_os = "linux")]
pub mod net;
pub mod receive;

#[cfg(target_os = "linux")]
pub use crate::common::linux::{has_timestamps, option, set_option};
pub use crate::common::sockets::addr;
pub use crate::common::{TIME_LIMIT, skip};

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use mmsg::Ancillary;
use mmsg::error_queue::{Event, Report, drain_errors};
use socket2::{Domain, Socket, Type};

/// A blocking socket with a time limit on receives.
#[track_caller]
pub fn bind(addr: impl Into<SocketAddr>) -> UdpSocket {
    netted(UdpSocket::bind(addr.into()).expect("an address of this host"))
}

/// On the IPv4 loopback address.
pub fn udp4() -> UdpSocket {
    bind((Ipv4Addr::LOCALHOST, 0))
}

/// On the IPv6 loopback address.
pub fn udp6() -> UdpSocket {
    bind((Ipv6Addr::LOCALHOST, 0))
}

/// On all addresses: IPv6 only, or both families.
pub fn any6(only_v6: bool) -> UdpSocket {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, None).expect("an IPv6 socket");
    socket.set_only_v6(only_v6).expect("an option of every Linux");
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)).into()).expect("any port");
    netted(socket.into())
}

/// On all addresses of both families.
pub fn dual_stack() -> UdpSocket {
    any6(false)
}

/// gVisor has none. Elsewhere the tests ask for what the system has.
#[cfg(not(target_os = "linux"))]
pub fn has_timestamps() -> bool {
    true
}

/// Whether a dual-stack socket reports the metadata of IPv4 datagrams. NetBSD's report none; OpenBSD and DragonFly have no
/// such sockets.
pub const HAS_DUAL_STACK: bool =
    cfg!(any(target_os = "linux", target_os = "freebsd", target_vendor = "apple"));

/// The name of the loopback device.
pub const LOOPBACK: &str = if cfg!(target_os = "linux") { "lo" } else { "lo0" };

/// A socket that rejects datagrams with ECONNREFUSED, because it is connected to itself.
pub fn refusing(ip: impl Into<IpAddr>) -> UdpSocket {
    let socket = bind((ip.into(), 0));
    socket.connect(addr(&socket)).expect("connecting only stores the peer");
    socket
}

fn netted(socket: UdpSocket) -> UdpSocket {
    socket.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    socket.set_write_timeout(Some(TIME_LIMIT)).expect("a timeout");
    socket
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The index of a network device of this thread's namespace.
pub fn index(device: &str) -> u32 {
    let name = CString::new(device).expect("no zero in it");
    // SAFETY: a C string, which outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert_ne!(index, 0, "{device}");
    index
}

/// Another address of this host, with the port of `socket`.
pub fn at(ip: &str, socket: &UdpSocket) -> SocketAddr {
    SocketAddr::new(self::ip(ip), addr(socket).port())
}

/// Enables all of these; fails the test if the platform lacks one.
#[track_caller]
pub fn enable_all(socket: &UdpSocket, wanted: Ancillary) {
    assert_eq!(wanted.enable(socket).expect("it is a socket"), wanted);
}

/// Whether `poll` reports an error on the socket within `wait`.
pub fn in_error(socket: &UdpSocket, wait: Duration) -> bool {
    let mut look = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
    let wait = i32::try_from(wait.as_millis()).expect("a short time");
    // SAFETY: one `pollfd`, which outlives the call.
    let found = unsafe { libc::poll(&mut look, 1, wait) };
    assert!(found >= 0, "{}", io::Error::last_os_error());
    look.revents & libc::POLLERR != 0
}

/// Waits for `count` reports and returns them.
#[track_caller]
pub fn reports(socket: &UdpSocket, count: usize) -> Vec<Report> {
    let mut taken = Vec::new();
    while taken.len() < count {
        assert!(in_error(socket, TIME_LIMIT), "{} of {count} came: {taken:?}", taken.len());
        let mut reports = [Report::EMPTY; 4];
        let n = drain_errors(socket, &mut reports).expect("it is a socket");
        taken.extend_from_slice(&reports[..n]);
    }
    taken
}

/// A report's event, destination and offender.
pub fn summary(report: &Report) -> (Event, Option<SocketAddr>, Option<IpAddr>) {
    (report.event, report.dest, report.offender.map(|addr| addr.ip()))
}
