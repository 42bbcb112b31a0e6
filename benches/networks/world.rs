//! The test network: a client, the link, two routers, a server.
//!
//! ```text
//! client 10.9.1.1 --- link --- 10.9.1.254 router 10.9.2.1 --- 10.9.2.2 router 10.9.3.254 --- 10.9.3.1 server
//!       fd09:1::1              fd09:1::fe        fd09:2::1    fd09:2::2       fd09:3::fe     fd09:3::1
//!              MTU 1500                               MTU 1400                         MTU 1280
//! ```

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Command;

use crate::common::linux::set_option;
use crate::common::{TIME_LIMIT, skip};
use crate::link::Link;
use crate::net::{Host, warm_up};
use crate::tun::{self, Device};

/// The IP version of the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    /// The address of a host in one of the three networks.
    fn host(self, network: u8, host: u8) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(10, 9, network, host).into(),
            Self::V6 => Ipv6Addr::new(0xfd09, network.into(), 0, 0, 0, 0, 0, host.into()).into(),
        }
    }

    fn client(self) -> IpAddr {
        self.host(1, 1)
    }

    fn router(self) -> IpAddr {
        self.host(1, 254)
    }

    pub fn server(self) -> IpAddr {
        self.host(3, 1)
    }

    /// The wildcard address.
    pub fn any(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::V4 { "IPv4" } else { "IPv6" })
    }
}

/// The only limited type of ICMPv6 message, which nobody sends. (The mask cannot be empty.)
const UNUSED_TYPE: &str = "255";

pub struct World {
    pub family: Family,
    pub client: Host,
    routers: [Host; 2],
    pub server: Host,
    pub link: Link,
}

impl World {
    /// Prints why and returns `None` if the network cannot be made. All hosts have addresses of both families.
    pub fn new(test: &str, device: Device, family: Family) -> Option<Self> {
        let new = || Host::new(test, &[]);
        let (client, near, far, server) = (new()?, new()?, new()?, new()?);
        for host in [&client, &near, &far, &server] {
            // Addresses are usable at once, without duplicate address detection.
            for path in ["ipv6/conf/default/accept_dad", "ipv6/conf/all/accept_dad"] {
                host.set(path, "0");
            }
        }
        let devices = tun::open(&client, "tun0", device)
            .and_then(|c| Ok([c, tun::open(&near, "tun0", device)?]))
            .map_err(|error| skip(test, format_args!("no {device:?} TUN device: {error}")))
            .ok()?;
        for router in [&near, &far] {
            router.set("ipv4/ip_forward", "1");
            router.set("ipv6/conf/all/forwarding", "1");
            // Each rejected datagram gets an ICMP error, because no ICMP type is limited. (Done with masks: before
            // Linux 6.12, a namespace cannot set the kernel's global limit.)
            router.set("ipv4/icmp_ratemask", "0");
            router.set("ipv6/icmp/ratemask", UNUSED_TYPE);
        }
        near.cable("wan0", &far, "wan0");
        far.cable("lan0", &server, "lan0");
        client.ip(&[
            "addr add 10.9.1.1/24 dev tun0",
            "addr add fd09:1::1/64 dev tun0 nodad",
            "link set tun0 txqueuelen 10000",
            "link set tun0 up",
            "route add default via 10.9.1.254",
            "route add ::/0 via fd09:1::fe",
        ]);
        near.ip(&[
            "addr add 10.9.1.254/24 dev tun0",
            "addr add fd09:1::fe/64 dev tun0 nodad",
            "link set tun0 txqueuelen 10000",
            "link set tun0 up",
            "addr add 10.9.2.1/24 dev wan0",
            "addr add fd09:2::1/64 dev wan0 nodad",
            "link set wan0 mtu 1400",
            "link set wan0 up",
            "route add 10.9.3.0/24 via 10.9.2.2",
            "route add fd09:3::/64 via fd09:2::2",
        ]);
        far.ip(&[
            "addr add 10.9.2.2/24 dev wan0",
            "addr add fd09:2::2/64 dev wan0 nodad",
            "link set wan0 mtu 1400",
            "link set wan0 up",
            "addr add 10.9.3.254/24 dev lan0",
            "addr add fd09:3::fe/64 dev lan0 nodad",
            "link set lan0 mtu 1280",
            "link set lan0 up",
            "route add 10.9.1.0/24 via 10.9.2.1",
            "route add fd09:1::/64 via fd09:2::1",
        ]);
        server.ip(&[
            "addr add 10.9.3.1/24 dev lan0",
            "addr add fd09:3::1/64 dev lan0 nodad",
            "link set lan0 mtu 1280",
            "link set lan0 up",
            "route add default via 10.9.3.254",
            "route add ::/0 via fd09:3::fe",
        ]);
        let link = Link::start(devices, family.router()).expect("a thread");
        let at = |addr: IpAddr| SocketAddr::new(addr, 0).to_string();
        warm_up((&client, &at(family.client())), (&server, &at(family.server())));
        Some(Self { family, client, routers: [near, far], server, link })
    }

