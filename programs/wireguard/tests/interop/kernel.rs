use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::common::skip;
use crate::kit::{
    Config, FAR_INSIDE, NEAR_INSIDE, Node, assert_nothing_lost, exchange, inside, private_key,
    public, with_nodes,
};
use crate::running::receive;
use crate::veth::{DEVICE, FAR, FAR_DEVICE, Far, NEAR, ip};

/// The kernel's device at the far end, and its port.
const KERNEL: &str = "wg0";
const PORT: u16 = 51_820;
/// Each node's number, from which its keys are made.
const OURS: u8 = 1;
const KERNELS: u8 = 2;

/// Runs `wg` in this thread's namespace, and returns what it prints.
#[track_caller]
fn wg(arguments: &str) -> String {
    let output = Command::new("wg").args(arguments.split(' ')).output().expect("wg runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "wg {arguments}: {said}");
    String::from_utf8(output.stdout).expect("wg prints UTF-8")
}

/// Runs `test` with the kernel's device at the far end. Without `wg`, or WireGuard in the kernel, prints why and skips.
fn beside_the_kernel(name: &str, test: impl FnOnce(Far) + Send) {
    with_nodes(name, |far| {
        if let Err(error) = Command::new("wg").output() {
            return skip(name, format_args!("no wg: {error}"));
        }
        if let Err(error) = far.enter(|| ip(&format!("link add {KERNEL} type wireguard"))) {
            return skip(name, format_args!("no WireGuard in this kernel: {error}"));
        }
        let key = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension("key");
        fs::write(&key, private_key(KERNELS)).expect("a file");
        far.enter(|| {
            wg(&format!("set {KERNEL} listen-port {PORT} private-key {}", key.display()));
            let allowed = NEAR_INSIDE.join(",");
            wg(&format!("set {KERNEL} peer {} allowed-ips {allowed}", public(OURS)));
            for address in ["10.78.0.2/24", "fd78::2/64"] {
                ip(&format!("addr add {address} dev {KERNEL}")).expect("an address");
            }
            ip(&format!("link set {KERNEL} mtu 1420 up")).expect("it goes up");
        });
        test(far);
    });
}

/// Starts our node. Only one end knows the other's address, and begins the handshake: ours if `ours` is set.
#[track_caller]
fn node(test: &str, far: &Far, ours: bool) -> Node {
    let config = Config::new(OURS, &["10.78.0.1/24", "fd78::1/64"], 0);
    let endpoint = ours.then_some(SocketAddr::from((FAR, PORT)));
    let node = Node::start(&config.peer(KERNELS, &FAR_INSIDE, endpoint).write(test, "near"), &[]);
    if !ours {
        let endpoint = SocketAddr::from((NEAR, node.port));
        far.enter(|| wg(&format!("set {KERNEL} peer {} endpoint {endpoint}", public(OURS))));
    }
    node
}

/// The field `what` of the kernel's only peer, from `wg show`.
fn shown(far: &Far, what: &str) -> String {
    let line = far.enter(|| wg(&format!("show {KERNEL} {what}")));
    line.trim_end().rsplit('\t').next().expect("a field").to_owned()
}

/// A socket at each end of the tunnel.
struct Pair([UdpSocket; 2]);

impl Pair {
    fn new(far: &Far) -> Self {
        Self([inside(NEAR_INSIDE[0]), far.enter(|| inside(FAR_INSIDE[0]))])
    }

    /// Sends a datagram from one end (0 is ours) to the other.
    #[track_caller]
    fn pass(&self, from: usize, data: &[u8]) {
        let [from, to] = [&self.0[from], &self.0[1 - from]];
        from.send_to(data, to.local_addr().expect("it is bound")).expect("the device takes it");
        let mut buffer = [0; 2048];
        let len = receive(to, &mut buffer).expect("it comes");
        assert_eq!(&buffer[..len], data);
    }
}

/// The end that knows the other begins, and files pass both ways.
#[track_caller]
fn files_pass(test: &str, ours: bool) {
    beside_the_kernel(test, |far| {
        let node = node(test, &far, ours);
        Pair::new(&far).pass(usize::from(!ours), b"first");
        for address in FAR_INSIDE {
            exchange(&far, address, 1 << 20);
        }
        assert_nothing_lost(&node.stop());
    });
}

#[test]
fn the_kernel_answers_our_handshake() {
    files_pass("the_kernel_answers_our_handshake", true);
}

#[test]
fn we_answer_the_kernels_handshake() {
    files_pass("we_answer_the_kernels_handshake", false);
}

#[test]
fn either_end_may_move() {
    let test = "either_end_may_move";
    beside_the_kernel(test, |far| {
        let node = node(test, &far, true);
        let pair = Pair::new(&far);
        pair.pass(0, b"at home");
        assert_eq!(shown(&far, "endpoints"), format!("{NEAR}:{}", node.port));

        // We move: our next packet tells the kernel our new address.
        ip(&format!("addr del {NEAR}/24 dev {DEVICE}")).expect("it was there");
        ip(&format!("addr add 10.77.0.3/24 dev {DEVICE}")).expect("an address");
        pair.pass(0, b"we have moved");
        assert_eq!(shown(&far, "endpoints"), format!("10.77.0.3:{}", node.port));
        pair.pass(1, b"seen");

        // The kernel moves: its next packet tells us.
        far.enter(|| {
            ip(&format!("addr del {FAR}/24 dev {FAR_DEVICE}")).expect("it was there");
            ip(&format!("addr add 10.77.0.4/24 dev {FAR_DEVICE}")).expect("an address");
        });
        pair.pass(1, b"it has moved");
        pair.pass(0, b"seen");
        exchange(&far, FAR_INSIDE[0], 100_000);
        node.stop();
    });
}

/// The node that began a session replaces it when it sends a packet 120 seconds later (the protocol's
/// REKEY_AFTER_TIME). All datagrams arrive, before and after.
fn a_session_is_renewed(test: &str, ours: bool) {
    beside_the_kernel(test, |far| {
        let node = node(test, &far, ours);
        let (pair, begin) = (Pair::new(&far), Instant::now());
        pair.pass(usize::from(!ours), b"first");
        let first = shown(&far, "latest-handshakes");
        let renewed = (0u64..).find(|number| {
            // Renewal depends on the clock, so the test sleeps between datagrams.
            thread::sleep(Duration::from_millis(500));
            pair.pass(0, &number.to_be_bytes());
            pair.pass(1, &number.to_be_bytes());
            assert!(begin.elapsed() < Duration::from_secs(300), "no other handshake");
            shown(&far, "latest-handshakes") != first
        });
        assert!(begin.elapsed() > Duration::from_secs(100), "after {renewed:?} datagrams");
        for number in 0..100u64 {
            pair.pass(0, &number.to_be_bytes());
            pair.pass(1, &number.to_be_bytes());
        }
        assert_nothing_lost(&node.stop());
    });
}

#[test]
fn we_renew_a_session_with_the_kernel() {
    a_session_is_renewed("we_renew_a_session_with_the_kernel", true);
}

#[test]
fn the_kernel_renews_a_session_with_us() {
    a_session_is_renewed("the_kernel_renews_a_session_with_us", false);
}
