//! Bad arguments and bad zones: one line on standard error.

use std::fs;

use crate::program::{Ended, Program, serve, zone};

fn dns(args: &[&str]) -> Ended {
    Program::start(env!("CARGO_BIN_EXE_dns"), args).wait()
}

#[track_caller]
fn assert_fails(ended: &Ended, status: i32, what: &str) {
    let said = ended.err.join("\n");
    assert_eq!(ended.status, Some(status), "{said}");
    assert!(said.starts_with("error: ") && said.contains(what), "{said}");
}

#[test]
fn bad_arguments_are_rejected() {
    let ended = dns(&[]);
    assert_fails(&ended, 2, "--listen");
    let ended = dns(&["--listen", "here", "--zone", "x"]);
    assert_fails(&ended, 2, "here");
}

#[test]
fn a_malformed_zone_is_rejected() {
    let missing = dns(&["--listen", "127.0.0.1:0", "--zone", "no-such-file"]);
    assert_fails(&missing, 1, "no-such-file");
    let folder = std::env::temp_dir().join(format!("mmsg-dns-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    let path = folder.join("example.test.zone");
    let file = path.to_str().expect("a plain path");
    let head = "$TTL 60\n@ IN SOA ns host 1 2 3 4 5\n";
    for (text, what) in [
        ("", "SOA"),
        ("@ IN FOO bar\n", "FOO"),
        (head, "NS"),
        (&format!("{head}@ IN NS ns\nwww.example.org. IN A 192.0.2.1\n"), "not in the zone"),
        (&format!("{head}@ IN NS ns\na IN CNAME b\na IN A 192.0.2.1\n"), "CNAME"),
    ] {
        fs::write(&path, text).expect("a file");
        let ended = dns(&["--listen", "127.0.0.1:0", "--zone", file]);
        assert_fails(&ended, 1, what);
    }
    let _ = fs::remove_dir_all(folder);
}

#[test]
fn a_port_in_use_is_an_error() {
    for threads in ["1", "2"] {
        let server = serve("127.0.0.1:0", &["--threads", threads]);
        let (addr, zone) = (server.addr.to_string(), zone());
        let zone = zone.to_str().expect("a plain path");
        let ended = dns(&["--listen", &addr, "--zone", zone, "--threads", threads]);
        assert_fails(&ended, 1, "in use");
    }
}
