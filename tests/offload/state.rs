//! `OffloadState`, which borrows a socket for each call, and the descriptor of an `Offload`.

use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use mmsg::error_queue::{Report, drain_errors};
use mmsg::offload::OffloadState;
use mmsg::{Ancillary, BatchSocket, Offload, RecvBatch, SendMsg};

use crate::common::numbered;
use crate::common::recv::payloads;
use crate::common::sockets::{addr, connected, refusing, udp4};

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
    let fd = near.as_fd();
    let lent: [&dyn BatchSocket; 3] = [&state.on(&near), &state.on(&copy), &state.on(&fd)];
    for lent in lent {
        let calls = state.counters().send_calls;
        assert_eq!(lent.send_batch(&msgs).expect("loopback takes it"), 60);
        assert_eq!(payloads(&far, 60), data);
        assert!(!state.gso() || state.counters().send_calls == calls + 1);
    }
    assert_eq!(state.counters().sent, 180);
    assert_eq!(state.max_segments(), if state.gso() { 64 } else { 1 });
    assert!(!state.set_gso(false));
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
    assert_eq!(near.on(near.get_ref()).as_fd().try_clone_to_owned().map(drop).ok(), Some(()));
    copy.send_batch(&[SendMsg::to(addr(near.get_ref()), b"to itself")]).expect("it is taken");
    let mut batch = RecvBatch::for_gro(2);
    near.recv_into(&mut batch).expect("it is sent");
    assert_eq!(batch.iter().next().expect("one").data(), b"to itself");
}
