//! `OffloadState`, which borrows a socket for each call, and the descriptor of an `Offload`.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use mmsg::error_queue::{Report, drain_errors};
use mmsg::offload::OffloadState;
use mmsg::{Ancillary, BatchSocket, Offload, RecvBatch, SendMeta, SendMsg};

use crate::common::recv::payloads;
use crate::common::sockets::{addr, connected, dual_stack, refusing, udp4, udp6};
use crate::common::{numbered, skip};

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

#[cfg(target_os = "linux")]
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
    assert_eq!(near.as_fd().as_raw_fd(), near.get_ref().as_raw_fd());
    assert_eq!(
        near.state().on(near.get_ref()).as_fd().try_clone_to_owned().map(drop).ok(),
        Some(())
    );
    copy.send_batch(&[SendMsg::to(addr(near.get_ref()), b"to itself")]).expect("it is taken");
    let mut batch = RecvBatch::for_gro(2);
    near.recv_into(&mut batch).expect("it is sent");
    assert_eq!(batch.iter().next().expect("one").data(), b"to itself");
}

/// The kernel ignores the control messages of the other family, but a source must be of the peer's.
#[cfg(target_os = "linux")]
#[test]
fn a_send_on_a_connected_socket_does_not_ask_for_its_peer() {
    use crate::seccomp::{GETPEERNAME, deny};

    let (v4, mapped) = (udp4(), udp4());
    let to_mapped = SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), addr(&mapped).port()));
    let mut pairs = vec![(udp4(), addr(&v4), v4)];
    pairs.extend(dual_stack().map(|from| (from, to_mapped, mapped)));
    pairs.extend(udp6().zip(udp6()).map(|(from, to)| (from, addr(&to), to)));
    let meta = SendMeta::new().with_tos(0x2e).with_hop_limit(33);
    for (near, to, far) in pairs {
        (Ancillary::TOS | Ancillary::HOP_LIMIT).require(&far).expect("Linux has them");
        near.connect(to).expect("connecting only stores the peer");
        let near = Offload::new(near).expect("a UDP socket");
        let send = |socket: &(dyn BatchSocket + Sync)| {
            let sent = socket.send_batch(&[SendMsg::new(b"data").with_meta(&meta)]);
            assert_eq!(sent.expect("loopback takes it"), 1, "{to}");
            let mut batch = RecvBatch::new(1, 64);
            far.recv_into(&mut batch).expect("it was sent");
            let meta = batch.messages().next().expect("one").meta();
            assert_eq!((meta.tos, meta.hop_limit), (Some(0x2e), Some(33)), "{to}");
        };
        let denied = || match deny(&[GETPEERNAME], libc::ENOTCONN) {
            Ok(()) => {
                [near.get_ref() as &(dyn BatchSocket + Sync), &near].into_iter().for_each(send)
            }
            Err(error) => skip(error),
        };
        thread::scope(|scope| scope.spawn(denied).join().expect("the test passes"));
    }
}
