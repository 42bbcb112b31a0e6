//! Which calls return ICMP errors while the error queue is on, on loopback, and the errors that the guide lists.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::common::recv::RECEIVES;
use crate::common::sockets::settle_answers;
use crate::common::{code, skip, would_block};
use crate::kit::receive::payloads;
use crate::kit::{
    TIME_LIMIT, addr, any6, at, dual_stack, enable_all, in_error, refusing, reports, summary, udp4,
    udp6,
};
use mmsg::error_queue::{Event, Report, drain_errors};
use mmsg::{Ancillary, BatchSocket, RecvBatch, SendMeta, SendMsg};

/// A sender with `ERRORS` on, an open and a closed destination. There is one for IPv4, one for IPv6, and a dual-stack
/// sender with IPv4 destinations.
pub struct Setting {
    pub from: UdpSocket,
    pub open: UdpSocket,
    pub to_open: SocketAddr,
    /// Kept, so that no other socket gets the port.
    _closed: UdpSocket,
    pub to_closed: SocketAddr,
}

pub fn settings() -> Vec<Setting> {
    let setting = |from: UdpSocket, open: UdpSocket, mapped: bool| {
        enable_all(&from, Ancillary::ERRORS);
        let closed = refusing(addr(&open).ip());
        let seen = |socket: &UdpSocket| match mapped {
            true => at(&format!("::ffff:{}", addr(socket).ip()), socket),
            false => addr(socket),
        };
        let (to_open, to_closed) = (seen(&open), seen(&closed));
        Setting { from, open, to_open, _closed: closed, to_closed }
    };
    vec![
        setting(udp4(), udp4(), false),
        setting(udp6(), udp6(), false),
        setting(dual_stack(), udp4(), true),
        setting(dual_stack(), udp6(), false),
    ]
}

impl Setting {
    pub fn good(&self) -> SendMsg<'static> {
        SendMsg::to(self.to_open, b"good")
    }

    pub fn bad(&self) -> SendMsg<'static> {
        SendMsg::to(self.to_closed, b"bad")
    }

    /// Sends a datagram to the closed port and waits for a new report: an earlier one makes the socket ready too.
    pub fn provoke_error(&self) {
        assert_eq!(self.from.send_batch(&[self.bad()]).expect("it is taken"), 1);
        settle_answers();
        assert!(in_error(&self.from, TIME_LIMIT));
    }

    /// Takes `count` reports and checks that each names the closed destination.
    #[track_caller]
    pub fn check_reports(&self, count: usize) {
        let expected = (Event::Refused, Some(self.to_closed), Some(self.to_closed.ip()));
        for report in reports(&self.from, count) {
            assert_eq!((summary(&report), report.errno), (expected, libc::ECONNREFUSED));
        }
        assert!(!in_error(&self.from, Duration::ZERO), "there are more than {count}");
    }
}

#[test]
fn a_receive_goes_on_past_the_error_of_another_datagram() {
    for setting in settings() {
        let Setting { from, open, .. } = &setting;
        let to_from = at(&loopback_of(open), from);
        for receive in RECEIVES {
            from.set_nonblocking(true).expect("an open socket");
            setting.provoke_error();
            let nothing = receive(from).expect_err("nothing is there");
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);

            // The report stays in the queue; receives ignore it.
            setting.provoke_error();
            open.send_to(b"data", to_from).expect("it is taken");
            assert_eq!(receive(from).expect("it is there"), [b"data"]);
            setting.check_reports(2);

            from.set_nonblocking(false).expect("an open socket");
            setting.provoke_error();
            open.send_to(b"data", to_from).expect("it is taken");
            assert_eq!(receive(from).expect("it is there"), [b"data"]);
            setting.check_reports(1);
        }
        // A call that does not wait, on a blocking socket.
        for slots in [1, 4] {
            setting.provoke_error();
            assert!(would_block(from.recv_more(&mut RecvBatch::new(slots, 16))));
            setting.check_reports(1);
        }
    }
}

#[test]
fn a_call_returns_a_connected_peers_error_once() {
    for setting in settings() {
        let Setting { from, to_closed, .. } = &setting;
        from.connect(to_closed).expect("connecting only stores the peer");
        for receive in RECEIVES {
            from.send(b"bad").expect("no answer yet");
            assert!(in_error(from, TIME_LIMIT));
            let error = receive(from).expect_err("the peer is gone");
            assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
            setting.check_reports(1);
            // A send returns it too.
            from.send(b"bad").expect("no answer yet");
            assert!(in_error(from, TIME_LIMIT));
            let error = from.send_batch(&[SendMsg::new(b"bad")]).expect_err("the peer is gone");
            assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
            setting.check_reports(1);
            from.set_nonblocking(true).expect("an open socket");
            let nothing = receive(from).expect_err("returned once");
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
            from.set_nonblocking(false).expect("an open socket");
        }
    }
}

