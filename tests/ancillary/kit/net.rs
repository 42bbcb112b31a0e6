//! A router between two hosts, in network namespaces.

use std::time::{Duration, Instant};

use crate::common::TIME_LIMIT;
pub use crate::veth::Host;

/// A client, a router and a server. The MTU between router and server is 1,280 bytes.
///
/// ```text
/// client c 10.9.1.1 --- 10.9.1.254 r0 router r1 10.9.2.254 --- 10.9.2.1, 10.9.2.2 s server
///       fd09:1::1 --- fd09:1::fe               fd09:2::fe --- fd09:2::1, fd09:2::2
/// ```
pub struct Route {
    pub client: Host,
    pub router: Host,
    pub server: Host,
}

impl Route {
    /// Prints why and returns `None` if the network cannot be made.
    pub fn new() -> Option<Self> {
        let new = || Host::new(&[]);
        let (client, router, server) = (new()?, new()?, new()?);
        for host in [&client, &router, &server] {
            // Addresses are usable at once, without duplicate address detection.
            for path in ["ipv6/conf/default/accept_dad", "ipv6/conf/all/accept_dad"] {
                host.set(path, "0");
            }
            // Each rejected datagram gets an ICMP error. (For IPv4 through the mask of limited types: up to Linux
            // 6.12, a rate limit of 0 empties the bucket that `ip_error` uses too.)
            for path in ["ipv4/icmp_ratemask", "ipv6/icmp/ratelimit"] {
                host.set(path, "0");
            }
        }
        for path in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            router.set(path, "1");
        }
        client.cable("c", &router, "r0");
        router.cable("r1", &server, "s");
        for (host, device) in [(&client, "c"), (&router, "r0"), (&router, "r1"), (&server, "s")] {
            // The kernel soon repeats a neighbour request that was sent before the device was up.
            for family in ["ipv4", "ipv6"] {
                host.set(&format!("{family}/neigh/{device}/retrans_time_ms"), "20");
            }
        }
        client.ip(&[
            "addr add 10.9.1.1/24 dev c",
            "addr add fd09:1::1/64 dev c nodad",
            "link set c up",
        ]);
        router.ip(&[
            "addr add 10.9.1.254/24 dev r0",
            "addr add fd09:1::fe/64 dev r0 nodad",
            "addr add 10.9.2.254/24 dev r1",
            "addr add fd09:2::fe/64 dev r1 nodad",
            "link set r0 up",
            "link set r1 mtu 1280",
            "link set r1 up",
        ]);
        server.ip(&[
            "addr add 10.9.2.1/24 dev s",
            "addr add 10.9.2.2/24 dev s",
            "addr add fd09:2::1/64 dev s nodad",
            "addr add fd09:2::2/64 dev s nodad",
            "link set s up",
            "route add default via 10.9.2.254",
            "route add ::/0 via fd09:2::fe",
        ]);
        client.ip(&["route add default via 10.9.1.254", "route add ::/0 via fd09:1::fe"]);
        warm_up((&client, "10.9.1.1:0"), (&server, "10.9.2.1:0"));
        warm_up((&client, "[fd09:1::1]:0"), (&server, "[fd09:2::1]:0"));
        Some(Self { client, router, server })
    }
}

/// Sends until a datagram arrives. Then devices are up and neighbours are known.
pub fn warm_up((from, from_addr): (&Host, &str), (to, to_addr): (&Host, &str)) {
    let (from, to) = (from.bind(from_addr), to.bind(to_addr));
    to.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let (dest, begin) = (super::addr(&to), Instant::now());
    loop {
        from.send_to(b"anybody there?", dest).expect("there is a route");
        match to.recv(&mut [0; 16]) {
            Ok(_) => return,
            Err(error) => assert!(begin.elapsed() < TIME_LIMIT, "nothing gets through: {error}"),
        }
    }
}
