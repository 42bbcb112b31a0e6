//! The small examples: each ends by itself and prints what its first lines promise.

#![cfg(unix)]

#[path = "common/program.rs"]
mod running;

use running::{Program, find};

/// Runs an example and returns its output; `None` if it was not built.
fn run(name: &str) -> Option<String> {
    let ended = Program::start(find(name)?, [""; 0]).wait();
    assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{name}: {ended:#?}");
    Some(ended.out.join("\n"))
}

#[track_caller]
fn assert_prints(name: &str, all: &[&str]) {
    let Some(out) = run(name) else { return };
    for text in all {
        assert!(out.contains(text), "{name} prints no {text:?}: {out}");
    }
}

#[test]
fn offload() {
    assert_prints("offload", &["1000 datagrams came back whole", "sender: 1000 datagrams in "]);
}

#[test]
fn metadata() {
    let linux = ["marked: ECN Some(Ect0), to Some(127.0.0.1)", "reply from Some(127.0.0.1): ECN "];
    assert_prints("metadata", if cfg!(target_os = "linux") { &linux } else { &[] });
}

#[test]
fn error_queue() {
    let linux = ["refused", "the open port received its datagram"];
    assert_prints("error_queue", if cfg!(target_os = "linux") { &linux } else { &[] });
}

#[test]
fn back_pressure() {
    assert_prints("back_pressure", &["dropped 10;", "in order, 0 left in the queue"]);
}

#[test]
fn hand_over() {
    // 62 and 625 bursts of 32 datagrams. Before the workers start, the 8 batches take the datagrams of 8 receives.
    assert_prints("hand_over", &["dropped before the workers started: 1", " dropped = 21984"]);
}

#[test]
fn test_double() {
    assert_prints("test_double", &["five sent, one failed: [192.0.2.1:4]"]);
}

#[test]
fn dns_forwarder() {
    assert_prints("dns_forwarder", &["200 questions answered under the IDs they were asked by"]);
}

#[test]
fn dns_proxy() {
    assert_prints("dns_proxy", &["100 questions answered, each by its task"]);
}

#[test]
fn collector() {
    assert_prints("collector", &["stored 100 + 100 + 50 datagrams"]);
}

#[test]
fn game_server() {
    assert_prints("game_server", &["320 states for 32 players"]);
}

#[test]
fn multicast() {
    let linux = ["asked 239.255.77.7, answered by Some(127.0.0.1): here"];
    assert_prints("multicast", if cfg!(target_os = "linux") { &linux } else { &[] });
}

#[test]
fn ntp() {
    assert_prints("ntp", if cfg!(target_os = "linux") { &["offset ", "delay "] } else { &[] });
}

#[test]
fn sfu() {
    assert_prints("sfu", &["2000 packets heard"]);
}

#[test]
fn tunnel() {
    assert_prints("tunnel", &["1000 datagrams came through whole"]);
}
