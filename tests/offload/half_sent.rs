//! Messages of which a part has left when the socket is full: the rest goes when there is space.

use std::collections::VecDeque;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::sockets::unix_pair;
use crate::common::{NET, numbered, would_block};
use mmsg::{BatchSocket, Offload, SendMeta, SendMsg, SendQueue};

/// Sends messages of `data` that are segmented in user space through a socket that is full most of the
/// time, and checks that the datagrams come in order.
fn through_a_narrow_socket(near: &Offload<UnixDatagram>, far: &UnixDatagram, data: &[Vec<u8>]) {
    const SIZE: u16 = 10;
    let meta = SendMeta::new().with_segment_size(SIZE);
    let msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data).with_meta(&meta)).collect();
    let mut segments: VecDeque<_> = data.iter().flat_map(|data| data.chunks(SIZE.into())).collect();
    let (mut sent, mut rejected, mut buffer) = (0, 0, [0; 64]);
    let mut receive_one = || {
        let len = far.recv(&mut buffer).expect("it was sent");
        assert_eq!(Some(&buffer[..len]), segments.pop_front());
    };
    while sent < msgs.len() {
        match near.send_batch(&msgs[sent..]) {
            Ok(count) => sent += count,
            result => {
                assert!(would_block(result));
                rejected += 1;
                receive_one();
            }
        }
    }
    assert!(rejected > 0, "it was never full");
    let left = near.counters().sent as usize - rejected;
    (0..left).for_each(|_| receive_one());
    assert!(segments.is_empty());
}

#[test]
fn d8_a_non_blocking_call_never_blocks_and_no_datagram_is_lost_or_doubled() {
    let (near, far) = unix_pair();
    near.set_nonblocking(true).expect("it is a flag");
    let near = Offload::new(near).expect("a Unix socket");
    through_a_narrow_socket(&near, &far, &numbered(500, 38));
}

#[test]
fn d8_a_send_timeout_is_honoured() {
    let (near, far) = unix_pair();
    // As short as the kernel's clock resolves.
    near.set_write_timeout(Some(Duration::from_millis(1))).expect("a timeout");
    let near = Offload::new(near).expect("a Unix socket");
    let start = Instant::now();
    through_a_narrow_socket(&near, &far, &numbered(150, 38));
    assert!(start.elapsed() < NET);
}

/// A queue keeps the message at its front until all of it has left.
#[test]
fn d8_a_flush_goes_on_with_the_message_that_it_left_half_sent() {
    let (near, far) = unix_pair();
    near.set_nonblocking(true).expect("it is a flag");
    let near = Offload::new(near).expect("a Unix socket");
    let data = numbered(1, 12_000).concat();
    let mut queue = SendQueue::new(1 << 20);
    let meta = SendMeta::new().with_segment_size(10);
    queue.push(&SendMsg::new(&data).with_meta(&meta)).expect("there is space");
    let mut got = Vec::new();
    let mut buffer = [0; 64];
    loop {
        let result = near.flush(&mut queue);
        let done = result.as_ref().is_ok_and(|count| *count == 1);
        assert!(done || would_block(result));
        let waiting = near.counters().sent as usize * 10 - got.len();
        for _ in 0..waiting / 10 {
            let len = far.recv(&mut buffer).expect("it was sent");
            got.extend_from_slice(&buffer[..len]);
        }
        if done {
            break;
        }
        assert_eq!(queue.len(), 1);
    }
    assert!(got == data);
}

/// Like messages of several tasks, each of which is offered again when the socket has space for a datagram.
#[test]
fn d23_a_hundred_messages_that_are_half_sent_in_turns_are_each_sent_once() {
    const COUNT: usize = 100;
    const PIECES: usize = 30;
    let (near, far) = unix_pair();
    near.set_nonblocking(true).expect("it is a flag");
    let near = Offload::new(near).expect("a Unix socket");
    let pieces = numbered(COUNT * PIECES, 8);
    let data: Vec<_> = pieces.chunks(PIECES).map(<[_]>::concat).collect();
    let meta = SendMeta::new().with_segment_size(8);
    let mut msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data).with_meta(&meta)).collect();
    let (mut came, mut buffer) = (Vec::new(), [0; 16]);
    let mut receive_one = || {
        let len = far.recv(&mut buffer).expect("it was sent");
        came.push(buffer[..len].to_vec());
        assert!(came.len() <= pieces.len(), "a datagram came twice");
    };
    let mut received = 0;
    while !msgs.is_empty() {
        msgs.retain(|msg| {
            let result = near.send_batch(&[*msg]);
            let done = result.is_ok();
            assert!(done || would_block(result));
            if received < near.counters().sent {
                receive_one();
                received += 1;
            }
            !done
        });
    }
    (received..near.counters().sent).for_each(|_| receive_one());
    came.sort_unstable();
    let mut pieces = pieces;
    pieces.sort_unstable();
    assert!(came == pieces);
}

/// The second peer lacks the part of a message that the first one got.
#[test]
fn d23_a_message_is_another_one_where_the_socket_has_another_peer() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let peer = || {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mmsg-offload-socket-{}-{number}", std::process::id());
        let addr = SocketAddr::from_abstract_name(name).expect("Linux has them");
        let socket = UnixDatagram::bind_addr(&addr).expect("a name of its own");
        socket.set_read_timeout(Some(NET)).expect("a timeout");
        (socket, addr)
    };
    let ((first, to_first), (second, to_second)) = (peer(), peer());
    let near = UnixDatagram::unbound().expect("a Unix socket");
    near.set_nonblocking(true).expect("it is a flag");
    let near = Offload::new(near).expect("a Unix socket");
    // More than any socket takes.
    let pieces = numbered(4_000, 8);
    let data = pieces.concat();
    let msg = [SendMsg::new(&data).with_segment_size(8)];
    let mut sent = 0;
    let mut offer = |came: &mut Vec<Vec<u8>>, far: &UnixDatagram, to: &SocketAddr| {
        near.get_ref().connect_addr(to).expect("it is there");
        let result = near.send_batch(&msg);
        let done = result.is_ok();
        assert!(done || would_block(result));
        let mut buffer = [0; 16];
        for _ in sent..near.counters().sent {
            let len = far.recv(&mut buffer).expect("it was sent");
            came.push(buffer[..len].to_vec());
        }
        sent = near.counters().sent;
        done
    };
    let mut came = [Vec::new(), Vec::new()];
    let mut done = [false, false];
    while done != [true, true] {
        for (i, far, to) in [(0, &first, &to_first), (1, &second, &to_second)] {
            done[i] = done[i] || offer(&mut came[i], far, to);
        }
    }
    assert!(came[0] == pieces && came[1] == pieces);
}
