//! Plain sockets.

use std::hint::black_box;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::UdpSocket;
#[cfg(unix)]
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use crate::common::{BACKENDS, is_emulated, sockets};
use crate::counting::{Counts, counted};
use crate::way::{calls, exchange};
use crate::{use_backend, without_allocating};
use mmsg::control::ControlBuf;
use mmsg::{
    Ancillary, BatchSocket, BatchSocketExt, Flags, MmsgBuf, Offload, RecvBatch, RecvMsg, SendMsg,
};

const PAYLOAD: [u8; 15] = *b"fifteen bytes!!";

/// The largest batch size.
fn max_batch() -> usize {
    if is_emulated() { 128 } else { 512 }
}

/// Batch sizes up to `max` and down again, then small ones for a while.
fn sizes(max: usize) -> impl Iterator<Item = usize> {
    let doubling = || (0..=9).map(|i| 1 << i).filter(move |size| *size <= max);
    let large = doubling().chain(doubling().rev().skip(1));
    let small = [2, 3, 2, 1].into_iter().cycle().take(980);
    large.chain(small).collect::<Vec<_>>().into_iter().cycle()
}

/// On both backends, direct and through `&dyn BatchSocket`.
fn exchange_on(near: &UdpSocket, far: &UdpSocket) {
    let enough = sockets::has_space_for(far, max_batch());
    let max = if enough { max_batch() } else { 128 };
    let (msgs, sizes) = (vec![SendMsg::to(sockets::addr(far), &PAYLOAD); max], sizes(max));
    let sizes: Vec<_> = sizes.take(calls()).collect();
    for backend in BACKENDS {
        let _turn = use_backend(*backend);
        exchange(near, far, &msgs, &sizes, (max, 16));
        exchange::<dyn BatchSocket>(near, far, &msgs, &sizes, (max, 16));
    }
}

#[test]
fn calls_with_ipv4_addresses_allocate_nothing() {
    exchange_on(&sockets::udp4(), &sockets::udp4());
}

#[test]
fn an_empty_socket_allocates_nothing() {
    let socket = sockets::udp4();
    socket.set_nonblocking(true).expect("an open socket");
    let mut memory = [[0; 16]; 8];
    let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
    let mut batch = RecvBatch::new(8, 16);
    let offload = Offload::builder().gro(false).build(&socket).expect("a UDP socket");
    for backend in BACKENDS {
        let _turn = use_backend(*backend);
        for socket in [&socket as &dyn BatchSocket, &&socket, &offload] {
            assert!(crate::common::would_block(socket.recv_batch(&mut msgs)));
            for _ in 0..calls() {
                let result = without_allocating("recv_batch", || socket.recv_batch(&mut msgs));
                assert!(crate::common::would_block(result));
                let result = without_allocating("recv_into", || socket.recv_into(&mut batch));
                assert!(crate::common::would_block(result));
                let result = without_allocating("recv_more", || socket.recv_more(&mut batch));
                assert!(crate::common::would_block(result));
            }
        }
        for i in 0..calls() {
            batch.clear();
            (0..i % 9).for_each(|_| drop(socket.send_to(&PAYLOAD, sockets::addr(&socket))));
            sockets::settle();
            let until = Instant::now();
            let result =
                without_allocating("recv_more_until", || socket.recv_more_until(&mut batch, until));
            assert_eq!(result.expect("no error"), i % 9);
        }
    }
}

#[cfg(unix)]
#[test]
fn a_full_socket_allocates_nothing() {
    use crate::way::Way;
    use mmsg::SendQueue;

    let (near, _far) = UnixDatagram::pair().expect("a pair");
    near.set_nonblocking(true).expect("an open socket");
    while near.send(&PAYLOAD).is_ok() {}
    let msgs = [SendMsg::new(&PAYLOAD); 8];
    for backend in BACKENDS {
        let _turn = use_backend(*backend);
        // Space for eight messages, so the ninth push is rejected. It must not allocate either.
        let mut queue = SendQueue::new(8 * (PAYLOAD.len() + SendQueue::OVERHEAD));
        msgs.iter().for_each(|msg| queue.push(msg).expect("space for eight"));
        for way in [Way::Batch, Way::Each] {
            assert!(crate::common::would_block(way.send(&near, &msgs, &mut queue)));
        }
        for _ in 0..calls() {
            let result = without_allocating("send_batch", || near.send_batch(&msgs));
            assert!(crate::common::would_block(result));
            let result = without_allocating("send_each", || near.send_each(msgs, |_, _| {}));
            assert!(crate::common::would_block(result));
            let result = without_allocating("flush", || near.flush(&mut queue));
            assert!(crate::common::would_block(result));
            assert!(without_allocating("push", || queue.push(&msgs[0])).is_err());
        }
    }
}

#[test]
fn connection_refused_allocates_nothing() {
    let (near, refusing) = (sockets::udp4(), sockets::refusing());
    near.connect(sockets::addr(&refusing)).expect("connecting only stores the peer");
    let msgs = [SendMsg::new(&PAYLOAD); 4];
    for backend in BACKENDS {
        let _turn = use_backend(*backend);
        for _ in 0..10 {
            let _ = near.send_batch(&msgs);
        }
        let (mut refused, started) = (0, Instant::now());
        // Answers may come late, and only so many per second.
        let is_early = || started.elapsed() < crate::common::TIME_LIMIT;
        for i in 0.. {
            if i >= calls() && (refused > 0 || !is_early()) {
                break;
            }
            let result = without_allocating("send_batch", || near.send_batch(&msgs[..1 + i % 4]));
            refused += usize::from(result.is_err());
        }
        assert!(refused > 0, "nothing was refused");
    }
}

