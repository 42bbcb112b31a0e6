use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::common::skip;
use crate::kit::{
    Config, FAR_INSIDE, NEAR_INSIDE, Node, assert_nothing_lost, exchange, inside, private_key,
    public, with_nodes,
};
use crate::running::receive;
use crate::veth::{FAR, Far, NEAR, ip};

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
    with_nodes(|far| {
        if let Err(error) = Command::new("wg").output() {
            return skip(format_args!("no wg: {error}"));
        }
        if let Err(error) = far.enter(|| ip(&format!("link add {KERNEL} type wireguard"))) {
            return skip(format_args!("no WireGuard in this kernel: {error}"));
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

/// The end that knows the other begins, and files pass both ways.
#[track_caller]
fn files_pass(test: &str, ours: bool) {
    beside_the_kernel(test, |far| {
        let node = node(test, &far, ours);
        let ends = [inside(NEAR_INSIDE[0]), far.enter(|| inside(FAR_INSIDE[0]))];
        let [from, to] = [usize::from(!ours), usize::from(ours)].map(|end| &ends[end]);
        from.send_to(b"first", to.local_addr().expect("it is bound")).expect("the device takes it");
        assert_eq!(receive(to, &mut [0; 16]).expect("it comes"), 5);
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
