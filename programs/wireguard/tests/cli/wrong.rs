//! Error messages of nodes that cannot run.

use std::path::Path;
use std::process::Command;

use crate::common::skip;
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
    assert_fails(&ended, "bad_key.conf: line 2: PrivateKey is not a key: 44 characters of base64");
    assert!(!ended.err[0].contains("secret"), "{ended:?}");
}

#[test]
fn a_missing_file_is_named() {
    assert_fails(&Program::start(WIREGUARD, ["nowhere.conf"]).wait(), "nowhere.conf: No such file");
}

#[test]
fn without_rights_it_says_which_are_missing() {
    let test = "without_rights_it_says_which_are_missing";
    with_nodes(test, |_| {
        let args = ["--bounding-set=-net_admin", WIREGUARD].map(str::to_owned);
        let ended = Program::start("setpriv", args.into_iter().chain([config(test)])).wait();
        assert_fails(&ended, "run this as root, or with CAP_NET_ADMIN");
    });
}

#[test]
fn without_the_device_file_it_says_how_to_get_it() {
    let test = "without_the_device_file_it_says_how_to_get_it";
    with_nodes(test, |_| {
        let script = "mount -t tmpfs none /dev/net || exit 9; exec \"$0\" \"$1\"";
        let args = ["--mount", "sh", "-c", script, WIREGUARD].map(str::to_owned);
        let ended = Program::start("unshare", args.into_iter().chain([config(test)])).wait();
        if ended.status == Some(9) {
            return skip(test, format_args!("no mount: {:?}", ended.err));
        }
        assert_fails(&ended, "there is no /dev/net/tun: load the module (`modprobe tun`)");
    });
}

#[test]
fn a_device_of_another_program_is_not_taken() {
    let test = "a_device_of_another_program_is_not_taken";
    with_nodes(test, |_| {
        let config = config(test);
        let first = Node::start(Path::new(&config), &[]);
        let ended = Program::start(WIREGUARD, [&config]).wait();
        assert_fails(&ended, "another program has this device; choose a --device");
        first.stop();
    });
}

/// The kernel says "invalid argument" to all of them.
#[test]
fn a_name_that_no_device_can_have_is_said() {
    let test = "a_name_that_no_device_can_have_is_said";
    with_nodes(test, |_| {
        for name in ["a b", "all", "x/y", "sixteen-bytes-is"] {
            let ended = Program::start(WIREGUARD, ["--device", name, &config(test)]).wait();
            assert_fails(&ended, &format!("\"{name}\" is no name of a device: 1 to 15 bytes"));
        }
    });
}

#[test]
fn a_hangup_ends_a_node_with_its_counts_unless_it_was_ignored() {
    let test = "a_hangup_ends_a_node_with_its_counts_unless_it_was_ignored";
    with_nodes(test, |_| {
        let config = config(test);
        let node = Node::start(Path::new(&config), &[]);
        node.program.signal(libc::SIGHUP);
        let ended = node.program.wait();
        assert_eq!(ended.status, Some(0), "{ended:?}");
        assert!(ended.out.iter().any(|line| line.starts_with("tun read: ")), "{ended:?}");

        let node = Node::started(Program::start("nohup", [WIREGUARD, &config]));
        node.program.signal(libc::SIGHUP);
        assert!(node.stop().contains("tun read: "));
    });
}

#[test]
fn a_port_of_another_program_is_an_error() {
    let test = "a_port_of_another_program_is_an_error";
    with_nodes(test, |_| {
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
    with_nodes(test, |_| {
        let node = Node::start(Path::new(&config(test)), &[]);
        ip("link delete wg0").expect("it is there");
        let ended = node.program.wait();
        assert_eq!(ended.status, Some(1), "{ended:?}");
        assert_eq!(ended.err, ["error: TUN device wg0 is gone, or the UDP socket failed"]);
    });
}

#[test]
fn an_address_that_comes_twice_is_an_error() {
    let test = "an_address_that_comes_twice_is_an_error";
    with_nodes(test, |_| {
        let config = Config::new(1, &["10.78.0.1/24", "10.78.0.1/24"], 0).write(test, "wg0");
        let ended = Program::start(WIREGUARD, [config]).wait();
        assert_fails(&ended, "Address 10.78.0.1/24 cannot be added to wg0 by `ip`: ");
    });
}

/// Root without its rights has those of the file alone; `ip` has none by itself.
#[test]
fn a_second_address_needs_no_right_but_cap_net_admin() {
    let test = "a_second_address_needs_no_right_but_cap_net_admin";
    with_nodes(test, |_| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wireguard-net-admin");
        std::fs::copy(WIREGUARD, &program).expect("a file");
        let program = program.to_str().expect("cargo's folders have names in UTF-8");
        let set = Command::new("setcap").args(["cap_net_admin+ep", program]).status();
        if !set.is_ok_and(|status| status.success()) {
            return skip(test, "setcap gives the file no right");
        }
        let addresses = ["10.78.0.1/24", "10.79.0.1/24"];
        let config = Config::new(1, &addresses, 0).peer(2, &["10.78.0.2"], None).write(test, "wg0");
        let config = config.to_str().expect("cargo's folders have names in UTF-8");
        let args = ["--securebits=+noroot", "--inh-caps=-all", program, config];
        let node = Node::started(Program::start("setpriv", args));
        std::net::UdpSocket::bind("10.79.0.1:0").expect("the node has it");
        node.stop();
        std::fs::remove_file(program).expect("it is there");
    });
}
