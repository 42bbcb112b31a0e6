//! Far more waiting messages than one call moves.

use std::io::{Read, Write};
#[cfg(unix)]
use std::os::fd::AsFd;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::thread;

use mmsg::{
    BatchSocket, BatchSocketExt, MmsgBuf, Offload, RecvBatch, RecvFlags, SendMsg, SendQueue,
};

use crate::common::recv::recv_msgs;
use crate::common::sockets::{addr, udp4};
use crate::common::{TIME_LIMIT, choose_backend, no_failure, repetitions};

/// Fewer under valgrind and on other architectures, where a million system calls take minutes.
fn many() -> usize {
    repetitions(100_000, 20_000)
}

/// A pair of stream sockets: one byte is one message, so an ordinary socket buffer holds a hundred thousand.
#[cfg(unix)]
fn streams() -> (UnixStream, UnixStream) {
    choose_backend();
    let (a, b) = UnixStream::pair().expect("a pair of Unix sockets");
    for socket in [&a, &b] {
        socket.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
        socket.set_write_timeout(Some(TIME_LIMIT)).expect("a timeout");
    }
    (a, b)
}

/// Bytes that differ from their neighbours.
fn bytes() -> Vec<u8> {
    (0..many()).map(|i| (i % 251) as u8).collect()
}

/// Maximum of messages in one call.
const MAX_PER_CALL: usize = 1_024;

#[cfg(unix)]
#[test]
fn d1_of_a_hundred_thousand_waiting_messages_a_call_receives_1024() {
    let (mut near, far) = streams();
    let sent = bytes();
    let mut memory = vec![vec![0xEE]; many()];
    let mut msgs = recv_msgs(&mut memory);
    for by_arena in [false, true] {
        near.write_all(&sent).expect("there is space for all");
        for sent in sent.chunks(MAX_PER_CALL) {
            let received = match by_arena {
                true => MmsgBuf::new().recv(&far, &mut msgs),
                false => far.as_fd().recv_batch(&mut msgs),
            };
            assert_eq!(received.expect("all are there"), sent.len());
            assert!(msgs[..sent.len()].iter().map(|msg| msg.data()[0]).eq(sent.iter().copied()));
        }
        assert!(msgs[MAX_PER_CALL..].iter().all(|msg| msg.is_empty()));
    }
    let mut batch = RecvBatch::new(many(), 1);
    near.write_all(&sent).expect("there is space for all");
    for sent in sent.chunks(MAX_PER_CALL) {
        assert_eq!(far.as_fd().recv_into(&mut batch).expect("all are there"), sent.len());
        assert!(batch.iter().map(|datagram| datagram.data()[0]).eq(sent.iter().copied()));
    }
}

#[cfg(unix)]
#[test]
fn d1_a_receive_of_a_hundred_thousand_does_not_wait_for_them() {
    let (mut near, far) = streams();
    let mut memory = vec![vec![0xEE]; many()];
    let mut msgs = recv_msgs(&mut memory);
    for waiting in [1, 16, 17, MAX_PER_CALL] {
        let sent = &bytes()[..waiting];
        near.write_all(sent).expect("there is space for all");
        let received = far.as_fd().recv_batch(&mut msgs).expect("they are there");
        assert_eq!(received, waiting);
        assert!(msgs[..received].iter().map(|msg| msg.data()[0]).eq(sent.iter().copied()));
    }
    let nothing = MmsgBuf::new().recv_with(&far, &mut msgs, RecvFlags::DONT_WAIT);
    assert!(crate::common::would_block(nothing));
}

#[cfg(unix)]
#[test]
fn d1_of_a_hundred_thousand_messages_a_call_sends_1024_and_a_loop_all() {
    let sent = bytes();
    let msgs: Vec<_> = sent.chunks(1).map(SendMsg::new).collect();
    let mut queue = SendQueue::new(64 << 20);
    msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
    for way in 0..5 {
        let (near, mut far) = streams();
        let reader = thread::spawn(move || {
            let mut came = vec![0; many()];
            far.read_exact(&mut came).map(|()| came)
        });
        let near = near.as_fd();
        let offload = Offload::new(near).expect("a socket");
        match way {
            0 => assert_eq!(near.send_each(&msgs, no_failure).expect("space comes"), many()),
            1 => assert_eq!(near.flush(&mut queue).expect("space comes"), many()),
            _ => {
                let mut left = &msgs[..];
                while !left.is_empty() {
                    let count = match way {
                        2 => near.send_batch(left),
                        3 => offload.send_batch(left),
                        _ => MmsgBuf::new().send(&near, left),
                    };
                    assert_eq!(
                        count.expect("space comes"),
                        left.len().min(MAX_PER_CALL),
                        "way {way}"
                    );
                    left = &left[left.len().min(MAX_PER_CALL)..];
                }
            }
        }
        let came = reader.join().expect("it only reads").expect("all of them come");
        assert!(came == sent, "way {way}");
    }
    assert!(queue.is_empty());
}

#[test]
fn d1_a_hundred_thousand_messages_are_sent_with_offload() {
    // UDP: the receiver silently drops most of them.
    let (near, far) = (udp4(), udp4());
    let near = Offload::new(near).expect("a UDP socket");
    let sent = bytes();
    let msgs: Vec<_> = sent.chunks(1).map(|data| SendMsg::to(addr(&far), data)).collect();
    for msgs in msgs.chunks(MAX_PER_CALL) {
        assert_eq!(near.send_batch(msgs).expect("loopback takes them"), msgs.len());
    }
    assert_eq!(near.send_each(&msgs, no_failure).expect("loopback takes them"), many());
    assert_eq!(near.counters().sent, 2 * many() as u64);
}

/// Payloads that are not adjacent are copied together, up to the limit of a call.
#[test]
fn an_iterator_of_scattered_payloads_has_more_than_fits_one_call() {
    let (near, far) = (udp4(), udp4());
    let near = Offload::new(near).expect("a UDP socket");
    for len in [700, 9_000] {
        let memory = vec![7; 2 * len * 3_000];
        let msgs = memory.chunks(2 * len).map(|pair| SendMsg::to(addr(&far), &pair[..len]));
        // Filtered, so that its length is unknown. The receiver silently drops most messages.
        let msgs = msgs.filter(|msg| !msg.is_empty());
        let before = near.counters().sent_bytes;
        assert_eq!(near.send_each(msgs, no_failure).expect("loopback takes them"), 3_000);
        assert_eq!(near.counters().sent_bytes - before, (3_000 * len) as u64);
    }
}