    /// A socket at the client's address, connected to `peer` if given.
    pub fn client_socket(&self, peer: Option<SocketAddr>) -> UdpSocket {
        let at = SocketAddr::new(self.family.client(), 0);
        let socket = self.client.within(|| UdpSocket::bind(at)).expect("its address");
        if let Some(peer) = peer {
            socket.connect(peer).expect("there is a route");
        }
        socket.set_write_timeout(Some(TIME_LIMIT)).expect("a timeout");
        large_buffers(&socket);
        socket
    }

    /// A socket at the server's address.
    pub fn server_socket(&self) -> UdpSocket {
        let at = SocketAddr::new(self.family.server(), 0);
        let socket = self.server.within(|| UdpSocket::bind(at)).expect("its address");
        large_buffers(&socket);
        socket
    }

    /// How many packets were too long for the routers.
    pub fn too_long_for_routers(&self) -> u64 {
        let count = match self.family {
            Family::V4 => fragment_failures_v4,
            Family::V6 => fragment_failures_v6,
        };
        self.routers.iter().map(count).sum()
    }

    /// Forgets the path MTUs that the client has learned.
    pub fn forget_path_mtu(&self) {
        // For IPv6 they belong to the route.
        self.client.ip(&["route flush cache", "route replace ::/0 via fd09:1::fe"]);
    }

    /// Takes down the client's device, with its addresses and routes.
    pub fn device_down(&self) {
        self.client.ip(&["link set tun0 down"]);
    }

    pub fn device_up(&self) {
        self.client.ip(&[
            "link set tun0 up",
            "addr replace fd09:1::1/64 dev tun0 nodad",
            "route add default via 10.9.1.254",
            "route replace ::/0 via fd09:1::fe",
        ]);
    }

    /// Gives the client other addresses.
    pub fn address_away(&self) {
        self.change_address(("10.9.1.1/24", "10.9.1.7/23"), ("fd09:1::1/64", "fd09:1::7/63"));
    }

    /// Restores the client's addresses.
    pub fn address_back(&self) {
        self.change_address(("10.9.1.7/23", "10.9.1.1/24"), ("fd09:1::7/63", "fd09:1::1/64"));
    }

    fn change_address(&self, (old, new): (&str, &str), (old_v6, new_v6): (&str, &str)) {
        self.client.ip(&[
            &format!("addr add {new} dev tun0"),
            &format!("addr del {old} dev tun0"),
            &format!("addr add {new_v6} dev tun0 nodad"),
            &format!("addr del {old_v6} dev tun0"),
            "route replace default via 10.9.1.254",
            "route replace ::/0 via fd09:1::fe",
        ]);
    }

    /// Makes the client's device send slowly from a queue with space for two GSO batches. A burst shorter than a
    /// batch would make the queue segment it and silently lose a part.
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

/// Space for a whole run in both directions: otherwise the send buffer would block before any queue is full.
fn large_buffers(socket: &UdpSocket) {
    for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
        set_option(socket, libc::SOL_SOCKET, name, 64 << 20).expect("root may");
    }
}

/// The counters as two lines, one with names and one with values.
fn fragment_failures_v4(host: &Host) -> u64 {
    let text = read(host, "snmp");
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let at = names.split(' ').position(|name| name == "FragFails").expect("every Linux has it");
    values.split(' ').nth(at).and_then(|value| value.parse().ok()).expect("a number")
}

/// The counters as one line each.
fn fragment_failures_v6(host: &Host) -> u64 {
    let text = read(host, "snmp6");
    let value = text.lines().find_map(|line| line.strip_prefix("Ip6FragFails"));
    value.expect("every Linux has it").trim().parse().expect("a number")
}

fn read(host: &Host, name: &str) -> String {
    let path = format!("/proc/thread-self/net/{name}");
    host.within(|| fs::read_to_string(path)).expect("procfs is there")
}
