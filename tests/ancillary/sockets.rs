//! Every function that takes a socket, on every type of socket: none may take waiting data, hang or give a wrong
//! answer.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

use crate::common::linux::{has_timestamps, option};
use crate::kit::{TIME_LIMIT, addr, skip, udp4};
use mmsg::Ancillary;
use mmsg::error_queue::{Report, drain_errors};
use socket2::{Domain, Protocol, Socket, Type};

const ALL: [(Ancillary, &str); 10] = [
    (Ancillary::DEST, "DEST"),
    (Ancillary::TOS, "TOS"),
    (Ancillary::HOP_LIMIT, "HOP_LIMIT"),
    (Ancillary::TIMESTAMP, "TIMESTAMP"),
    (Ancillary::HARDWARE_TIMESTAMP, "HARDWARE_TIMESTAMP"),
    (Ancillary::GRO, "GRO"),
    (Ancillary::DROPPED, "DROPPED"),
    (Ancillary::ORIGINAL_DEST, "ORIGINAL_DEST"),
    (Ancillary::ERRORS, "ERRORS"),
    (Ancillary::SEND_TIMESTAMP, "SEND_TIMESTAMP"),
];

/// The socket options behind each of them, for IPv4, IPv6 and all sockets.
fn options(asked: Ancillary) -> Vec<(i32, i32)> {
    use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IPV6, SOL_SOCKET as SOCKET};
    match asked {
        Ancillary::DEST => vec![(IP, libc::IP_PKTINFO), (IPV6, libc::IPV6_RECVPKTINFO)],
        Ancillary::TOS => vec![(IP, libc::IP_RECVTOS), (IPV6, libc::IPV6_RECVTCLASS)],
        Ancillary::HOP_LIMIT => vec![(IP, libc::IP_RECVTTL), (IPV6, libc::IPV6_RECVHOPLIMIT)],
        Ancillary::TIMESTAMP => vec![(SOCKET, libc::SO_TIMESTAMPNS)],
        Ancillary::HARDWARE_TIMESTAMP | Ancillary::SEND_TIMESTAMP => {
            vec![(SOCKET, libc::SO_TIMESTAMPING)]
        }
        Ancillary::GRO => vec![(libc::IPPROTO_UDP, 104)],
        Ancillary::DROPPED => vec![(SOCKET, libc::SO_RXQ_OVFL)],
        Ancillary::ORIGINAL_DEST => {
            vec![(IP, libc::IP_RECVORIGDSTADDR), (IPV6, libc::IPV6_RECVORIGDSTADDR)]
        }
        Ancillary::ERRORS => vec![(IP, libc::IP_RECVERR), (IPV6, libc::IPV6_RECVERR)],
        other => panic!("{other:?} is not in the table"),
    }
}

/// A socket in which data waits, and how to receive it.
struct Waiting {
    name: &'static str,
    socket: OwnedFd,
    /// The peer, which keeps the connection open.
    _peer: Option<OwnedFd>,
    expected: Vec<u8>,
    has_error_queue: bool,
}

impl Waiting {
    /// Receives everything and checks that nothing is missing.
    #[track_caller]
    fn check(&self) {
        if self.expected.is_empty() {
            return;
        }
        let socket = socket2::SockRef::from(&self.socket);
        socket.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
        let mut bytes = [0; 8192];
        let n = (&*socket).read(&mut bytes).expect("it still waits");
        assert!(bytes[..n].ends_with(&self.expected), "{}: {:?}", self.name, &bytes[..n]);
    }
}

/// Waits until the socket is readable.
#[track_caller]
fn wait(socket: &impl AsFd) {
    let fd = socket.as_fd().as_raw_fd();
    let mut look = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let wait = i32::try_from(TIME_LIMIT.as_millis()).expect("a short time");
    // SAFETY: one `pollfd`, which outlives the call.
    assert_eq!(unsafe { libc::poll(&mut look, 1, wait) }, 1, "nothing came");
}

/// All types of sockets that this process may make.
fn sockets() -> Vec<Waiting> {
    let data = b"data that waits";
    let of = |name, socket: OwnedFd, peer: Option<OwnedFd>| Waiting {
        name,
        socket,
        _peer: peer,
        expected: data.to_vec(),
        has_error_queue: false,
    };
    let mut all = Vec::new();

    let (a, b) = UnixDatagram::pair().expect("a pair");
    a.send(data).expect("there is space");
    all.push(of("Unix datagram", b.into(), Some(a.into())));
    let (mut a, b) = UnixStream::pair().expect("a pair");
    io::Write::write_all(&mut a, data).expect("there is space");
    all.push(of("Unix stream", b.into(), Some(a.into())));
    let (a, b) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).expect("a pair");
    a.send(data).expect("there is space");
    all.push(of("Unix seqpacket", b.into(), Some(a.into())));

    let udp = udp4();
    udp.send_to(data, addr(&udp)).expect("it is taken");
    let udp = of("UDP", udp.into(), None);
    all.push(Waiting { has_error_queue: true, ..udp });

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("any port");
    let to = listener.local_addr().expect("it is bound");
    let mut near = TcpStream::connect(to).expect("it listens");
    let (far, _) = listener.accept().expect("it is connected");
    io::Write::write_all(&mut near, data).expect("there is space");
    wait(&far);
    all.push(of("TCP", far.into(), Some(near.into())));
    let listener = of("TCP listener", listener.into(), None);
    all.push(Waiting { expected: Vec::new(), ..listener });

    all.extend(privileged().into_iter().flatten().map(|(name, socket, expected)| {
        let has_error_queue = name.starts_with("raw");
        Waiting { expected, has_error_queue, ..of(name, socket.into(), None) }
    }));
    all
}