/// An ICMP error with this code of "destination unreachable" about a UDP datagram from `from` to `to` (RFC 792).
fn unreachable(code: u8, from: SocketAddrV4, to: SocketAddrV4) -> Vec<u8> {
    let udp = [from.port(), to.port(), 8, 0].map(u16::to_be_bytes).concat();
    let ip =
        [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0][..], &from.ip().octets(), &to.ip().octets()];
    let mut icmp = [&[3, code, 0, 0, 0, 0, 0, 0][..], &ip.concat(), &udp].concat();
    let words = icmp.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum = words.sum::<u32>();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
    icmp
}

/// A thread that reads the reports puts the next one's error on the socket. Errors that a message may have by itself are
/// told apart from those of others.
#[test]
fn a_flood_of_icmp_errors_beside_a_reader_fails_no_message() {
    const ALL: usize = 200;
    let raw = match Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)) {
        Ok(raw) => raw,
        Err(error) => return skip(format_args!("no raw socket: {error}")),
    };
    let (from, open) = (udp4(), udp4());
    let v4 = |socket| match addr(socket) {
        SocketAddr::V4(addr) => addr,
        SocketAddr::V6(_) => unreachable!("they are IPv4 sockets"),
    };
    enable_all(&from, Ancillary::ERRORS);
    let good = SendMsg::to(addr(&open), b"good");
    for (code, errno) in [(0, libc::ENETUNREACH), (1, libc::EHOSTUNREACH), (3, libc::ECONNREFUSED)]
    {
        let icmp = unreachable(code, v4(&from), SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9));
        let flood = || {
            for _ in 0..4 {
                raw.send_to(&icmp, &addr(&from).into()).expect("loopback takes it");
            }
        };
        flood();
        settle_answers();
        assert_eq!(reports(&from, 1)[0].errno, errno);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    in_error(&from, Duration::from_millis(10));
                    drain_errors(&from, &mut [Report::EMPTY; 1]).expect("it is a socket");
                }
            });
            let send = |_| {
                // Each message meets the errors of one flood: a send is tried 17 times at most.
                while in_error(&from, Duration::ZERO) {
                    thread::yield_now();
                }
                flood();
                from.send_batch(&[good]).err()
            };
            let failed: Vec<_> = (0..ALL).filter_map(send).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(failed.is_empty(), "{errno}: {} of {ALL}, {:?}", failed.len(), failed[0]);
        });
        assert_eq!(payloads(&open, ALL), vec![b"good"; ALL]);
        // Nothing of this code is left for the next.
        while in_error(&from, Duration::ZERO) {
            drain_errors(&from, &mut [Report::EMPTY; 64]).expect("it is a socket");
        }
    }
}

fn loopback_of(socket: &UdpSocket) -> String {
    addr(socket).ip().to_string()
}

#[test]
fn reports_are_off_unless_asked_for() {
    let (from, open, closed) = (udp4(), udp4(), refusing([127, 0, 0, 1]));
    for _ in 0..3 {
        let msgs = [SendMsg::to(addr(&closed), b"bad"), SendMsg::to(addr(&open), b"good")];
        assert_eq!(from.send_batch(&msgs).expect("they are taken"), 2);
    }
    assert_eq!(payloads(&open, 3), [b"good"; 3]);
    assert_eq!(drain_errors(&from, &mut [Report::EMPTY; 4]).expect("it is a socket"), 0);
}

fn to(dest: impl Into<SocketAddr>) -> SendMsg<'static> {
    SendMsg::to(dest.into(), b"data")
}

#[test]
fn errors_are_those_that_the_guide_lists() {
    let (v4, v6, only_v6) = (udp4(), udp6(), any6(true));
    let (dest4, dest6) = (addr(&v4), addr(&v6));
    let meta = SendMeta::new();
    let source = |ip: &str| meta.with_source(ip.parse().expect("an address"));
    let foreign = [source("192.0.2.77"), source("2001:db8::77")];
    let no_device = meta.with_interface(1_000_000);
    let mapped = ([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1], 9);
    for (what, from, msg, expected) in [
        ("no destination", &v4, SendMsg::new(b"data"), libc::EDESTADDRREQ),
        ("no destination", &v6, SendMsg::new(b"data"), libc::EDESTADDRREQ),
        ("IPv6 from an IPv4 socket", &v4, to(dest6), libc::EAFNOSUPPORT),
        ("IPv4 from an IPv6-only socket", &only_v6, to(dest4), libc::ENETUNREACH),
        ("IPv4-mapped from an IPv6-only socket", &only_v6, to(mapped), libc::ENETUNREACH),
        ("IPv4 from a socket bound to ::1", &v6, to(dest4), libc::ENETUNREACH),
        ("port 0", &v4, to(([127, 0, 0, 1], 0)), libc::EINVAL),
        ("port 0", &v6, to((Ipv6Addr::LOCALHOST, 0)), libc::EINVAL),
        ("no such interface", &v4, to(dest4).with_meta(&no_device), libc::ENODEV),
        ("no such interface", &v6, to(dest6).with_meta(&no_device), libc::ENODEV),
        ("foreign source", &v4, to(dest4).with_meta(&foreign[0]), libc::ENETUNREACH),
        ("foreign source", &v6, to(dest6).with_meta(&foreign[1]), libc::EINVAL),
    ] {
        assert_eq!(code(from.send_batch(&[msg])), expected, "{what}");
    }
}
