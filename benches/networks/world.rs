//! The test network: a client, the link, two routers, a server.
//!
//! ```text
//! client 10.9.1.1 --- link --- 10.9.1.254 router 10.9.2.1 --- 10.9.2.2 router 10.9.3.254 --- 10.9.3.1 server
//!       fd09:1::1              fd09:1::fe        fd09:2::1    fd09:2::2       fd09:3::fe     fd09:3::1
//!              MTU 1500                               MTU 1400                         MTU 1280
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::common::linux::set_option;
use crate::common::{TIME_LIMIT, skip};
use crate::link::Link;
use crate::net::warm_up;
use crate::tun::{self, Device};
use crate::veth::Host;

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
}

/// The only limited type of ICMPv6 message, which nobody sends. (The mask cannot be empty.)
const UNUSED_TYPE: &str = "255";

pub struct World {
    pub family: Family,
    pub client: Host,
    _routers: [Host; 2],
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
        Some(Self { family, client, _routers: [near, far], server, link })
    }

    /// A socket at the client's address, connected to `peer`.
    pub fn client_socket(&self, peer: SocketAddr) -> UdpSocket {
        let at = SocketAddr::new(self.family.client(), 0);
        let socket = self.client.enter(|| UdpSocket::bind(at)).expect("its address");
        socket.connect(peer).expect("there is a route");
        socket.set_write_timeout(Some(TIME_LIMIT)).expect("a timeout");
        // Space for a whole round in both directions.
        for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            set_option(&socket, libc::SOL_SOCKET, name, 64 << 20).expect("root may");
        }
        socket
    }
}
