//! Servers of a protocol answer requests only. Otherwise a forged datagram with a server's own address as its source
//! would start an endless exchange.

use std::io;
use std::net::UdpSocket;

use crate::running::{client, receive};
use crate::target::{DNS, ECHO, NTP, Request, Server, Target, file};

/// Sends the server its own answer and then another request. The next answer must be to that request.
fn answers_no_answer(server: &Server, request: Request) {
    let Some(target) = Target::start(server) else { return };
    let client = client(target.addr().into());
    client.connect(target.addr()).expect("loopback has a route");
    let mut buffer = [0; 512];
    let mut answer = || {
        let len = receive(&client, &mut buffer).expect("an answer");
        buffer[..len].to_vec()
    };
    let [first, second] = [1, 2].map(request.make);
    client.send(&first).expect("the server listens");
    let first_answer = answer();
    assert!((request.is_answer)(&first, &first_answer));
    client.send(&first_answer).expect("the server listens");
    client.send(&second).expect("the server listens");
    assert!((request.is_answer)(&second, &answer()), "{}", target.name);
}

#[test]
fn ntp_ignores_answers() {
    let args = |at| vec![at];
    answers_no_answer(&Server { program: "ntp", args, listen: "127.0.0.1:0", request: NTP }, NTP);
}

#[test]
fn dns_ignores_answers() {
    // The tests have no such program on other architectures.
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return;
    }
    let args = |at| vec!["--listen".into(), at, "--zone".into(), file("programs/dns/example.zone")];
    answers_no_answer(&Server { program: "dns", args, listen: "127.0.0.1:0", request: DNS }, DNS);
}

/// Otherwise one forged datagram would go back and forth between two echo servers for ever.
#[test]
fn an_echo_does_not_answer_its_own_port() {
    type Args = fn(String) -> Vec<String>;
    let echo: Args = |at| vec!["serve".into(), at];
    let std: Args = |at| vec!["serve".into(), at, "--mode".into(), "std".into()];
    let plain: Args = |at| vec![at];
    let mut servers = vec![("server", plain), ("echo", echo), ("echo", std)];
    if cfg!(feature = "tokio") {
        servers.push(("server_tokio", plain));
    }
    for (program, args) in servers {
        let server = Server { program, args, listen: "127.0.0.1:0", request: ECHO };
        let Some(target) = Target::start(&server) else { return };
        let other = UdpSocket::bind(("127.0.0.2", target.addr().port())).expect("a free address");
        other.send_to(b"from an echo server", target.addr()).expect("loopback takes it");
        let client = client(target.addr().into());
        client.send_to(b"from a client", target.addr()).expect("loopback takes it");
        // The server answers in order, so this answer shows that the other datagram got none.
        let len = receive(&client, &mut [0; 64]).expect("an answer");
        assert_eq!(len, 13, "{program}");
        other.set_nonblocking(true).expect("a socket can be");
        let answer = other.recv(&mut [0; 64]);
        assert!(answer.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "{program}");
    }
}
