//! System errors that the README's servers must survive: a firewall's, and those of a connected socket whose peer is
//! gone.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use mmsg::{BatchSocketExt, Offload, SendMsg};
use socket2::{Domain, Socket, Type};

use crate::common::{TIME_LIMIT, firewall, linux::in_namespace, skip};
use crate::requests;
use crate::running::{PATIENCE, Program, find};
use crate::seccomp::{RECVMMSG, RECVMSG, deny};
use crate::target::{Server, Target};

/// The README's server, to run on a socket of the test.
#[allow(dead_code)] // Its `main` is unused.
#[path = "../../examples/server.rs"]
mod readme;

/// One reply of a batch fails with `EPERM`.
fn behind_a_firewall(program: &'static str) {
    in_namespace(program, || {
        let args = |listen| vec![listen];
        let server = Server { program, args, listen: "0.0.0.0:0", request: requests::ECHO };
        let Some(mut target) = Target::start(&server) else { return };
        let (open, closed) = (target.client(), target.client());
        let port = closed.local_addr().expect("it is bound").port();
        if let Err(error) = firewall::reject_port(port) {
            return skip(program, format_args!("no firewall rule: {error}"));
        }
        target.assert_answers(&open, "its start");
        let requests = [1, 2, 3].map(|number| target.request(number));
        // The stopped server receives all of them in one batch.
        target.program.signal(libc::SIGSTOP);
        for request in &requests {
            closed.send(request).expect("the other way is open");
            open.send(request).expect("loopback takes it");
        }
        target.program.signal(libc::SIGCONT);
        let end = Instant::now() + PATIENCE;
        let mut unheard = requests.to_vec();
        while !unheard.is_empty() {
            unheard = target.unheard(&open, &unheard).into_iter().map(<[u8]>::to_vec).collect();
            assert!(Instant::now() < end, "{program}: {} innocents not answered", unheard.len());
        }
    });
}

#[test]
fn a_reply_that_a_firewall_rejects_costs_nobody_the_answer() {
    behind_a_firewall("server");
}

#[cfg(feature = "tokio")]
#[test]
fn a_tokio_reply_that_a_firewall_rejects_costs_nobody_the_answer() {
    behind_a_firewall("server_tokio");
}

/// A shortage of memory or a security policy may fail every receive. Program `server` says so once a second, and goes on.
#[test]
fn a_receive_that_fails_for_good_makes_a_line_per_second() {
    let programs = [
        "server",
        #[cfg(feature = "tokio")]
        "server_tokio",
    ];
    for program in programs {
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
            Err(error) => return skip(program, format_args!("no filter: {error}")),
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

/// A socket on a port of loopback that other sockets may share.
fn bind_shared(addr: SocketAddr) -> UdpSocket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("an IPv4 socket");
    socket.set_reuse_address(true).expect("an open socket");
    socket.bind(&addr.into()).expect("a loopback address");
    socket.into()
}

/// On a connected socket, receives and sends return ICMP errors.
#[test]
fn the_readme_s_server_goes_past_connection_refused() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    let to = server.local_addr().expect("it is bound");
    // Connected to itself, the client rejects answers.
    let refusing = bind_shared("127.0.0.1:0".parse().expect("an address"));
    let peer = refusing.local_addr().expect("it is bound");
    refusing.connect(peer).expect("connecting only stores the peer");
    server.connect(peer).expect("connecting only stores the peer");
    // It serves until the process ends.
    thread::spawn(move || readme::echo(&Offload::new(server).expect("a UDP socket")));
    for number in 0..100u32 {
        let data = number.to_be_bytes();
        let sent = refusing.send_each([SendMsg::to(to, &data)], |_, error| panic!("{error}"));
        assert_eq!(sent.expect("loopback takes it"), 1);
    }
    let client = bind_shared(peer);
    client.connect(to).expect("loopback has a route");
    client.set_read_timeout(Some(TIME_LIMIT / 100)).expect("a timeout");
    let (end, mut buffer) = (Instant::now() + PATIENCE, [0; 16]);
    loop {
        client.send(b"still there?").expect("loopback takes it");
        // Some of the hundred may be answered only now.
        while let Ok(len) = client.recv(&mut buffer) {
            if &buffer[..len] == b"still there?" {
                return;
            }
        }
        assert!(Instant::now() < end, "no answer after ICMP errors");
    }
}
