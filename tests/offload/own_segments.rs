//! Messages with their own segment size, segmented in user space. Once one datagram was accepted the message counts
//! as sent; datagrams that the socket does not accept are dropped and counted.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use crate::common::sockets::unix_pair;
use crate::common::{TIME_LIMIT, numbered, tick, would_block};
use mmsg::offload::OffloadState;
use mmsg::{BatchSocket, Offload, SendMsg};
use socket2::SockRef;

/// Length of a datagram.
const SIZE: usize = 10;

/// More datagrams than a Unix socket with a small send buffer accepts.
const MANY: usize = 100;

/// A message of `datagrams` different datagrams.
fn data(datagrams: usize) -> Vec<u8> {
    numbered(datagrams, SIZE).concat()
}

fn message(data: &[u8]) -> SendMsg<'_> {
    SendMsg::new(data).with_segment_size(SIZE as u16)
}

/// A socket with a small send buffer, and its peer.
fn small_pair() -> (UnixDatagram, UnixDatagram) {
    let (near, far) = unix_pair();
    SockRef::from(&near).set_send_buffer_size(1).expect("the least there is");
    (near, far)
}

/// A non-blocking socket that is soon full, and its peer.
fn narrow() -> (Offload<UnixDatagram>, UnixDatagram) {
    let (near, far) = small_pair();
    near.set_nonblocking(true).expect("an open socket");
    (Offload::new(near).expect("a Unix socket"), far)
}

/// Checks that exactly the first `count` datagrams of the message arrived.
#[track_caller]
fn check_came(far: &UnixDatagram, data: &[u8], count: usize) {
    let mut buffer = [0; 64];
    for expected in data.chunks(SIZE).take(count) {
        let len = far.recv(&mut buffer).expect("it was sent");
        assert_eq!(&buffer[..len], expected);
    }
    far.set_nonblocking(true).expect("an open socket");
    assert!(would_block(far.recv(&mut buffer)), "more came");
    far.set_nonblocking(false).expect("an open socket");
}

/// The numbers of datagrams sent and dropped.
fn counted(near: &OffloadState) -> (usize, usize) {
    let counters = near.counters();
    (counters.sent as usize, counters.unsent as usize)
}

#[test]
fn a_full_socket_that_does_not_wait_drops_the_rest_of_a_message() {
    let (near, far) = narrow();
    let data = data(MANY);
    for round in 0..3 {
        let before = counted(near.state());
        assert_eq!(near.send_batch(&[message(&data)]).expect("some are taken"), 1);
        let after = counted(near.state());
        let (sent, dropped) = (after.0 - before.0, after.1 - before.1);
        assert!((1..MANY).contains(&sent), "round {round}: {sent} of {MANY} were sent");
        assert_eq!(sent + dropped, MANY);
        // The socket is full and accepts nothing of the message, so the caller keeps it.
        assert!(would_block(near.send_batch(&[message(&data)])));
        assert_eq!(counted(near.state()), after);
        // The crate remembers nothing of it.
        check_came(&far, &data, sent);
    }
}

#[test]
fn a_send_timeout_is_honoured() {
    const TIMEOUT: Duration = Duration::from_millis(50);
    let (near, far) = small_pair();
    near.set_write_timeout(Some(TIMEOUT)).expect("a timeout");
    let near = Offload::new(near).expect("a Unix socket");
    let data = data(MANY);
    let start = Instant::now();
    assert_eq!(near.send_batch(&[message(&data)]).expect("some are taken"), 1);
    let took = start.elapsed();
    assert!(took + tick() >= TIMEOUT && took < TIME_LIMIT, "{took:?}");
    let (sent, dropped) = counted(near.state());
    assert!(dropped > 0 && sent + dropped == MANY);
    check_came(&far, &data, sent);
}
