//! The test network: a client, the link, two routers, a server.
//!
//! ```text
//! client 10.9.1.1 --- link --- 10.9.1.254 router 10.9.2.1 --- 10.9.2.2 router 10.9.3.254 --- 10.9.3.1 server
//!              MTU 1500                               MTU 1400                         MTU 1280
//! ```

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;

use socket2::{Domain, Socket, Type};

use crate::common::linux::set_option;
use crate::common::{NET, skip};
use crate::link::Link;
use crate::net::{Host, warm_up};
use crate::tun::{self, Device};

pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 9, 1, 1);
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 9, 1, 254);
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 3, 1);

pub struct World {
    pub client: Host,
    routers: [Host; 2],
    pub server: Host,
    pub link: Link,
}

impl World {
    /// `None`, and a printed reason, where it cannot be made.
    pub fn new(test: &str, device: Device) -> Option<Self> {
        let new = || Host::new(test, &[]);
        let (client, near, far, server) = (new()?, new()?, new()?, new()?);
        let devices = tun::open(&client, "tun0", device)
            .and_then(|c| Ok([c, tun::open(&near, "tun0", device)?]))
            .map_err(|error| skip(test, format_args!("no {device:?} TUN device: {error}")))
            .ok()?;
        for router in [&near, &far] {
            router.set("ipv4/ip_forward", "1");
            // Each datagram is answered for, not only some of them.
            router.set("ipv4/icmp_ratelimit", "0");
            router.set("ipv4/icmp_msgs_per_sec", "1000000");
            router.set("ipv4/icmp_msgs_burst", "1000000");
        }
        near.cable("wan0", &far, "wan0");
        far.cable("lan0", &server, "lan0");
        client.ip(&[
            "addr add 10.9.1.1/24 dev tun0",
            "link set tun0 txqueuelen 10000",
            "link set tun0 up",
        ]);
        client.ip(&["route add default via 10.9.1.254"]);
        near.ip(&[
            "addr add 10.9.1.254/24 dev tun0",
            "link set tun0 txqueuelen 10000",
            "link set tun0 up",
            "addr add 10.9.2.1/24 dev wan0",
            "link set wan0 mtu 1400",
            "link set wan0 up",
            "route add 10.9.3.0/24 via 10.9.2.2",
        ]);
        far.ip(&[
            "addr add 10.9.2.2/24 dev wan0",
            "link set wan0 mtu 1400",
            "link set wan0 up",
            "addr add 10.9.3.254/24 dev lan0",
            "link set lan0 mtu 1280",
            "link set lan0 up",
            "route add 10.9.1.0/24 via 10.9.2.1",
        ]);
        server.ip(&["addr add 10.9.3.1/24 dev lan0", "link set lan0 mtu 1280", "link set lan0 up"]);
        server.ip(&["route add default via 10.9.3.254"]);
        let link = Link::start(devices, ROUTER).expect("a thread");
        warm_up((&client, "10.9.1.1:0"), (&server, "10.9.3.1:0"));
        Some(Self { client, routers: [near, far], server, link })
    }

    /// A socket at the client's address, connected if there is a peer.
    pub fn client_socket(&self, peer: Option<SocketAddr>) -> UdpSocket {
        let socket = self.client.within(|| UdpSocket::bind((CLIENT, 0))).expect("its address");
        if let Some(peer) = peer {
            socket.connect(peer).expect("there is a route");
        }
        socket.set_write_timeout(Some(NET)).expect("a timeout");
        large_buffers(&socket);
        socket
    }

    /// A socket at the server's address.
    pub fn server_socket(&self) -> UdpSocket {
        let make = || Socket::new(Domain::IPV4, Type::DGRAM, None);
        let socket = self.server.within(make).expect("a socket");
        socket.bind(&SocketAddr::from((SERVER, 0)).into()).expect("its address");
        let socket = UdpSocket::from(socket);
        large_buffers(&socket);
        socket
    }

    /// How many packets the routers could not send on for their length.
    pub fn too_long_for_routers(&self) -> u64 {
        self.routers.iter().map(|router| snmp(router, "Ip:", "FragFails")).sum()
    }

    /// Forgets the path MTUs that the client has learned.
    pub fn forget_path_mtu(&self) {
        self.client.ip(&["route flush cache"]);
    }

    /// Has the client's device send slowly, from a queue that holds two GSO batches; the reason if that cannot be
    /// had. A shorter burst than a batch would make the queue segment it, and lose a part in silence.
    pub fn tiny_queue(&self) -> io::Result<()> {
        self.tc("qdisc add dev tun0 root tbf rate 20mbit burst 100000 limit 140000")
    }

    fn tc(&self, arguments: &str) -> io::Result<()> {
        let run = || Command::new("tc").args(arguments.split(' ')).output();
        let output = self.client.within(run)?;
        let message = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            Ok(())
        } else {
            Err(io::Error::other(message.trim().to_owned()))
        }
    }
}

/// Space for a whole run, both ways: the send buffer would make a sender wait before any queue is full.
fn large_buffers(socket: &UdpSocket) {
    for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
        set_option(socket, libc::SOL_SOCKET, name, 64 << 20).expect("root may");
    }
}

/// A counter of the host's: two lines, one of names and one of values.
fn snmp(host: &Host, protocol: &str, name: &str) -> u64 {
    let text = host.within(|| fs::read_to_string("/proc/thread-self/net/snmp"));
    let text = text.expect("procfs is there");
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let at = names.split(' ').position(|this| this == name).expect("a counter of every Linux");
    values.split(' ').nth(at).and_then(|value| value.parse().ok()).expect("a number")
}
