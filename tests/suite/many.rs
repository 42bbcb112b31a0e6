//! Far more messages than one system call carries, all of them there at once.

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
use crate::common::{NET, choose_backend, smaller};

/// More than the 18,576 at which the steps of a receive once overflowed. Under valgrind and on other
/// architectures, where a million system calls take minutes, not many more.
fn many() -> usize {
    smaller(100_000, 20_000)
}

/// A pair of stream sockets: one byte is one message, so that a hundred thousand wait in a socket
/// buffer of ordinary size.
#[cfg(unix)]
fn streams() -> (UnixStream, UnixStream) {
    choose_backend();
    let (a, b) = UnixStream::pair().expect("a pair of Unix sockets");
    for socket in [&a, &b] {
        socket.set_read_timeout(Some(NET)).expect("a timeout");
        socket.set_write_timeout(Some(NET)).expect("a timeout");
    }
    (a, b)
}

/// Bytes of which each differs from those around it.
fn bytes() -> Vec<u8> {
    (0..many()).map(|i| (i % 251) as u8).collect()
}

#[cfg(unix)]
#[test]
fn d1_a_hundred_thousand_waiting_messages_are_received_by_one_call() {
    let (mut near, far) = streams();
    let sent = bytes();
    let mut memory = vec![vec![0xEE]; many()];
    let mut batch = RecvBatch::new(many(), 1);
    for offered in [many(), 18_576, 18_577, 20_000] {
        let sent = &sent[..offered];
        for by_arena in [false, true] {
            memory.iter_mut().for_each(|buffer| buffer[0] = 0xEE);
            near.write_all(sent).expect("there is space for all");
            let mut msgs = recv_msgs(&mut memory[..offered]);
            let received = match by_arena {
                true => MmsgBuf::new().recv(&far, &mut msgs),
                false => far.as_fd().recv_batch(&mut msgs),
            };
            assert_eq!(received.expect("all are there"), offered);
            assert!(msgs.iter().map(|msg| msg.data()[0]).eq(sent.iter().copied()));
        }
    }
    for _ in 0..2 {
        near.write_all(&sent).expect("there is space for all");
        assert_eq!(far.as_fd().recv_into(&mut batch).expect("all are there"), many());
        assert!(batch.iter().map(|datagram| datagram.data()[0]).eq(sent.iter().copied()));
    }
}

#[cfg(unix)]
#[test]
fn d1_a_receive_of_a_hundred_thousand_does_not_wait_for_them() {
    let (mut near, far) = streams();
    let mut memory = vec![vec![0xEE]; many()];
    let mut msgs = recv_msgs(&mut memory);
    for waiting in [1, 16, 17, 1_025] {
        let sent = &bytes()[..waiting];
        near.write_all(sent).expect("there is space for all");
        let received = far.as_fd().recv_batch(&mut msgs).expect("they are there");
        assert_eq!(received, waiting);
        assert!(msgs[..received].iter().map(|msg| msg.data()[0]).eq(sent.iter().copied()));
    }
    let nothing = far.as_fd().recv_batch_with(&mut msgs, RecvFlags::DONT_WAIT);
    assert!(crate::common::would_block(nothing));
}

#[cfg(unix)]
#[test]
fn d1_a_hundred_thousand_messages_are_sent_by_one_call() {
    let sent = bytes();
    let msgs: Vec<_> = sent.chunks(1).map(SendMsg::new).collect();
    let mut queue = SendQueue::new(64 << 20);
    msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
    for way in 0..6 {
        let (near, mut far) = streams();
        let reader = thread::spawn(move || {
            let mut came = vec![0; many()];
            far.read_exact(&mut came).map(|()| came)
        });
        let near = near.as_fd();
        let count = match way {
            0 => near.send_batch(&msgs),
            1 => near.send_iter(&msgs),
            2 => near.send_each(&msgs, |index, error| panic!("message {index}: {error}")),
            3 => near.flush(&mut queue),
            4 => Offload::new(near).expect("a socket").send_batch(&msgs),
            _ => MmsgBuf::new().send(&near, &msgs),
        };
        assert_eq!(count.expect("the reader makes space"), many(), "way {way}");
        let came = reader.join().expect("it only reads").expect("all of them come");
        assert!(came == sent, "way {way}");
    }
    assert!(queue.is_empty());
}

#[test]
fn d1_a_hundred_thousand_messages_are_sent_with_offload_by_one_call() {
    // The receiver drops most of them silently: it is UDP.
    let (near, far) = (udp4(), udp4());
    let near = Offload::new(near).expect("a UDP socket");
    let sent = bytes();
    let msgs: Vec<_> = sent.chunks(1).map(|data| SendMsg::to(addr(&far), data)).collect();
    assert_eq!(near.send_batch(&msgs).expect("loopback takes them"), many());
    assert_eq!(near.send_iter(&msgs).expect("loopback takes them"), many());
    assert_eq!(near.counters().sent, 2 * many() as u64);
}

/// Short payloads that do not lie side by side are copied together, as many as there is memory for; longer ones
/// take a buffer each, of which there are so many.
#[test]
fn d1_an_iterator_of_scattered_payloads_has_more_than_fits_one_step() {
    let (near, far) = (udp4(), udp4());
    let near = Offload::new(near).expect("a UDP socket");
    for len in [700, 900] {
        let memory = vec![7; 2 * len * 3_000];
        let msgs = memory.chunks(2 * len).map(|pair| SendMsg::to(addr(&far), &pair[..len]));
        // Of unknown length, so that the first step has the least memory. The receiver drops most of them silently.
        let msgs = msgs.filter(|msg| !msg.is_empty());
        let before = near.counters().sent_bytes;
        assert_eq!(near.send_iter(msgs).expect("loopback takes them"), 3_000);
        assert_eq!(near.counters().sent_bytes - before, (3_000 * len) as u64);
    }
}
