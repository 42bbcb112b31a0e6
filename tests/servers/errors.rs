//! System errors that the README's servers must survive: of a firewall, and of receives that fail for good.

use std::io;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{firewall, linux::in_namespace, skip};
use crate::running::{Program, find};
use crate::seccomp::{RECVMMSG, RECVMSG, deny};
use crate::target::{ECHO, Server, Target};

/// The README's servers.
const PROGRAMS: &[&str] = &[
    "server",
    #[cfg(feature = "tokio")]
    "server_tokio",
];

/// One reply of a batch fails with `EPERM`.
#[test]
fn a_reply_that_a_firewall_rejects_costs_nobody_the_answer() {
    for program in PROGRAMS {
        in_namespace(|| {
            let args = |listen| vec![listen];
            let server = Server { program, args, listen: "0.0.0.0:0", request: ECHO };
            let Some(mut target) = Target::start(&server) else { return };
            let (open, closed) = (target.client(), target.client());
            let port = closed.local_addr().expect("it is bound").port();
            if let Err(error) = firewall::reject_port(port) {
                return skip(format_args!("no firewall rule: {error}"));
            }
            target.assert_answers(&open, "its start");
            let requests = [1, 2, 3].map(|number| target.request(number));
            target.answers_each(&open, &requests, || {
                for request in &requests {
                    closed.send(request).expect("the other way is open");
                    open.send(request).expect("loopback takes it");
                }
            });
        });
    }
}

/// A shortage of memory or a security policy may fail every receive. Program `server` says so once a second, and goes on.
#[test]
fn a_receive_that_fails_for_good_makes_a_line_per_second() {
    for program in PROGRAMS {
        let Some(path) = find(program) else { return };
        let begin = Instant::now();
        let start = || {
            // A child inherits the filter.
            deny(&[RECVMMSG, RECVMSG], libc::EACCES)?;
            Ok(Program::start(&path, ["127.0.0.1:0"]))
        };
        let started: io::Result<_> =
            thread::scope(|scope| scope.spawn(start).join().expect("it starts"));
        let mut server = match started {
            Ok(server) => server,
            Err(error) => return skip(format_args!("no filter: {error}")),
        };
        let line = server.line();
        let addr = line.strip_prefix("listening on ").expect("the first line says where");
        // tokio calls only when something is there.
        UdpSocket::bind("127.0.0.1:0")
            .and_then(|socket| socket.send_to(b"hello", addr))
            .expect("loopback takes it");
        let first = server.err_line();
        assert!(first.starts_with("receive: Permission denied"), "{first}");
        assert_eq!([server.err_line(), server.err_line()], [first.clone(), first]);
        assert!(begin.elapsed() > Duration::from_secs(2), "{program} spins");
        assert_eq!(server.child.try_wait().expect("a child"), None, "{program} ended");
    }
}
