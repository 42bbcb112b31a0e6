//! The state of an `Offload` without its socket, and an `Offload`'s own descriptor.

use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use mmsg::error_queue::{Report, drain_errors};
use mmsg::offload::OffloadState;
use mmsg::{Ancillary, BatchSocket, Offload, RecvBatch, SendMeta, SendMsg};

use crate::common::recv::payloads;
use crate::common::sockets::{addr, connected, refusing, udp4, unix_pair};
use crate::common::{numbered, skip, would_block};

fn state_of(socket: &UdpSocket) -> OffloadState {
    Offload::builder().gro(false).build_state(socket).expect("a UDP socket")
}

#[test]
fn a_lent_socket_sends_gso_batches_by_any_descriptor() {
    let (near, far) = connected();
    let state = state_of(&near);
    let data = numbered(60, 100);
    let msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data)).collect();
    let copy = near.try_clone().expect("there are descriptors");
    for lent in [state.on(&near), state.on(&copy), state.on(&near.as_fd())] {
        let calls = state.counters().send_calls;
        assert_eq!(lent.send_batch(&msgs).expect("loopback takes it"), 60);
        assert_eq!(payloads(&far, 60), data);
        assert_eq!(lent.gso(), state.gso());
        assert!(!state.gso() || state.counters().send_calls == calls + 1);
    }
    assert_eq!(state.counters().sent, 180);
    assert_eq!(state.max_segments(), if state.gso() { 64 } else { 1 });
    assert!(!state.on(&near).set_gso(false));
    assert_eq!((state.gso(), state.max_segments()), (false, 1));
    assert_eq!(state.on(&near).send_batch(&msgs[..9]).expect("loopback takes it"), 9);
    assert_eq!(payloads(&far, 9), data[..9]);
}

#[test]
fn threads_share_a_state_and_lend_the_socket() {
    const THREADS: usize = 4;
    let (near, far) = connected();
    let state = state_of(&near);
    let data = numbered(64, 20);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data)).collect();
                assert_eq!(state.on(&near).send_batch(&msgs).expect("loopback takes it"), 64);
            });
        }
    });
    let mut got = payloads(&far, 64 * THREADS);
    got.sort();
    assert!(got.chunks(THREADS).zip(&data).all(|(same, data)| same.iter().all(|got| got == data)));
    assert_eq!(state.counters().sent, 64 * THREADS as u64);
}

/// A Unix socket takes the control message of GSO and ignores it.
#[test]
fn d17_on_another_socket_no_message_is_joined_with_the_next() {
    let own = udp4();
    let state = state_of(&own);
    let (unix, far) = unix_pair();
    let udp = udp4();
    let msgs = [SendMsg::new(b"one"), SendMsg::new(b"two")];
    assert!(!state.on(&unix).gso());
    assert_eq!(state.on(&unix).send_batch(&msgs).expect("it is taken"), 2);
    for expected in [b"one", b"two"] {
        let mut data = [0; 8];
        let len = far.recv(&mut data).expect("it is sent");
        assert_eq!(&data[..len], expected);
    }
    let gso = state.gso();
    for on in [true, false] {
        assert!(!state.on(&unix).set_gso(on), "it is another socket");
        assert_eq!(state.gso(), gso);
    }
    // Nor is one of the same type known.
    let msgs = msgs.map(|msg| SendMsg::to(addr(&udp), msg.slices().next().expect("one buffer")));
    assert_eq!(state.on(&udp).send_batch(&msgs).expect("it is taken"), 2);
    assert_eq!(payloads(&udp, 2), [b"one", b"two"]);
    assert_eq!(state.counters().sent_batches, 0);
}

/// A message that is half sent on one socket begins anew on another.
#[test]
fn d23_half_sent_messages_are_those_of_one_socket() {
    let name = "d23_half_sent_messages_are_those_of_one_socket";
    if !cfg!(target_os = "linux") {
        return skip(name, "sockets have no cookies");
    }
    let meta = SendMeta::new().with_segment_size(4);
    let data = numbered(1, 4_000);
    let msg = [SendMsg::new(&data[0]).with_meta(&meta)];
    let ((full, full_end), (other, other_end)) = (unix_pair(), unix_pair());
    full.set_nonblocking(true).expect("it is a flag");
    let state = OffloadState::new(&full).expect("a Unix socket");
    assert!(would_block(state.on(&full).send_batch(&msg)));
    let begun = state.counters().sent as usize;
    assert!((1..1_000).contains(&begun), "{begun} left");

    let receiver = thread::spawn(move || {
        (0..1_000).map(|_| other_end.recv(&mut [0; 8]).expect("it is sent")).sum::<usize>()
    });
    assert_eq!(state.on(&other).send_batch(&msg).expect("it is taken"), 1);
    assert_eq!(receiver.join().expect("it does not panic"), 4_000);

    // And goes on where it was on the first.
    let mut segments = data[0].chunks(4);
    let mut receive = |count| {
        for _ in 0..count {
            let mut buffer = [0; 8];
            let len = full_end.recv(&mut buffer).expect("it is sent");
            assert_eq!(Some(&buffer[..len]), segments.next());
        }
    };
    receive(begun);
    let mut sent = begun;
    loop {
        match state.on(&full).send_batch(&msg) {
            Ok(count) => break assert_eq!(count, 1),
            result => assert!(would_block(result)),
        }
        let all = state.counters().sent as usize - 1_000;
        receive(all - sent);
        sent = all;
    }
    receive(1_000 - sent);
    assert!(segments.next().is_none());
}

#[test]
fn an_offload_lends_its_descriptor() {
    let (near, peer) = (udp4(), refusing());
    let nobody = addr(&peer);
    let near = Offload::new(Arc::new(near)).expect("a UDP socket");
    let asked = Ancillary::ERRORS;
    assert_eq!(asked.enable(&near).expect("a UDP socket"), asked);
    near.send_batch(&[SendMsg::to(nobody, b"lost")]).expect("loopback takes it");
    let mut reports = [Report::EMPTY; 4];
    while drain_errors(&near, &mut reports).expect("Linux has an error queue") == 0 {
        thread::yield_now();
    }
    assert_eq!(reports[0].dest, Some(nobody));
    let copy: OwnedFd = near.as_fd().try_clone_to_owned().expect("there are descriptors");
    assert_eq!(near.lend().as_fd().try_clone_to_owned().map(drop).ok(), Some(()));
    copy.send_batch(&[SendMsg::to(addr(near.get_ref()), b"to itself")]).expect("it is taken");
    let mut batch = RecvBatch::for_gro(2);
    near.recv_into(&mut batch).expect("it is sent");
    assert_eq!(batch.iter().next().expect("one").data(), b"to itself");
}
