//! Many threads on one socket, each with the arenas of its own pool.

use std::collections::HashSet;
use std::thread;

use mmsg::{BatchSocket, RecvBatch, SendMsg};

use crate::common::payload;
use crate::common::recv::{data_of, memory, recv_msgs};
use crate::common::sockets::{addr, udp4};

const THREADS: usize = 8;
const EACH: usize = 2_000;

/// Each thread sends `EACH` datagrams in batches of changing size, and receives as many from any thread.
///
/// A thread receives as many datagrams as it has sent before it sends more. So a waiting thread always finds a
/// datagram, and the socket never holds more than `THREADS` batches, which fit the buffer.
#[test]
fn eight_threads_on_one_socket_by_messages_and_batches() {
    let socket = udp4();
    let part = |thread: usize| {
        let (to, mut turn) = (addr(&socket), thread);
        let (mut sent, mut got) = (0, Vec::new());
        let mut batches: Vec<_> = (1..=16).map(|slots| RecvBatch::new(slots, 16)).collect();
        while sent < EACH {
            let count = (1 + (sent * 7 + thread) % 16).min(EACH - sent);
            let data = (sent..sent + count).map(|i| payload(thread << 16 | i, 12));
            let data: Vec<_> = data.collect();
            let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(to, data)).collect();
            assert_eq!(socket.send_batch(&msgs).expect("loopback takes them"), count);
            sent += count;
            while got.len() < sent {
                let most = sent - got.len();
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
            }
        }
        got
    };
    let all: Vec<_> = thread::scope(|scope| {
        let part = &part;
        let threads = [(); THREADS].iter().enumerate();
        let threads: Vec<_> = threads.map(|(i, ())| scope.spawn(move || part(i))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no thread fails")).collect()
    });
    let sent = (0..THREADS).flat_map(|i| (0..EACH).map(move |k| payload(i << 16 | k, 12)));
    let sent: HashSet<_> = sent.collect();
    assert_eq!((all.len(), sent.len()), (THREADS * EACH, THREADS * EACH), "all payloads differ");
    assert!(all.into_iter().collect::<HashSet<_>>() == sent, "every datagram exactly once");
}
