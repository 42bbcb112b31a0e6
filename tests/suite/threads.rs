//! Many threads on one socket, each with the arenas of its own pool.

use std::collections::HashSet;
use std::net::UdpSocket;
use std::thread;

use mmsg::{BatchSocket, RecvBatch, SendMsg};

use crate::common::payload;
use crate::common::recv::{data_of, memory, recv_msgs};
use crate::common::sockets::{addr, udp4};

const THREADS: usize = 8;
const EACH: usize = 2_000;

/// Sends `EACH` datagrams in batches of changing size, and receives as many from any thread.
///
/// A thread receives as many datagrams as it has sent before it sends more. So a waiting thread always finds a
/// datagram, and the socket never holds more than `THREADS` batches, which fit the buffer.
fn take_part(socket: &UdpSocket, thread: usize, receive: &mut Receive<'_>) -> Vec<Vec<u8>> {
    let to = addr(socket);
    let (mut sent, mut got) = (0, Vec::new());
    while sent < EACH {
        let count = (1 + (sent * 7 + thread) % 16).min(EACH - sent);
        let data: Vec<_> = (sent..sent + count).map(|i| payload(thread << 16 | i, 12)).collect();
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(to, data)).collect();
        assert_eq!(socket.send_batch(&msgs).expect("loopback takes them"), count);
        sent += count;
        while got.len() < sent {
            receive(socket, sent - got.len(), &mut got);
        }
    }
    got
}

/// Receives between one and `most` datagrams and adds them to the list.
type Receive<'a> = dyn FnMut(&UdpSocket, usize, &mut Vec<Vec<u8>>) + 'a;

fn run(part: impl Fn(&UdpSocket, usize) -> Vec<Vec<u8>> + Sync) {
    let socket = udp4();
    let all = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|i| (scope, &socket, &part, i))
            .map(|(scope, socket, part, i)| scope.spawn(move || part(socket, i)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no thread fails"))
            .collect::<Vec<_>>()
    });
    assert_eq!(all.len(), THREADS * EACH);
    let received: HashSet<_> = all.into_iter().collect();
    let sent = (0..THREADS).flat_map(|i| (0..EACH).map(move |k| payload(i << 16 | k, 12)));
    let sent: HashSet<_> = sent.collect();
    assert_eq!(sent.len(), THREADS * EACH, "all payloads differ");
    assert!(received == sent, "every datagram exactly once");
}

#[test]
fn eight_threads_on_one_socket_by_messages_and_batches() {
    run(|socket, thread| {
        let mut batches: Vec<_> = (1..=16).map(|slots| RecvBatch::new(slots, 16)).collect();
        let mut turn = thread;
        take_part(socket, thread, &mut |socket, most, got| {
            turn += 1;
            if turn % 2 == 0 {
                let mut memory = memory(most, 16);
                let mut msgs = recv_msgs(&mut memory);
                let count = socket.recv_batch(&mut msgs).expect("something is there");
                got.extend(data_of(&msgs[..count]));
            } else {
                let batch = &mut batches[most.min(16) - 1];
                socket.recv_into(batch).expect("something is there");
                got.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
            }
        })
    });
}
