//! Peers without a route, and floods.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::kit::{
    Config, FAR_INSIDE, NEAR_INSIDE, Node, assert_nothing_lost, inside, number, with_nodes,
};
use crate::running::{Program, receive};
use crate::veth::{DEVICE, FAR, FAR_ROUTED, NEAR, ip};

/// Another address of the near end.
const NEAR_OTHER: &str = "10.77.2.1";

#[test]
fn a_peer_without_a_route_costs_the_others_nothing() {
    let test = "a_peer_without_a_route_costs_the_others_nothing";
    with_nodes(|far| {
        // The bad peer has addresses of its own at both ends, so that it alone loses its route.
        ip(&format!("addr add {NEAR_OTHER}/32 dev {DEVICE}")).expect("an address");
        ip(&format!("route add {FAR_ROUTED} via {FAR} src {NEAR_OTHER}")).expect("a route");
        far.enter(|| ip(&format!("route add {NEAR_OTHER} via {NEAR} src {FAR_ROUTED}")))
            .expect("a route");
        let start = |node: u8, address: &str, device: &str| {
            let config = Config::new(node, &[address], 0).peer(1, &["10.78.0.1"], None);
            far.enter(|| Node::start(&config.write(test, device), &[]))
        };
        let (good, bad) = (start(2, "10.78.0.2/24", "good"), start(3, "10.78.0.3/32", "bad"));
        let config = Config::new(1, &["10.78.0.1/24"], 0)
            .peer(2, &["10.78.0.2"], Some((FAR, good.port).into()))
            .peer(3, &["10.78.0.3"], Some((FAR_ROUTED, bad.port).into()));
        let near = Node::start(&config.write(test, "near"), &[]);
        let from = inside(NEAR_INSIDE[0]);
        let to = far.enter(|| [inside("10.78.0.2"), inside("10.78.0.3")]);
        let dests = to.each_ref().map(|socket| socket.local_addr().unwrap());
        for (socket, dest) in to.iter().zip(dests) {
            from.send_to(b"hello", dest).expect("sent");
            assert_eq!(receive(socket, &mut [0; 8]).expect("there is a session"), 5);
        }
        ip(&format!("route replace unreachable {FAR_ROUTED}")).expect("a route");
        // While the node is stopped, packets to both peers wait in its device, so that it reads them in a row and sends
        // them together.
        for round in 0..20u32 {
            stop_and_go(&near.program, || {
                // The last packet is to the good peer: when it arrives, the others were sent or have failed.
                for number in 1..41 {
                    let dest = dests[number % 2];
                    from.send_to(&round.to_be_bytes().repeat(100), dest).expect("sent");
                }
            });
            for _ in 0..20 {
                let mut data = [0; 512];
                assert_eq!(receive(&to[0], &mut data).expect("it comes"), 400);
                assert_eq!(data[..4], round.to_be_bytes());
            }
        }
        let counters = near.stop();
        assert!(number(&counters, "failed") >= 400, "{counters}");
        assert_nothing_lost(&good.stop());
        assert_nothing_lost(&bad.stop());
    });
}

/// Floods of datagrams without a key, each as long as can be, while a tunnel of long packets is open.
#[test]
fn a_flood_of_long_datagrams_takes_little_memory() {
    let test = "a_flood_of_long_datagrams_takes_little_memory";
    with_nodes(|far| {
        let config =
            |node| Config::new(node, &[&format!("10.78.0.{node}/24")], 0).line("MTU = 9000");
        let there = config(2).peer(1, &["10.78.0.1"], None).write(test, "far");
        let there = far.enter(|| Node::start(&there, &[]));
        let endpoint = Some((FAR, there.port).into());
        let near = config(1).peer(2, &["10.78.0.2"], endpoint).write(test, "near");
        let near = Node::start(&near, &[]);
        let (here, peer) = (inside(NEAR_INSIDE[0]), far.enter(|| inside(FAR_INSIDE[0])));
        let pass = |from: &UdpSocket, to: &UdpSocket| {
            from.send_to(&[7; 8000], to.local_addr().unwrap()).expect("the device takes it");
            assert_eq!(receive(to, &mut [0; 9000]).expect("it comes"), 8000);
        };
        pass(&here, &peer);
        let socket = UdpSocket::bind((NEAR, 0)).expect("an address of the near end");
        let (mut data, until) = (vec![0; 65_507], Instant::now() + Duration::from_secs(3));
        data[0] = 4;
        while Instant::now() < until {
            let _ = socket.send_to(&data, (NEAR, near.port));
        }
        // What is left of the flood may still fill the socket.
        here.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        let (to, mut buffer) = (here.local_addr().unwrap(), [0; 9000]);
        let comes = (0..1000).any(|_| {
            peer.send_to(&[7; 8000], to).expect("the device takes it");
            receive(&here, &mut buffer).is_ok_and(|len| len == 8000)
        });
        assert!(comes, "nothing passes after the flood");
        pass(&here, &peer);
        let status = format!("/proc/{}/status", near.program.child.id());
        let status = std::fs::read_to_string(status).expect("it runs");
        assert!(number(&status, "VmHWM:") <= 32 << 10, "{status}");
        assert!(number(&near.stop(), "received: datagrams") > 1000);
        assert_nothing_lost(&there.stop());
    });
}

/// Stops the process while `call` runs.
fn stop_and_go(program: &Program, call: impl FnOnce()) {
    program.signal(libc::SIGSTOP);
    call();
    program.signal(libc::SIGCONT);
}
