//! Traffic through a tunnel between two nodes.

use std::net::{IpAddr, SocketAddr};
use std::thread;

use socket2::SockRef;

use crate::kit::{
    Config, FAR_INSIDE, NEAR_INSIDE, Node, assert_nothing_lost, bytes, exchange, inside, number,
    with_nodes,
};
use crate::running::receive;
use crate::veth::{DEVICE, FAR, FAR_DEVICE, Far, ip};

/// A node at each end. Only the near one's configuration has an endpoint; the far one learns it.
#[track_caller]
fn nodes(test: &str, far: &Far, outside: IpAddr, args: [&[&str]; 2]) -> (Node, Node) {
    let config = Config::new(2, &["10.78.0.2/24", "fd78::2/64"], 0);
    let config = config.peer(1, &["10.78.0.1", "fd78::1"], None).write(test, "far");
    let there = far.enter(|| Node::start(&config, args[1]));
    let endpoint = SocketAddr::new(outside, there.port);
    let config = Config::new(1, &["10.78.0.1/24", "fd78::1/64"], 0);
    let config = config.peer(2, &["10.78.0.0/24", "fd78::/64"], Some(endpoint));
    (Node::start(&config.write(test, "near"), args[0]), there)
}

fn files_pass_both_ways(test: &str, args: [&[&str]; 2]) {
    with_nodes(|far| {
        let (near, there) = nodes(test, &far, FAR.into(), args);
        for address in FAR_INSIDE {
            exchange(&far, address, 1 << 20);
        }
        for counters in [near.stop(), there.stop()] {
            assert_nothing_lost(&counters);
            assert!(number(&counters, "tun written: packets") > 1300, "{counters}");
            assert!(number(&counters, "received") > 2 << 20, "{counters}");
        }
    });
}

#[test]
fn files_pass_both_ways_by_mmsg() {
    files_pass_both_ways("files_pass_both_ways_by_mmsg", [&[], &[]]);
}

#[test]
fn files_pass_both_ways_between_a_plain_device_and_gotatuns_own_sockets() {
    let test = "files_pass_both_ways_between_a_plain_device_and_gotatuns_own_sockets";
    files_pass_both_ways(test, [&["--tun", "plain"], &["--udp", "stock"]]);
}

#[test]
fn files_pass_between_ipv6_endpoints() {
    let test = "files_pass_between_ipv6_endpoints";
    with_nodes(|far| {
        ip(&format!("addr add fd77::1/64 dev {DEVICE} nodad")).expect("an address");
        far.enter(|| ip(&format!("addr add fd77::2/64 dev {FAR_DEVICE} nodad")))
            .expect("an address");
        let (near, there) = nodes(test, &far, "fd77::2".parse().unwrap(), [&[], &[]]);
        exchange(&far, FAR_INSIDE[0], 1 << 20);
        assert_nothing_lost(&near.stop());
        assert_nothing_lost(&there.stop());
    });
}

/// Sends datagrams of these lengths in both directions, one at a time.
#[track_caller]
fn datagrams_pass(far: &Far, lens: impl Iterator<Item = usize>) {
    let (here, there) = (inside(NEAR_INSIDE[0]), far.enter(|| inside(FAR_INSIDE[0])));
    let (near_addr, far_addr) = (here.local_addr().unwrap(), there.local_addr().unwrap());
    let mut buffer = vec![0; 65_535];
    for len in lens {
        for (from, to, addr) in [(&here, &there, far_addr), (&there, &here, near_addr)] {
            let data = bytes(len as u32, len);
            from.send_to(&data, addr).expect("the TUN device takes it");
            let received = receive(to, &mut buffer).expect("it comes");
            assert_eq!(buffer[..received], data, "{len} bytes");
        }
    }
}

