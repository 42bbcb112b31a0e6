//! The parts of `examples/echo` that need no process of their own: their unit tests, which cargo
//! runs for no example by itself, and the server's loop on a socket that refuses what it is told
//! to refuse.

// The example uses what these tests do not.
#![allow(dead_code)]

#[path = "../examples/echo/counters.rs"]
mod counters;
#[path = "../examples/echo/echo_batch.rs"]
mod echo_batch;
#[path = "../examples/echo/echo_std.rs"]
mod echo_std;
#[path = "../examples/echo/figures.rs"]
mod figures;
#[path = "../examples/echo/flights.rs"]
mod flights;
#[path = "../examples/echo/offloaded.rs"]
mod offloaded;
#[path = "../examples/echo/payload.rs"]
mod payload;
#[path = "../examples/echo/percentiles.rs"]
mod percentiles;
#[path = "../examples/echo/refusal.rs"]
mod refusal;
#[path = "../examples/echo/stop.rs"]
mod stop;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::time::Duration;

use counters::{Counters, Totals};
use echo_batch::BatchEcho;
use mmsg::{BatchSocket, Offload, RecvMsg, SendMsg};
use offloaded::{EchoSocket, Offloaded};
use stop::Stop;

/// What a send comes to.
#[derive(Clone, Copy)]
enum Answer {
    Takes(usize),
    Fails(ErrorKind),
}
use Answer::{Fails, Takes};

/// A socket whose sends come to what a script says, and are good when that is at its end. When
/// there is nothing left to receive, it raises the flag to stop.
struct Scripted<'a, S> {
    socket: &'a S,
    script: RefCell<VecDeque<Answer>>,
    receive_errors: RefCell<VecDeque<ErrorKind>>,
    stop: &'a Stop,
}

impl<S: EchoSocket> EchoSocket for Scripted<'_, S> {
    fn offloaded(&self) -> Option<Offloaded> {
        self.socket.offloaded()
    }
}

impl<S: EchoSocket> BatchSocket for Scripted<'_, S> {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        if let Some(kind) = self.receive_errors.borrow_mut().pop_front() {
            return Err(kind.into());
        }
        let result = self.socket.recv_batch(msgs);
        if result.is_err() {
            self.stop.raise();
        }
        result
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        match self.script.borrow_mut().pop_front() {
            Some(Fails(kind)) => Err(kind.into()),
            Some(Takes(most)) => self.socket.send_batch(&msgs[..most.min(msgs.len())]),
            None => self.socket.send_batch(msgs),
        }
    }
}

/// Runs the server on datagrams "0", "1", ... and returns what came back, and the figures. It does
/// so with offload, too, where the datagrams are trains of those of one length: the same comes of
/// it.
fn echo(datagrams: usize, script: &[Answer], receive_errors: &[ErrorKind]) -> (Vec<usize>, Totals) {
    let socket = bind();
    let plain = echo_on(&socket, &socket, datagrams, script, receive_errors);
    let offload = Offload::new(&socket).unwrap();
    let trains = echo_on(&socket, &offload, datagrams, script, receive_errors);
    let counters = offload.counters();
    if offload.gso() && offload.gro() && datagrams > 1 {
        assert!(counters.received_trains > 0);
        assert!(counters.received_segments > 2 * counters.received_trains);
    }
    let left_aside = |totals: Totals| Totals { calls: 0, ..totals };
    assert_eq!((&trains.0, left_aside(trains.1)), (&plain.0, left_aside(plain.1)));
    plain
}

fn echo_on(
    plain: &UdpSocket,
    socket: &impl EchoSocket,
    datagrams: usize,
    script: &[Answer],
    receive_errors: &[ErrorKind],
) -> (Vec<usize>, Totals) {
    let (client, to) = (bind(), plain.local_addr().unwrap());
    let texts: Vec<_> = (0..datagrams).map(|i| i.to_string()).collect();
    let msgs: Vec<_> = texts.iter().map(|text| SendMsg::to(to, text.as_bytes())).collect();
    // It sends trains, and receives none.
    let client = Offload::builder().gro(false).build(client).unwrap();
    assert_eq!(client.send_batch(&msgs).unwrap(), datagrams);
    let client = client.into_inner();
    plain.set_nonblocking(true).unwrap();
    let (stop, counters) = (Stop::default(), Counters::default());
    let scripted = Scripted {
        socket,
        script: RefCell::new(script.iter().copied().collect()),
        receive_errors: RefCell::new(receive_errors.iter().copied().collect()),
        stop: &stop,
    };
    BatchEcho::new(&scripted, 8, &counters).unwrap().run(&stop);

    // All that was sent is there by now.
    client.set_nonblocking(true).unwrap();
    let (mut buffer, mut back) = ([0; 16], Vec::new());
    while let Ok(len) = client.recv(&mut buffer) {
        back.push(std::str::from_utf8(&buffer[..len]).unwrap().parse().unwrap());
    }
    (back, counters.totals())
}

