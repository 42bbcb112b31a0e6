//! Servers that speak a protocol answer requests alone: one datagram with the server's own address as its source would
//! be answered for ever.

use crate::requests::{DNS, NTP, Request};
use crate::running::{client, receive};
use crate::target::{Server, Target, file};

/// Sends the server its own answer, and then another request: the next answer is that of the request.
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
fn e18_ntp_answers_no_answer() {
    let args = |at, _| vec![at];
    answers_no_answer(&Server { program: "ntp", args, listen: "127.0.0.1:0", request: NTP }, NTP);
}

#[test]
fn e18_dns_answers_no_answer() {
    // Elsewhere the tests have no such program.
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return;
    }
    let args =
        |at, _| vec!["--listen".into(), at, "--zone".into(), file("programs/dns/example.zone")];
    answers_no_answer(&Server { program: "dns", args, listen: "127.0.0.1:0", request: DNS }, DNS);
}
