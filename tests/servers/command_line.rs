//! What each program and example says to its user: the usage, what is wrong, what it counted.
//!
//! `cargo test --all-features --test servers -- --nocapture what_each` prints the table.

use std::ffi::{OsStr, OsString};
use std::net::UdpSocket;
use std::path::Path;

use crate::common::skip;
use crate::running::{Ended, Program, find};
use crate::target::file;

/// Programs whose command line clap reads.
const PROGRAMS: [&str; 4] = ["dns", "echo", "quic", "wireguard"];

fn run(path: &Path, args: &[&str]) -> Ended {
    Program::start(path, args).wait()
}

/// Prints a row of the table, and checks it: the status, and words of the only line, or of the usage.
#[track_caller]
fn row(name: &str, what: &str, ended: &Ended, status: Option<i32>, words: &[&str]) {
    let said = [&ended.err[..], &ended.out].concat();
    println!("| {name} | {what} | {} | {:?} |", said.join(" / "), ended.status);
    assert_eq!(ended.status, status, "{name}: {what}: {ended:#?}");
    let has = |words: &&str| said.join("\n").contains(words);
    assert!(words.iter().all(has), "{name}: {what}: {ended:#?}");
    // A usage has more lines, and so has what a program counted.
    assert!(status != Some(1) || said.len() == 1, "{name}: {what}: {ended:#?}");
    let debug = ["Os {", "Custom {", "kind:", "panicked", "Err("];
    assert!(!debug.iter().any(|word| said.concat().contains(word)), "{name}: {what}: {ended:#?}");
}

#[test]
fn what_each_says_to_help_and_to_a_wrong_argument() {
    let examples = std::fs::read_dir(file("examples")).into_iter().flatten().flatten();
    let names = examples.filter_map(|entry| entry.file_name().into_string().ok());
    for name in names.filter_map(|name| Some(name.strip_suffix(".rs")?.to_owned())) {
        let Some(path) = find(&name) else { continue };
        for what in ["--help", "wrong"] {
            row(&name, what, &run(&path, &[what]), Some(2), &["usage: ", &name]);
        }
    }
    for name in PROGRAMS {
        let Some(path) = find(name) else { continue };
        row(name, "--help", &run(&path, &["--help"]), Some(0), &["Usage: "]);
        row(name, "--wrong", &run(&path, &["--wrong"]), Some(2), &["error: unexpected argument"]);
    }
}

/// Command lines of servers: the listening address, and the rest.
const SERVERS: [(&str, &[&str]); 6] = [
    ("dns", &["--zone", "ZONE", "--listen", "ADDR"]),
    ("echo", &["serve", "ADDR"]),
    ("ntp", &["ADDR"]),
    ("quic", &["serve", "ADDR"]),
    ("server", &["ADDR"]),
    ("server_tokio", &["ADDR"]),
];

fn words(args: &[&str], addr: &str) -> Vec<String> {
    let zone = file("programs/dns/example.zone");
    args.iter().map(|word| word.replace("ADDR", addr).replace("ZONE", &zone)).collect()
}

#[test]
fn what_each_server_says_to_an_address_that_it_cannot_have() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    let taken = taken.local_addr().map(|addr| (taken, addr.to_string())).expect("it is bound");
    for (name, args) in SERVERS {
        let Some(path) = find(name) else { continue };
        for (what, addr, why) in [
            ("port taken", &*taken.1, "Address already in use"),
            ("another host's address", "192.0.2.1:0", "Cannot assign requested address"),
        ] {
            let ended = Program::start(&path, words(args, addr)).wait();
            row(name, what, &ended, Some(1), &[addr, why]);
        }
        unprivileged(name, &path, &words(args, "127.0.0.1:53"));
    }
}

/// Runs a program without rights to bind a port below 1024.
fn unprivileged(name: &str, path: &Path, args: &[String]) {
    let all = ["--bounding-set=-all", "--inh-caps=-all", "--"].map(OsStr::new).into_iter();
    let all = all.chain([path.as_os_str()]).chain(args.iter().map(OsStr::new));
    let from = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let is_protected =
        from.is_ok_and(|port| port.trim().parse::<u16>().is_ok_and(|port| port > 53));
    if !is_protected || std::process::Command::new("setpriv").arg("--version").output().is_err() {
        return skip("any user may have port 53 here, or there is no setpriv");
    }
    let ended = Program::start("setpriv", all).wait();
    if ended.err.first().is_some_and(|line| line.starts_with("setpriv: ")) {
        return skip(&ended.err[0]);
    }
    row(name, "no permission", &ended, Some(1), &["127.0.0.1:53", "Permission denied"]);
}

#[test]
fn what_each_says_about_a_file_a_port_or_a_host_that_it_cannot_have() {
    let Some(dns) = find("dns") else { return };
    let args = ["--listen", "127.0.0.1:0", "--zone", "no-such-file"];
    row("dns", "missing file", &run(&dns, &args), Some(1), &["no-such-file: No such file"]);
    if let Some(traceroute) = find("traceroute") {
        // A broadcast address: sockets that are not for it may not send there.
        let ended = run(&traceroute, &["255.255.255.255"]);
        row("traceroute", "no way there", &ended, Some(1), &["Error: 255.255.255.255: "]);
    }
    if let Some(wireguard) = find("wireguard") {
        let ended = run(&wireguard, &["no-such-file"]);
        row("wireguard", "missing file", &ended, Some(1), &["no-such-file: No such file"]);
    }
}

/// The last line is what the server counted; `None` ends by the signal itself, as it counts nothing.
#[test]
fn what_each_server_says_at_its_end() {
    let counted = |name| match name {
        "dns" | "echo" => Some("total: received 0"),
        "quic" => Some("connections 0"),
        _ => None,
    };
    for (name, args) in SERVERS {
        let Some(path) = find(name) else { continue };
        // The suite itself may run where signals are ignored: under nohup, or behind a shell's `&`.
        let start = |before: &[&str]| {
            let words = words(args, "127.0.0.1:0").into_iter().map(OsString::from);
            let words = before.iter().map(OsString::from).chain([path.clone().into()]).chain(words);
            let program = Program::start("env", words);
            assert!(program.line().starts_with("listening on "));
            program
        };
        for (what, signal) in [("SIGTERM", libc::SIGTERM), ("SIGINT", libc::SIGINT)] {
            let program = start(&["--default-signal"]);
            program.signal(signal);
            let says = counted(name);
            row(name, what, &program.wait(), says.map(|_| 0), &[says.unwrap_or_default()]);
        }
        // Only the DNS server takes it, and goes on.
        let program = start(&["--default-signal"]);
        program.signal(libc::SIGHUP);
        if name == "dns" {
            assert!(program.line().starts_with("loaded "));
            program.signal(libc::SIGTERM);
        }
        let status = if name == "dns" { Some(0) } else { None };
        row(name, "SIGHUP", &program.wait(), status, &[]);
        let program = start(&["nohup"]);
        program.signal(libc::SIGHUP);
        program.signal(libc::SIGTERM);
        let ended = program.wait();
        row(name, "SIGHUP, SIGTERM under nohup", &ended, counted(name).map(|_| 0), &[]);
    }
}
