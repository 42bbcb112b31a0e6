//! Attacks on examples whose `main` is server and client in one. The tests run only their servers.

use std::io;
use std::net::UdpSocket;
use std::thread;

use crate::running::{client, receive};

#[allow(dead_code)] // Its `main` is unused.
#[path = "../../examples/game_server.rs"]
mod game_server;

#[allow(dead_code)]
#[path = "../../examples/ntp.rs"]
mod ntp;

#[allow(dead_code)]
#[path = "../../examples/collector.rs"]
mod collector;

#[cfg(feature = "tokio")]
#[allow(dead_code)]
#[path = "../../examples/dns_forwarder.rs"]
mod dns_forwarder;

/// Sockets connected to the server.
fn connected(server: &UdpSocket, count: usize) -> Vec<UdpSocket> {
    let addr = server.local_addr().expect("it is bound");
    let connect = |socket: UdpSocket| {
        socket.connect(addr).expect("loopback has a route");
        socket
    };
    (0..count).map(|_| connect(client(addr))).collect()
}

/// A player that sends without its token stands for a sender with a forged address, who never sees the token.
#[test]
fn a_game_moves_nobody_and_answers_no_server_without_the_token() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    let mut players = connected(&server, 33);
    let other = players.pop().expect("one more than the game has");
    // It serves until the process ends.
    thread::spawn(move || game_server::serve(&server, u32::MAX));

    // A second server's token has 8 bytes. If servers answered tokens with tokens, two would never stop.
    other.send(&[0; 8]).expect("sent");
    let mut steps = [[0; 9]; 32];
    for (player, step) in players.iter().zip(&mut steps) {
        player.send(step).expect("sent");
        assert_eq!(receive(player, &mut step[1..]).expect("a token"), 8);
        player.send(step).expect("sent");
    }
    let mut forged = [&[100][..], &[100; 9], &steps[0][1..], &steps[1]].map(<[u8]>::to_vec);
    forged[3][0] = 100;
    for bytes in &forged {
        players[0].send(bytes).expect("sent");
    }
    steps[0][0] = 1;
    players[0].send(&steps[0]).expect("sent");
    let mut state = [0; 2048];
    let sum = loop {
        let len = receive(&players[0], &mut state).expect("the state, or a token");
        let positions = state[4..len].chunks_exact(4);
        let sum: i32 =
            positions.map(|bytes| i32::from_be_bytes(bytes.try_into().expect("four"))).sum();
        if len > 8 && sum != 0 {
            break sum;
        }
    };
    assert_eq!(sum, 1);
    other.set_nonblocking(true).expect("a socket can be");
    let answer = other.recv(&mut state);
    assert!(answer.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
}

/// IPFIX messages are longer than an Ethernet packet on such links.
#[test]
fn a_collector_stores_long_datagrams_whole() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    for len in [2_840, 65_507] {
        let client = connected(&socket, 1).remove(0);
        client.send(&vec![7; len]).expect("sent");
        let mut stored = 0;
        let store = |batch: &mmsg::RecvBatch| {
            stored = batch.iter().filter(|d| !d.truncated()).map(|d| d.len()).sum();
            false
        };
        collector::collect(&socket, store).expect("no error ends it");
        assert_eq!(stored, len);
    }
}