#[test]
fn a_packet_of_each_size_passes() {
    let test = "a_packet_of_each_size_passes";
    with_nodes(|far| {
        let (near, there) = nodes(test, &far, FAR.into(), [&[], &[]]);
        // 28 bytes are the headers of IPv4 and UDP. Beyond the MTU the kernel makes fragments.
        datagrams_pass(&far, (0..=1420 - 28).chain([1420 - 27, 4000, 20_000]));
        assert_nothing_lost(&near.stop());
        assert_nothing_lost(&there.stop());
    });
}

/// Peers of one node, each a node of its own at the far end.
const PEERS: u8 = 64;

#[test]
fn many_peers_share_a_node() {
    let test = "many_peers_share_a_node";
    with_nodes(|far| {
        let address = |peer: u8| format!("10.78.1.{peer}");
        let mut config = Config::new(100, &["10.78.0.1/16"], 0);
        let peers: Vec<_> = (0..PEERS)
            .map(|peer| {
                let theirs = Config::new(peer + 1, &[&format!("{}/16", address(peer))], 0);
                let theirs = theirs.peer(100, &["10.78.0.1"], None);
                let path = theirs.write(test, &format!("peer{peer}"));
                far.enter(|| Node::start(&path, &[]))
            })
            .collect();
        for (peer, node) in (0..).zip(&peers) {
            config = config.peer(peer + 1, &[&address(peer)], Some((FAR, node.port).into()));
        }
        let node = Node::start(&config.write(test, "near"), &[]);
        let here = inside(NEAR_INSIDE[0]);
        let there: Vec<_> = (0..PEERS)
            .map(|peer| {
                let socket = far.enter(|| inside(&address(peer)));
                // Every far device has a route to the near address, so the socket must name its own.
                let device = format!("peer{peer}");
                SockRef::from(&socket).bind_device(Some(device.as_bytes())).expect("its device");
                socket
            })
            .collect();
        // Three in a row to each peer, the last shorter, as in a GSO batch.
        let datagram = |peer: u8, number: usize| bytes(peer.into(), 1000 - 100 * (number / 2));
        for _ in 0..5 {
            for (peer, socket) in (0..).zip(&there) {
                for number in 0..3 {
                    let to = socket.local_addr().expect("it is bound");
                    here.send_to(&datagram(peer, number), to).expect("the TUN device takes it");
                }
            }
            for (peer, socket) in (0..).zip(&there) {
                for number in 0..3 {
                    let mut buffer = [0; 2048];
                    let len = receive(socket, &mut buffer).expect("it comes");
                    assert_eq!(buffer[..len], datagram(peer, number), "peer {peer}");
                }
                let to = here.local_addr().expect("it is bound");
                socket.send_to(&[peer; 10], to).expect("the TUN device takes it");
            }
            let mut answers: Vec<_> = (0..PEERS)
                .map(|_| {
                    let mut buffer = [0; 16];
                    assert_eq!(receive(&here, &mut buffer).expect("it comes"), 10);
                    buffer[0]
                })
                .collect();
            answers.sort_unstable();
            assert!(answers.into_iter().eq(0..PEERS));
        }
        assert_nothing_lost(&node.stop());
        peers.into_iter().for_each(|peer| assert_nothing_lost(&peer.stop()));
    });
}

#[test]
fn nodes_end_while_packets_pass() {
    let test = "nodes_end_while_packets_pass";
    with_nodes(|far| {
        let (near, there) = nodes(test, &far, FAR.into(), [&[], &[]]);
        datagrams_pass(&far, [1].into_iter());
        let (here, sink) = (inside(NEAR_INSIDE[0]), far.enter(|| inside(FAR_INSIDE[0])));
        let to = sink.local_addr().unwrap();
        thread::scope(|scope| {
            // Until the device is gone.
            scope.spawn(|| while here.send_to(&[0; 1000], to).is_ok() {});
            receive(&sink, &mut [0; 2048]).expect("packets pass");
            let counters = near.stop();
            assert!(number(&counters, "tun read: packets") > 1, "{counters}");
        });
        there.stop();
    });
}
