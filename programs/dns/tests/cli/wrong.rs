//! What cannot be served: one line on standard error.

use std::fs;
use std::process::Command;

use crate::program::{Ended, Program, serve, skip, zone};

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
fn a_malformed_zone_is_rejected() {
    let missing = dns(&["--listen", "127.0.0.1:0", "--zone", "no-such-file"]);
    assert_fails(&missing, 1, "no-such-file");
    let folder = std::env::temp_dir().join(format!("mmsg-dns-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    let path = folder.join("example.test.zone");
    let file = path.to_str().expect("a plain path");
    let head = "$TTL 60\n@ IN SOA ns host 1 2 3 4 5\n";
    fs::write(folder.join("other"), "a A 192.0.2.1\n\nb A 192.0.2\n").expect("a file");
    let address = |n: u16| format!("a A 192.0.{}.{}\n", n >> 8, n & 255);
    let fifo = Command::new("mkfifo").arg(folder.join("fifo")).status().expect("mkfifo");
    assert!(fifo.success());
    fs::write(folder.join("circle"), "$INCLUDE circle\n").expect("a file");
    for (text, what) in [
        ("", "example.test.zone: expected an SOA record"),
        ("@ IN FOO bar\n", "zone:1: expected a TTL, the class IN or a type, not \"FOO\""),
        (&format!("\u{feff}{head}@ IN NS ns\n"), "zone:1: expected no byte order mark"),
        (head, "zone:2: expected an NS record of the zone itself"),
        (
            &format!("{head}@ IN NS ns\nwww.example.org. IN A 192.0.2.1\n"),
            "zone:4: expected a name in",
        ),
        (
            &format!("{head}@ IN NS ns\na IN CNAME b\na IN A 192.0.2.1\n"),
            "zone:5: expected no other records",
        ),
        (
            &format!("{head}@ IN NS ns\na IN A 192.0.2.1 192.0.2.2\n"),
            "zone:4: expected the end of the entry",
        ),
        (&format!("{head}@ IN NS (\n ns"), "zone:3: expected another parenthesis"),
        (
            &format!("{head}$INCLUDE other b\n"),
            "other:3: expected an IPv4 address, not \"192.0.2\"",
        ),
        (
            &format!("{head}$INCLUDE circle\n"),
            "circle:1: expected files that include others up to 8 deep",
        ),
        (&format!("{head}$INCLUDE fifo\n"), "zone:3: cannot read "),
        (&format!("{head}$INCLUDE /dev/zero\n"), "zone:3: cannot read "),
        (&format!("{head}$INCLUDE {}\n", "x".repeat(4000)), "zone:3: cannot read "),
        (&format!("{head}{long} A 192.0.2.1\n", long = "x".repeat(4000)), "expected a name"),
        (
            &format!("{head}@ IN NS ns\n{}", (0..5000).map(address).collect::<String>()),
            "zone:4080: expected a set of records that fits into a message",
        ),
        (
            &format!("{head}@ IN NS ns\na TYPE999 \\# 65535 {}\n", "00".repeat(65_535)),
            "zone:4: expected a set of records that fits into a message",
        ),
    ] {
        fs::write(&path, text).expect("a file");
        let ended = dns(&["--listen", "127.0.0.1:0", "--zone", file]);
        assert_fails(&ended, 1, what);
        // One short line, also about a long word or a file that includes itself.
        assert!(ended.err.len() == 1 && ended.err[0].len() < 300, "{:?}", ended.err);
    }
    // Neither name has an origin.
    for (name, text) in [("a..b.zone", head), ("\u{feff}.zone", "a..b. 60 A 192.0.2.1\n")] {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file");
        let ended = dns(&["--listen", "127.0.0.1:0", "--zone", path.to_str().expect("a path")]);
        assert_fails(&ended, 1, "expected a name, not ");
    }
    let _ = fs::remove_dir_all(folder);
}

/// As where the user may have no more threads (`ulimit -u`).
#[test]
fn a_thread_that_cannot_start_ends_the_server() {
    let name = "a_thread_that_cannot_start_ends_the_server";
    // It has no other process, and may not read the folders of the source.
    let user = format!("--reuid={}", 400_000_000 + std::process::id());
    let switched = Command::new("setpriv").args([&user, "true"]).output();
    if !switched.is_ok_and(|output| output.status.success()) {
        return skip(name, "another user needs root, and setpriv of util-linux");
    }
    let folder = std::env::temp_dir().join(format!("mmsg-dns-threads-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let [program, copy] = ["dns", "zone"].map(|name| folder.join(name).display().to_string());
    fs::copy(env!("CARGO_BIN_EXE_dns"), &program).expect("a copy");
    fs::copy(zone(), &copy).expect("a copy");
    let start = |limit: &str| {
        let limit = format!("--nproc={limit}");
        let user = ["setpriv", &user, "--clear-groups", &program, "--zone", &copy];
        let listen = ["--listen", "127.0.0.1:0", "--listen", "127.0.0.2:0"];
        Program::start("prlimit", [&*limit].iter().chain(&user).chain(&listen))
    };
    // The threads for signals and the zone, for TCP, and one for each address.
    for limit in ["1", "2", "3", "4"] {
        let ended = start(limit).wait();
        assert_fails(&ended, 1, "cannot serve");
        assert_eq!((ended.err.len(), ended.out.len()), (1, 0), "{limit}: {ended:?}");
    }
    let server = start("5");
    assert!(server.line().starts_with("listening on 127.0.0.1:"));
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait().status, Some(0));
    let _ = fs::remove_dir_all(folder);
}

/// All receives fail. The server inherits this thread's filter.
#[test]
fn a_lasting_receive_error_is_said_once_a_second() {
    let test = || {
        if let Err(error) = crate::seccomp::deny(&[crate::seccomp::RECVMMSG], libc::ENOMEM) {
            return skip("a_lasting_receive_error", error);
        }
        let begin = std::time::Instant::now();
        let server = serve("127.0.0.1:0", &["--threads", "2"]);
        let lines = [(); 3].map(|()| server.program.err_line());
        assert!(lines.iter().all(|line| line.starts_with("error: cannot receive: ")), "{lines:?}");
        server.program.signal(libc::SIGTERM);
        let ended = server.program.wait();
        assert_eq!(ended.status, Some(0));
        let seconds = begin.elapsed().as_secs() as usize + 2;
        assert!((3..=seconds).contains(&(3 + ended.err.len())), "{seconds} s: {:?}", ended.err);
    };
    std::thread::spawn(test).join().expect("no panic");
}
