//! The small examples: each ends by itself and prints what its first lines promise.

#![cfg(unix)]

#[path = "common/program.rs"]
mod running;

use std::process::{Command, Stdio};

use running::{Program, find};

/// The example's name, and texts of its output. On other systems than Linux some print that they need Linux.
const EXAMPLES: [(&str, &[&str], bool); 13] = [
    ("offload", &["1000 datagrams came back whole", "sender: 1000 datagrams in "], false),
    (
        "metadata",
        &["marked: ECN Some(Ect0), to Some(127.0.0.1)", "reply from Some(127.0.0.1): ECN "],
        true,
    ),
    ("error_queue", &["refused", "the open port received its datagram"], true),
    // 62 and 625 bursts of 32 datagrams. Before the workers start, the 8 batches take the datagrams of 8 receives.
    ("hand_over", &["dropped before the workers started: 1", " dropped = 21984"], false),
    ("test_double", &["five sent, one failed: [192.0.2.1:4]"], false),
    ("dns_forwarder", &["200 questions answered under the IDs they were asked by"], false),
    ("collector", &["stored 100 + 100 + 50 datagrams"], false),
    ("game_server", &["320 states for 32 players"], false),
    ("multicast", &["asked 239.255.77.7, answered by Some(127.0.0.1): here"], true),
    ("ntp", &["offset ", "delay "], true),
    ("traceroute", &[" 1  127.0.0.1  ", " ms"], true),
    ("sfu", &["2000 packets heard"], false),
    ("tunnel", &["1000 datagrams came through whole"], false),
];

#[test]
fn each_example_prints_what_it_promises() {
    let started = EXAMPLES.map(|(name, texts, of_linux)| {
        let program = find(name).map(|path| Program::start(&path, [""; 0]));
        (name, if of_linux && !cfg!(target_os = "linux") { &[] } else { texts }, program)
    });
    for (name, texts, program) in started {
        let Some(ended) = program.map(Program::wait) else { continue };
        assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{name}: {ended:#?}");
        let out = ended.out.join("\n");
        assert!(texts.iter().all(|text| out.contains(text)), "{name}: {texts:?}: {out}");
    }
}

/// With `lo` down: a line and status 1, unless the example needs no network. A panic would be status 101.
#[cfg(target_os = "linux")]
#[test]
fn examples_without_a_network_end_with_a_line() {
    let made = Command::new("unshare").args(["-rn", "true"]).output();
    if !made.is_ok_and(|output| output.status.success()) {
        return running::skip("examples_without_a_network_end_with_a_line", "no network namespace");
    }
    for (name, ..) in EXAMPLES {
        let Some(path) = find(name) else { continue };
        let ended = Program::start("unshare", ["-rn".as_ref(), path.as_os_str()]).wait();
        let is_line = matches!(&ended.err[..], [line] if line.starts_with("Error: "));
        let needs_none = ["back_pressure", "test_double"].contains(&name);
        let expected = if needs_none { (Some(0), false) } else { (Some(1), true) };
        assert_eq!((ended.status, is_line), expected, "{name}: {ended:#?}");
    }
}

/// As in `example | head -1`.
#[test]
fn examples_go_on_when_nobody_reads() {
    for (name, ..) in EXAMPLES {
        let Some(path) = find(name) else { continue };
        let mut child = Command::new(path).stdout(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{name}");
    }
}
