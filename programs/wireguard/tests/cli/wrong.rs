//! Error messages of nodes that cannot run.

use std::path::Path;

use crate::kit::{Config, Node, WIREGUARD, with_nodes};
use crate::running::{Ended, Program};
use crate::veth::ip;

fn config(test: &str) -> String {
    let config = Config::new(1, &["10.78.0.1/24"], 0).peer(2, &["10.78.0.2"], None);
    config.write(test, "wg0").to_str().expect("UTF-8").to_owned()
}

#[track_caller]
fn assert_fails(ended: &Ended, expected: &str) {
    assert_eq!((ended.status, ended.err.len(), ended.out.len()), (Some(1), 1, 0), "{ended:?}");
    assert!(ended.err[0].starts_with("error: ") && ended.err[0].contains(expected), "{ended:?}");
}

#[test]
fn a_bad_key_is_named_by_its_line() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad_key.conf");
    std::fs::write(&path, "[Interface]\nPrivateKey = secret\n").expect("a file");
    let ended = Program::start(WIREGUARD, [&path]).wait();
    assert_fails(&ended, "bad_key.conf: line 2: PrivateKey is not a key: 44 characters");
    assert!(!ended.err[0].contains("secret"), "{ended:?}");
}

#[test]
fn without_rights_it_says_which_are_missing() {
    let test = "without_rights_it_says_which_are_missing";
    with_nodes(|_| {
        let args = ["--bounding-set=-net_admin", WIREGUARD].map(str::to_owned);
        let ended = Program::start("setpriv", args.into_iter().chain([config(test)])).wait();
        assert_fails(&ended, "run this as root, or with CAP_NET_ADMIN");
    });
}

#[test]
fn a_device_of_another_program_is_not_taken() {
    let test = "a_device_of_another_program_is_not_taken";
    with_nodes(|_| {
        let config = config(test);
        let first = Node::start(Path::new(&config), &[]);
        let ended = Program::start(WIREGUARD, [&config]).wait();
        assert_fails(&ended, "another program has this device; choose a --device");
        first.stop();
    });
}

#[test]
fn a_port_of_another_program_is_an_error() {
    let test = "a_port_of_another_program_is_an_error";
    with_nodes(|_| {
        let taken = std::net::UdpSocket::bind("[::]:51820").expect("nobody else is here");
        let config = Config::new(1, &["10.78.0.1/24"], 51_820).peer(2, &["10.78.0.2"], None);
        let ended = Program::start(WIREGUARD, [config.write(test, "wg0")]).wait();
        assert_fails(&ended, "UDP port 51820: Address already in use (os error 98)");
        drop(taken);
    });
}

#[test]
fn a_device_that_is_deleted_ends_the_node() {
    let test = "a_device_that_is_deleted_ends_the_node";
    with_nodes(|_| {
        let node = Node::start(Path::new(&config(test)), &[]);
        ip("link delete wg0").expect("it is there");
        let ended = node.program.wait();
        assert_eq!(ended.status, Some(1), "{ended:?}");
        assert_eq!(ended.err, ["error: TUN device wg0 is gone, or the UDP socket failed"]);
    });
}