/// Sockets that need privileges, each with the bytes that wait in it.
fn privileged() -> Vec<Option<(&'static str, Socket, Vec<u8>)>> {
    let new = |name, domain: i32, ty: Type, protocol: i32| match Socket::new(
        Domain::from(domain),
        ty,
        Some(Protocol::from(protocol)),
    ) {
        Ok(socket) => Some(socket),
        Err(error) => {
            skip(format_args!("no {name}: {error}"));
            None
        }
    };
    // A raw socket receives what it sends to itself; the protocol number is for experiments (RFC 3692).
    let to_itself = |name, socket: Option<Socket>, ip: SocketAddr| {
        let socket = socket?;
        socket.bind(&ip.into()).expect("loopback");
        socket.send_to(b"raw data", &ip.into()).expect("it is taken");
        wait(&socket);
        Some((name, socket, b"raw data".to_vec()))
    };
    let v4 = new("raw IPv4", libc::AF_INET, Type::RAW, 253);
    let v6 = new("raw IPv6", libc::AF_INET6, Type::RAW, 253);
    let icmp6 = new("raw ICMPv6", libc::AF_INET6, Type::RAW, libc::IPPROTO_ICMPV6);

    let netlink = new("netlink", libc::AF_NETLINK, Type::RAW, libc::NETLINK_ROUTE);
    let netlink = netlink.map(|socket| {
        // The kernel answers a request that is too short for its type with an error that quotes it.
        let mut request = Vec::new();
        request.extend(16u32.to_ne_bytes());
        request.extend(libc::RTM_GETROUTE.to_ne_bytes());
        request.extend(((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
        request.extend(77u32.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        socket.send(&request).expect("the kernel takes it");
        wait(&socket);
        ("netlink", socket, Vec::new())
    });
    let every = i32::from((libc::ETH_P_ALL as u16).to_be());
    let packet = new("packet", libc::AF_PACKET, Type::RAW, every).map(|socket| {
        let udp = udp4();
        udp.send_to(b"seen by all", addr(&udp)).expect("it is taken");
        wait(&socket);
        ("packet", socket, Vec::new())
    });
    vec![
        to_itself("raw IPv4", v4, (Ipv4Addr::LOCALHOST, 0).into()),
        to_itself("raw IPv6", v6, (Ipv6Addr::LOCALHOST, 0).into()),
        icmp6.map(|socket| ("raw ICMPv6", socket, Vec::new())),
        netlink,
        packet,
    ]
}

/// Whether data waits. It stays until it is received.
fn waits(socket: &OwnedFd) -> bool {
    let mut look = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one `pollfd`, which outlives the call.
    unsafe { libc::poll(&mut look, 1, 0) == 1 }
}

#[test]
fn draining_errors_takes_no_data() {
    for waiting in sockets() {
        let (name, before) = (waiting.name, waits(&waiting.socket));
        let mut report_buf = [Report::EMPTY; 4];
        // Without space for reports, too.
        for len in [4, 0] {
            let drained = drain_errors(&waiting.socket, &mut report_buf[..len]);
            let drained = drained.map_err(|error| error.kind());
            let has_queue = waiting.has_error_queue;
            let expected = if has_queue { Ok(0) } else { Err(ErrorKind::Unsupported) };
            assert_eq!(drained, expected, "{name}");
        }
        assert_eq!(report_buf, [(); 4].map(|()| Report::default()), "{name}");
        // (ICMPv6 messages of other tests may come meanwhile.)
        assert!(waits(&waiting.socket) || !before, "{name}");
        waiting.check();
    }
}

#[test]
fn enable_turns_on_what_it_returns_and_nothing_else() {
    for (asked, option_name) in ALL {
        for waiting in sockets() {
            let socket = &waiting.socket;
            let what = format!("{option_name} on {}", waiting.name);
            let before = values(socket, asked);
            let taken = asked.enable(socket).expect(&what);
            assert!(taken == asked || taken == Ancillary::NONE, "{what}: {taken:?}");
            let after = values(socket, asked);
            // Send timestamps need an error queue.
            let is_there = asked == Ancillary::SEND_TIMESTAMP && has_timestamps();
            assert!(!is_there || (taken == asked) == waiting.has_error_queue, "{what}");
            if taken == Ancillary::NONE {
                assert_eq!(after, before, "{what}: said to be off");
                continue;
            }
            // A raw or IPv6-only socket has no options of the other family.
            assert!(after.iter().any(|value| *value > 0), "{what}: {after:?}");
            waiting.check();
        }
    }
}

/// The values of the socket options behind `asked`; -1 if the socket lacks one.
fn values(socket: &OwnedFd, asked: Ancillary) -> Vec<i32> {
    let value = |(level, name)| option(socket, level, name).map_or(-1, |value| value as i32);
    options(asked).into_iter().map(value).collect()
}
