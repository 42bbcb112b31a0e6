//! Loops that receive until a batch is drained.

use std::io::{
    self,
    ErrorKind::{Interrupted, WouldBlock},
    IoSliceMut,
};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use mmsg::{BatchSocket, Offload, RecvBatch, RecvMeta, RecvMsg};

use crate::common::recv::{memory, recv_msgs};
use crate::common::sockets::{addr, refusing, udp4};
use crate::common::{ReceivesBy, TIME_LIMIT};

#[test]
fn a_batch_is_drained_after_a_receive_that_found_no_more() {
    let socket = udp4();
    socket.set_nonblocking(true).expect("an open socket");
    let send = |n| {
        for _ in 0..n {
            socket.send_to(b"datagram", addr(&socket)).expect("loopback takes it");
        }
    };
    let offload = Offload::builder().gro(false).build(&socket).expect("a UDP socket");
    let double = ReceivesBy(|msgs: &mut [RecvMsg<'_>]| {
        msgs[0].fill(b"datagram", None, RecvMeta::default());
        Ok(1)
    });
    let ways: [&dyn BatchSocket; 2] = [&socket, &offload];
    for way in ways {
        let mut batch = RecvBatch::new(4, 16);
        let mut receive = |socket: &dyn BatchSocket| {
            let count = socket.recv_into(&mut batch).ok();
            (count, batch.drained())
        };
        send(3);
        assert_eq!(receive(way), (Some(3), true));
        assert_eq!(receive(way), (None, false), "an error");
        send(5);
        assert_eq!(receive(way), (Some(4), false), "all slots are full");
        assert_eq!(receive(way), (Some(1), true));
        assert_eq!(receive(&double), (Some(1), false), "a double may have more");
        send(1);
        assert_eq!(receive(way), (Some(1), true));
        assert!(batch.push(None, b"datagram", RecvMeta::default()) && !batch.drained());
        send(1);
        assert_eq!((way.recv_more(&mut batch).expect("one is there"), batch.drained()), (1, true));
        assert!(way.recv_more(&mut batch).is_err() && !batch.drained());
        send(1);
        assert_eq!((way.recv_more(&mut batch).expect("one is there"), batch.drained()), (1, false));
        batch.clear();
        assert!(!batch.drained());
    }
}

/// An error that arrives within a receive ends it with a count, as an empty queue does. The kernel must then report the
/// socket again.
#[test]
fn an_edge_triggered_loop_that_stops_when_drained_loses_nothing_to_icmp_errors() {
    const SLOTS: usize = 64;
    let mut batch = RecvBatch::new(SLOTS, 16);
    check_stops(|socket| Ok((socket.recv_into(&mut batch)?, batch.drained())));
    let mut memory = memory(SLOTS, 16);
    check_stops(|socket| {
        let count = socket.recv_batch(&mut recv_msgs(&mut memory))?;
        Ok((count, count < SLOTS))
    });
    check_stops(|socket| {
        let mut buffers: Vec<_> = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let count = socket.recv_slices(&mut buffers, &mut |_, _| {})?;
        Ok((count, count < SLOTS))
    });
}

/// `receive` returns a count and whether the socket was drained.
fn check_stops(mut receive: impl FnMut(&UdpSocket) -> io::Result<(usize, bool)>) {
    const DATAGRAMS: usize = 10_000;
    let (socket, peer) = (udp4(), refusing());
    socket.connect(addr(&peer)).expect("connecting only stores the peer");
    socket.set_nonblocking(true).expect("an open socket");
    let (mut poll, mut events) = (Poll::new().expect("epoll"), Events::with_capacity(8));
    let readable = Interest::READABLE;
    poll.registry()
        .register(&mut SourceFd(&socket.as_raw_fd()), Token(0), readable)
        .expect("a new socket");

    let (received, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (mut stops, mut errors) = (0, 0);
    thread::scope(|scope| {
        // Each datagram to the peer is answered by an error, which the next call on the socket returns.
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let _ = socket.send(b"refused");
            }
        });
        scope.spawn(|| {
            let to = addr(&socket);
            for sent in 0..DATAGRAMS {
                peer.send_to(b"datagram", to).expect("loopback takes it");
                while sent >= received.load(Ordering::Relaxed) + 50
                    && !ended.load(Ordering::Relaxed)
                {
                    thread::yield_now();
                }
            }
        });
        while received.load(Ordering::Relaxed) < DATAGRAMS {
            match poll.poll(&mut events, Some(TIME_LIMIT)) {
                Err(error) if error.kind() == Interrupted => continue,
                waited => waited.expect("epoll waits"),
            }
            if events.is_empty() {
                break;
            }
            loop {
                match receive(&socket) {
                    Ok((count, drained)) => {
                        received.fetch_add(count, Ordering::Relaxed);
                        if drained {
                            stops += 1;
                            break;
                        }
                    }
                    Err(error) if error.kind() == WouldBlock => break,
                    Err(_) => errors += 1,
                }
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(received.into_inner(), DATAGRAMS);
    assert!(stops > 0 && errors > 0, "{stops} stops, {errors} errors");
}
