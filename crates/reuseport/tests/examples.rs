//! The examples do what they promise.

#![cfg(target_os = "linux")]

#[path = "../../../tests/common/program.rs"]
mod running;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use running::{Program, Server, client, find, receive, skip};

#[test]
fn statsd() {
    let Some(example) = find("statsd") else { return };
    let ended = Program::start(&example, [""; 0]).wait();
    assert_eq!(ended.status, Some(0), "{ended:#?}");
    // Said once.
    assert_eq!(ended.err, ["datagrams of more than 1500 bytes are dropped"]);
    let sums = ["requests: 20000 of ", "bytes: 30000000 of ", "dropped: 1 datagrams, 0 lines"];
    assert!(ended.out.iter().zip(sums).all(|(line, sum)| line.starts_with(sum)), "{ended:#?}");
    assert_eq!(ended.out.len(), sums.len());
    // As in `statsd | head -0`.
    let unread = Command::new(&example).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut unread = unread.expect("it starts");
    drop(unread.stdout.take());
    assert_eq!(unread.wait().expect("it ends").code(), Some(0));
    // With `lo` down.
    let namespaces = Command::new("unshare").args(["-rn", "true"]).output();
    if !namespaces.is_ok_and(|output| output.status.success()) {
        return skip("statsd without a network", "no network namespace");
    }
    let ended = Program::start("unshare", ["-rn".as_ref(), example.as_os_str()]).wait();
    assert_eq!((ended.status, ended.out.len(), ended.err.len()), (Some(1), 0, 1), "{ended:?}");
}

#[test]
fn the_readmes_functions_are_the_examples() {
    let readme = include_str!("../README.md");
    let (_, block) = readme.split_once("```rust,ignore\n").expect("the functions");
    let (block, _) = block.split_once("```").expect("their end");
    assert!(include_str!("../examples/handover/server.rs").contains(block.trim_end()));
}

/// Clients keep a window of requests in flight; a reply that does not come fails the test.
#[test]
fn three_restarts_under_load_lose_no_request_and_no_reply() {
    let Some(example) = find("handover") else { return };
    let path = std::env::temp_dir().join(format!("handover-{}", std::process::id()));
    let path = path.to_str().expect("a plain path");
    let mut server = Server::start(&example, ["127.0.0.1:0", path]);
    let (to, stop, echoed) = (server.addr, AtomicBool::new(false), AtomicUsize::new(0));
    let load = || {
        let (client, mut buffer) = (client(to), [0; 8]);
        client.connect(to).expect("loopback");
        for round in 0u32.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let request = |number: u32| (round * 16 + number).to_be_bytes();
            (0..16).for_each(|n| assert_eq!(client.send(&request(n)).expect("it is sent"), 4));
            let mut missing: Vec<_> = (0..16).map(request).collect();
            while !missing.is_empty() {
                let len = receive(&client, &mut buffer).expect("no reply is lost");
                let at = missing.iter().position(|request| *request == buffer[..len]);
                missing.swap_remove(at.expect("each reply comes once"));
            }
            echoed.fetch_add(16, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(load)).collect();
        for restart in 1..=4 {
            while echoed.load(Ordering::Relaxed) < restart * 10_000
                && !clients.iter().any(|c| c.is_finished())
            {
                thread::yield_now();
            }
            if restart < 4 {
                let next = Server::start(&example, ["127.0.0.1:0", path]);
                assert_eq!(next.addr, to);
                let old = std::mem::replace(&mut server, next).program.wait();
                assert_eq!(old.status, Some(0), "{old:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{} requests, none lost", echoed.load(Ordering::Relaxed));
    std::fs::remove_file(path).expect("the last server listens there");
}
