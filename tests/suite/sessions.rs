//! A relay with a socket for each client, connected to its server: the socket of an answer says whose it is.

use std::net::{SocketAddr, UdpSocket};

use mmsg::{Ancillary, BatchSocket, BatchSocketExt, RecvBatch, SendMsg};

use crate::common::recv::{collect, payloads};
use crate::common::sockets::{addr, refusing, settle_answers, udp4};
use crate::common::{choose_backend, is_refused, no_failure};

/// Every third server is gone, which only its own sessions report. Clients ask at two addresses, and get each answer
/// from the one that they asked.
#[test]
fn sessions_with_a_socket_each_mix_up_nobody_beside_servers_that_are_gone() {
    choose_backend();
    let relay = UdpSocket::bind("0.0.0.0:0").expect("an IPv4 socket");
    Ancillary::DEST.require(&relay).expect("Linux has it");
    let servers = [udp4(), udp4(), refusing()];
    let clients: Vec<_> = (0..30).map(|_| udp4()).collect();
    for (i, client) in clients.iter().enumerate() {
        let asked = [127, 0, 0, 1 + (i % 2) as u8];
        client.connect(SocketAddr::from((asked, addr(&relay).port()))).expect("loopback");
        client.send(&[i as u8]).expect("loopback takes it");
    }

    let (mut batch, mut sessions) = (RecvBatch::new(8, 16), Vec::new());
    while sessions.len() < clients.len() {
        relay.recv_into(&mut batch).expect("they are there");
        for datagram in batch.iter() {
            let (socket, number) = (udp4(), usize::from(datagram.data()[0]));
            socket.connect(addr(&servers[number % 3])).expect("loopback has a route");
            let sent = socket.send_each([SendMsg::new(datagram.data())], no_failure);
            assert_eq!(sent.expect("it is not full"), 1);
            let client = datagram.addr().expect("UDP has one");
            sessions.push((number, client, datagram.meta().reply_meta(), socket));
        }
    }
    for server in &servers[..2] {
        for asked in collect(server, 10) {
            let from = asked.from.expect("UDP has one");
            server.send_to(&asked.data, from).expect("loopback takes it");
        }
    }
    settle_answers();

    let mut lost = 0;
    for (number, client, meta, socket) in &sessions {
        match socket.recv_into(&mut batch) {
            Ok(_) => {
                let answers = batch.iter().map(|answer| SendMsg::to(*client, answer.data()));
                let answers = answers.map(|answer| answer.with_meta(meta));
                assert_eq!(relay.send_each(answers, no_failure).expect("it is not full"), 1);
                assert_eq!(payloads(&clients[*number], 1), [[*number as u8]]);
            }
            Err(error) => {
                assert!(is_refused(&error) && number % 3 == 2, "{number}: {error}");
                lost += 1;
            }
        }
    }
    assert_eq!(lost, 10);
}