fn bind() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

/// All but some.
fn without(datagrams: usize, missing: &[usize]) -> Vec<usize> {
    (0..datagrams).filter(|i| !missing.contains(i)).collect()
}

#[test]
fn everything_goes_back_in_order() {
    let (back, totals) = echo(20, &[], &[]);
    assert_eq!(back, without(20, &[]));
    assert_eq!((totals.received, totals.sent, totals.errors, totals.ignored), (20, 20, 0, 0));
}

#[test]
fn what_the_socket_does_not_take_waits() {
    let full = Fails(ErrorKind::WouldBlock);
    let scripts: [&[Answer]; 5] = [
        &[full, full, full],
        &[Takes(3), full, Takes(1), full],
        &[Takes(7), Takes(0), Takes(1), Takes(2), full],
        &[Takes(1), Takes(1), Takes(1), Takes(1), Takes(1), Takes(1), Takes(1), Takes(1)],
        &[Takes(0), full, Takes(0)],
    ];
    for script in scripts {
        let (back, totals) = echo(20, script, &[]);
        assert_eq!(back, without(20, &[]));
        assert_eq!((totals.received, totals.sent, totals.errors), (20, 20, 0));
    }
}

/// Trains of more datagrams than a call sends at a time, of which the socket takes a part.
#[test]
fn what_is_left_of_a_train_waits() {
    let full = Fails(ErrorKind::WouldBlock);
    for script in [&[Takes(30), full, Takes(7), full][..], &[Takes(64), Takes(1), full]] {
        let (back, totals) = echo(200, script, &[]);
        assert_eq!(back, without(200, &[]));
        assert_eq!((totals.received, totals.sent, totals.errors), (200, 200, 0));
    }
}

#[test]
fn a_reply_that_cannot_be_sent_is_an_error_and_the_only_one_lost() {
    for kind in
        [ErrorKind::PermissionDenied, ErrorKind::NetworkUnreachable, ErrorKind::InvalidInput]
    {
        // A datagram's own error is met by each send that begins with it.
        let (back, totals) = echo(20, &[Fails(kind), Fails(kind)], &[]);
        assert_eq!(back, without(20, &[0]), "{kind}");
        assert_eq!((totals.sent, totals.errors), (19, 1), "{kind}");

        let (back, totals) = echo(20, &[Takes(3), Fails(kind)], &[]);
        assert_eq!(back, without(20, &[3]), "{kind}");
        assert_eq!((totals.sent, totals.errors), (19, 1), "{kind}");

        let (back, totals) = echo(20, &[Takes(3), Fails(kind), Takes(2), Fails(kind)], &[]);
        assert_eq!(back, without(20, &[3, 6]), "{kind}");
        assert_eq!((totals.sent, totals.errors), (18, 2), "{kind}");
    }
}

#[test]
fn an_error_of_an_earlier_reply_does_not_cost_the_one_at_hand() {
    let refused = Fails(ErrorKind::ConnectionRefused);
    let (back, totals) = echo(20, &[refused], &[]);
    assert_eq!((back, totals.errors), (without(20, &[]), 1));

    let (back, totals) = echo(20, &[Takes(3), refused, Takes(1), refused], &[]);
    assert_eq!((back, totals.errors), (without(20, &[]), 2));

    // Met again and again, it is the datagram's own.
    let (back, totals) = echo(20, &[Takes(3), refused, refused], &[]);
    assert_eq!((back, totals.errors), (without(20, &[3]), 2));
}

#[test]
fn an_error_of_a_receive_ends_nothing() {
    let (back, totals) = echo(5, &[], &[ErrorKind::ConnectionRefused, ErrorKind::OutOfMemory]);
    assert_eq!((back, totals.errors), (without(5, &[]), 2));
}

#[test]
fn what_still_waits_at_the_end_is_an_error() {
    // The flag is up before the first round: nothing is received, nothing is lost.
    let (socket, stop, counters) = (bind(), Stop::default(), Counters::default());
    stop.raise();
    BatchEcho::new(&socket, 8, &counters).unwrap().run(&stop);
    assert_eq!(counters.totals(), Totals::default());

    // No send is ever taken, and the flag goes up with the first of them.
    struct Full<'a>(UdpSocket, &'a Stop);
    impl EchoSocket for Full<'_> {}
    impl BatchSocket for Full<'_> {
        fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
            self.0.recv_batch(msgs)
        }
        fn send_batch(&self, _: &[SendMsg<'_>]) -> io::Result<usize> {
            self.1.raise();
            Err(ErrorKind::WouldBlock.into())
        }
    }
    let (stop, client) = (Stop::default(), bind());
    for _ in 0..3 {
        client.send_to(b"x", socket.local_addr().unwrap()).unwrap();
    }
    let full = Full(socket, &stop);
    BatchEcho::new(&full, 8, &counters).unwrap().run(&stop);
    let totals = counters.totals();
    assert_eq!((totals.received, totals.sent, totals.errors), (3, 0, 3));
}