#[test]
fn the_counter_sees_an_allocation() {
    let (_, counts) = counted(|| black_box(Vec::<u8>::with_capacity(100)));
    assert_eq!(counts, Counts { allocations: 1, bytes: 100 });
    // The first call of a thread grows its arena.
    let socket = sockets::udp4();
    let msgs = vec![SendMsg::to(sockets::addr(&socket), &PAYLOAD); 64];
    let (sent, counts) = counted(|| socket.send_batch(&msgs));
    assert_eq!(sent.expect("loopback takes it"), 64);
    assert!(counts.allocations > 0);
}

#[test]
fn recv_slices_and_changes_in_place_allocate_nothing() {
    let (near, far) = (sockets::udp4(), sockets::udp4());
    let _ = Ancillary::TOS.enable(&far).expect("a UDP socket");
    let msgs = [SendMsg::to(sockets::addr(&far), &PAYLOAD); 64];
    let mut memory = [[0; 16]; 64];
    let mut buffers = memory.each_mut().map(|buffer| IoSliceMut::new(buffer));
    let mut batch = RecvBatch::new(64, 16);
    for backend in BACKENDS {
        let _turn = use_backend(*backend);
        for (i, size) in sizes(64).take(calls() / 10).enumerate() {
            assert_eq!(near.send_batch(&msgs[..size]).expect("loopback takes it"), size);
            let mut taken = 0;
            while taken < size {
                let (result, counts) = counted(|| {
                    if i % 2 == 0 {
                        return far.recv_slices(&mut buffers, &mut |_, message| {
                            let ecn = message.meta().ecn();
                            assert!(message.addr().is_some() && ecn.is_some());
                        });
                    }
                    let result = far.recv_into(&mut batch);
                    batch.iter_mut().for_each(|mut datagram| datagram.data_mut().reverse());
                    result
                });
                // Only the first of the largest batches may allocate.
                assert!(i < 40 || counts == Counts::NONE, "a receive of {size} allocates");
                taken += result.expect("they were sent");
            }
        }
    }
}

#[test]
fn uninitialised_and_several_buffers_raw_control_and_flags_allocate_nothing() {
    let (near, far) = (sockets::udp4(), sockets::udp4());
    let _ = Ancillary::TOS.enable(&far).expect("a UDP socket");
    let sends = [SendMsg::to(sockets::addr(&far), &PAYLOAD); 2];
    let (mut arena, mut control) = (MmsgBuf::new(), ControlBuf::new());
    let (mut uninit, mut one, mut other) = ([MaybeUninit::uninit(); 16], [0; 3], [0; 13]);
    let mut parts = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
    let mut msgs =
        [RecvMsg::uninit(&mut uninit).with_control(&mut control), RecvMsg::scatter(&mut parts)];
    for backend in BACKENDS {
        let _turn = use_backend(*backend);
        for i in 0..calls() {
            let ((), counts) = counted(|| {
                let sent = arena.send(sockets::borrow(&near), &sends, Flags::DONT_WAIT);
                assert_eq!(sent.expect("loopback takes it"), sends.len());
                for (msg, flags) in [(0, Flags::PEEK), (0, Flags::NONE), (1, Flags::DONT_WAIT)] {
                    let msg = &mut msgs[msg..=msg];
                    assert!(sockets::wait_readable(sockets::borrow(&far)), "it was sent");
                    assert_eq!(
                        arena.recv(sockets::borrow(&far), msg, flags).expect("it was sent"),
                        1
                    );
                    assert_eq!(msg[0].slices().map(<[_]>::len).sum::<usize>(), PAYLOAD.len());
                }
                assert!(msgs[0].message().control_messages().all(|c| !c.data.is_empty()));
            });
            assert!(i == 0 || counts == Counts::NONE, "call {i} allocates");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_to_a_unix_socket_allocates_nothing() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net;

    use crate::common::no_failure;

    let name = |who| {
        let name = format!("mmsg-free-{who}-{}", std::process::id());
        UnixDatagram::bind_addr(&net::SocketAddr::from_abstract_name(name).expect("it is short"))
            .expect("a name of our own")
    };
    let (server, client) = (name("server"), name("client"));
    client.connect_addr(&server.local_addr().expect("it has one")).expect("it is there");
    let mut batch = RecvBatch::new(4, 64);
    for backend in BACKENDS {
        let _turn = use_backend(*backend);
        for round in 0..calls() {
            let mut serve = || {
                (0..4).for_each(|_| assert_eq!(client.send(b"question").expect("taken"), 8));
                assert_eq!(server.recv_into(&mut batch).expect("four are there"), 4);
                let answers = batch.iter().filter_map(|d| d.reply(d.data()));
                assert_eq!(server.send_each(answers, no_failure).expect("they are taken"), 4);
                (0..4).for_each(|_| assert_eq!(client.recv(&mut [0; 16]).expect("sent"), 8));
            };
            if round < 1 { serve() } else { without_allocating("answers", serve) }
        }
    }
}
