//! Groups of sockets on one address: each member's share, and no loss when members join and leave.
#![cfg(any(target_os = "linux", target_os = "freebsd"))]
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[path = "../../../../tests/common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod cost;
#[cfg(target_os = "linux")]
mod members;
#[cfg(target_os = "linux")]
mod restarts;
#[cfg(target_os = "linux")]
#[path = "../../../../tests/common/program.rs"]
mod running;
#[cfg(target_os = "linux")]
#[path = "../../../../tests/common/seccomp.rs"]
#[allow(dead_code)]
mod seccomp;

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use mmsg::{Backend, BatchSocket, RecvBatch};
use mmsg_reuseport::{ReusePortGroup, ReusePortGroupBuilder, Spread};

use common::TIME_LIMIT;

/// `common` needs this name; no test here depends on the backend.
const BACKEND: Option<Backend> = None;

const MEMBERS: usize = 4;

fn localhost() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn builder(addr: SocketAddr, spread: Spread) -> ReusePortGroupBuilder {
    ReusePortGroup::builder(addr).members(MEMBERS).spread(spread)
}

fn client() -> UdpSocket {
    UdpSocket::bind(localhost()).expect("a socket")
}

fn send(client: &UdpSocket, payload: &[u8], to: SocketAddr) {
    assert_eq!(client.send_to(payload, to).expect("sent"), payload.len());
}

/// Drains a socket, and calls `each` with every datagram's source and payload.
fn drain(socket: &UdpSocket, batch: &mut RecvBatch, mut each: impl FnMut(SocketAddr, &[u8])) {
    socket.set_nonblocking(true).expect("a flag");
    loop {
        match socket.recv_into(batch) {
            Ok(_) => batch.iter().for_each(|d| each(d.addr().expect("a source"), d.data())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    socket.set_nonblocking(false).expect("a flag");
}

/// Receives from all members until `count` datagrams have arrived: on loopback, Linux before 6.5 may deliver them a
/// moment after the send. Passes `each` the member's index as well.
fn receive(group: &ReusePortGroup, count: usize, mut each: impl FnMut(usize, SocketAddr, &[u8])) {
    let (mut batch, mut received, begin) = (RecvBatch::new(64, 64), 0, Instant::now());
    while received < count {
        assert!(begin.elapsed() < TIME_LIMIT, "{received} of {count} have come");
        for (index, socket) in group.members().iter().enumerate() {
            drain(socket, &mut batch, |from, data| {
                received += 1;
                each(index, from, data);
            });
        }
    }
}

/// Calls `send` `count` times, and counts the datagrams that each member receives.
fn counts(group: &ReusePortGroup, count: usize, mut send: impl FnMut(usize)) -> Vec<usize> {
    let mut counts = vec![0; group.members().len()];
    for i in 0..count {
        send(i);
        // At most 32 wait at a time, so no buffer overflows.
        if i % 32 == 31 || i == count - 1 {
            receive(group, i % 32 + 1, |index, _, _| counts[index] += 1);
        }
    }
    counts
}

#[test]
fn by_flow_all_datagrams_of_a_peer_go_to_one_member() {
    let group = builder(localhost(), Spread::FLOW).bind().expect("a group");
    let clients: Vec<_> = (0..128).map(|_| client()).collect();
    let mut member_of = HashMap::new();
    for _ in 0..3 {
        for client in &clients {
            send(client, b"x", group.local_addr());
        }
        receive(&group, 128, |index, from, _| {
            assert_eq!(*member_of.entry(from).or_insert(index), index, "{from}");
        });
    }
    assert_eq!(member_of.len(), 128);
    // All 128 peers miss one of four members once in 10^15 runs.
    for index in 0..MEMBERS {
        assert!(member_of.values().any(|member| *member == index), "member {index} got nothing");
    }
}