/// With all answers stamped before the first is sent, the last says that it left before the first arrived.
#[test]
fn an_ntp_answer_says_when_it_leaves_itself() {
    use mmsg::{Ancillary, BatchSocket, RecvBatch};

    let server = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    let wanted = Ancillary::DEST | Ancillary::TIMESTAMP;
    wanted.require(&server).expect("Linux has it");
    let client = connected(&server, 1).remove(0);
    Ancillary::TIMESTAMP.require(&client).expect("Linux has it");
    let (mut batch, mut answers) = (RecvBatch::new(64, 64), Vec::new());
    // The kernel stamps arrivals from a moment after a socket has asked for it (`net_enable_timestamp`); before, the
    // receive does.
    let mut stamps_arrivals = || {
        let own = UdpSocket::bind("127.0.0.1:0")?;
        Ancillary::TIMESTAMP.require(&own)?;
        own.send_to(b"own", own.local_addr()?)?;
        crate::common::sockets::settle();
        let before_receive = std::time::SystemTime::now();
        own.recv_into(&mut batch)?;
        let stamps = batch.iter().map(|own| own.meta().timestamp.expect("it is on"));
        io::Result::Ok(stamps.max() < Some(before_receive))
    };
    while !stamps_arrivals().expect("loopback") {}
    for number in 0..64 {
        client.send(&(crate::target::NTP.make)(number)).expect("sent");
    }
    // It receives all of them at once, and serves until the process ends.
    thread::spawn(move || ntp::serve(&server));
    while answers.len() < 64 {
        client.recv_into(&mut batch).expect("answers");
        for answer in &batch {
            let arrived = answer.meta().timestamp.expect("it is on");
            answers.push((answer.data()[40..48].to_vec(), ntp::to_ntp(arrived)));
        }
    }
    let ((_, first_arrival), (last_left, _)) = (&answers[0], &answers[63]);
    assert!(last_left[..] > first_arrival[..], "{:?}", &answers[..2]);
}

/// Each forged answer is wrong in one part. Asks until the client gets the true answer.
#[cfg(feature = "tokio")]
#[test]
fn a_dns_forwarder_takes_no_forged_answer() {
    use crate::target::DNS;

    let clients = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    clients.set_nonblocking(true).expect("a socket can be");
    let client = connected(&clients, 1).remove(0);
    client.set_read_timeout(Some(std::time::Duration::from_secs(1))).expect("a timeout");
    let resolver = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    resolver.set_read_timeout(Some(crate::running::PATIENCE)).expect("a timeout");
    let addr = resolver.local_addr().expect("it is bound");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("tokio").block_on(async {
            dns_forwarder::forward(tokio::net::UdpSocket::from_std(clients)?, addr).await
        })
    });
    // The server must not forward an answer as a question.
    let mut answer = (DNS.make)(1);
    answer[2] = 0x80;
    let (mut question, mut back) = ([0; 512], [0; 512]);
    for number in 2..20 {
        // Drops late questions of the rounds before.
        resolver.set_nonblocking(true).expect("a socket can be");
        while resolver.recv(&mut question).is_ok() {}
        resolver.set_nonblocking(false).expect("a socket can be");
        client.send(&answer).expect("sent");
        let asked = (DNS.make)(number);
        client.send(&asked).expect("sent");
        let (len, from) = resolver.recv_from(&mut question).expect("a question");
        assert_eq!(question[2] & 0x80, 0, "an answer became a question");
        let mut right = question[..len].to_vec();
        right[2] |= 0x80;
        let send = |bytes: &[u8]| assert!(resolver.send_to(bytes, from).is_ok());
        for change in 1..=u16::MAX {
            let id = u16::from_be_bytes([right[0], right[1]]) ^ change;
            send(&[&id.to_be_bytes(), &right[2..]].concat());
            // Lets the server read, so that its buffer has space for the true answer.
            if change % 64 == 0 {
                thread::yield_now();
            }
        }
        // No question, another name, another case, a pointer, another type.
        let last = right.len() - 3;
        for (at, to) in [(5, 0), (13, b'x'), (13, b'W'), (12, 0xc0), (last, 28)] {
            let mut wrong = right.clone();
            wrong[at] = to;
            send(&wrong);
        }
        send(&right[..12]);
        send(&right[..2]);
        let stranger = UdpSocket::bind("127.0.0.2:0").expect("an address of loopback");
        stranger.send_to(&right, from).expect("sent");
        send(&right);
        while let Ok(len) = receive(&client, &mut back) {
            if back[..2] == asked[..2] {
                return assert_eq!(back[2..len], right[2..], "not the true answer");
            }
        }
        // On a slow machine the answer is late: asks again.
    }
    panic!("no answer beside forged ones");
}
