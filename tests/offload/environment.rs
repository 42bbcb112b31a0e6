//! The environment variable that turns offloads off. Each value is tried in a process of its own.

use std::env;
use std::net::UdpSocket;
use std::process::Command;

use mmsg::offload::GsoStatus;
use mmsg::{BatchSocket, Offload, RecvBatch, SendMsg};

/// Set for a child of `the_environment_turns_offloads_off`.
const CHILD: &str = "MMSG_TEST_CHILD";

/// The state of a socket in this process: GSO, GSO after it was requested again, GRO.
fn state() -> String {
    let socket = || UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    let offload = Offload::new(socket()).expect("a UDP socket");
    let first = offload.state().gso_status();
    offload.state().set_gso(true);
    // It still sends and receives.
    let to = offload.get_ref().local_addr().expect("it is bound");
    assert_eq!(
        offload.send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")]).ok(),
        Some(2)
    );
    let (mut batch, mut datagrams) = (RecvBatch::for_gro(2), 0);
    while datagrams < 2 {
        offload.recv_into(&mut batch).expect("both arrive");
        datagrams += batch.iter().count();
    }
    format!("{first:?} {:?} {}", offload.state().gso_status(), offload.state().gro())
}

/// The result of [`state`] in a process with this value of the variable.
fn in_child(value: Option<&str>) -> String {
    let mut child = Command::new(env::current_exe().expect("this program"));
    child.args(["--exact", "environment::the_environment_turns_offloads_off", "--nocapture"]);
    child.env(CHILD, "1").env_remove("MMSG_OFFLOAD");
    child.envs(value.map(|value| ("MMSG_OFFLOAD", value)));
    let output = child.output().expect("this program runs again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let line = text.lines().find_map(|line| line.split_once("state: "));
    line.unwrap_or_else(|| panic!("no state in {text}")).1.to_owned()
}

#[test]
fn the_environment_turns_offloads_off() {
    if env::var_os(CHILD).is_some() {
        println!("state: {}", state());
        return;
    }
    let plain = in_child(None);
    for other in ["", "yes", "default"] {
        assert_eq!(in_child(Some(other)), plain);
    }
    let off = GsoStatus::OffByEnvironment;
    assert_eq!(in_child(Some("0")), format!("{off:?} {off:?} false"));
    let on = in_child(Some("1"));
    assert!(on == plain || plain.starts_with("OffByKernelRelease"), "{on}, {plain}");
}
