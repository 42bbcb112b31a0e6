//! GSO batches: sent, received, and sent again as single datagrams.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use crate::common::{skip, sockets};
use crate::seccomp::{SENDMMSG_IS_A_LOOP, SENDMSG, deny};
use crate::way::{calls, exchange};
use crate::{use_backend, without_allocating};
use mmsg::offload::GsoStatus;
use mmsg::{Backend, BatchSocket, Ecn, Offload, RecvBatch, SendMsg};

/// Messages in a batch.
const BATCH: usize = 60;
/// Longer than payloads that the crate copies together.
const LONG: usize = 300;
const SHORT: usize = 100;

/// Runs of long and short messages, with and without options, and a few single ones: several GSO batches.
fn messages<'a>(to: SocketAddr, payload: &'a [u8], parts: &'a [IoSlice<'a>]) -> Vec<SendMsg<'a>> {
    let one = |i: usize| {
        // Apart in memory, so that neighbours are not joined.
        let start = i % 7;
        match i / 6 % 5 {
            0 => SendMsg::to(to, &payload[start..][..LONG]),
            1 => SendMsg::to(to, &payload[start..][..SHORT]),
            2 => SendMsg::to(to, &payload[start..][..SHORT]).with_ecn(Ecn::Ect0),
            3 => SendMsg::gather(parts).with_dest(to),
            _ if i % 6 < 4 => SendMsg::to(to, &payload[i * SHORT..][..SHORT]),
            _ => SendMsg::to(to, &[]),
        }
    };
    (0..BATCH).map(one).collect()
}

fn offload(socket: UdpSocket) -> Offload<UdpSocket> {
    Offload::new(socket).expect("a UDP socket")
}

/// Runs a test on each backend.
fn on_both_backends(mut test: impl FnMut()) {
    for backend in [Backend::Mmsg, Backend::Msg] {
        let _turn = use_backend(backend);
        test();
    }
}

#[test]
fn calls_through_offload_allocate_nothing() {
    let payload = vec![7; BATCH * SHORT];
    on_both_backends(|| {
        let (near, far) = (offload(sockets::udp4()), offload(sockets::udp4()));
        let parts = [IoSlice::new(&payload[..20]), IoSlice::new(&payload[30..LONG])];
        let msgs = messages(sockets::addr(far.get_ref()), &payload, &parts);
        let sizes = vec![BATCH; calls() / 4];
        exchange(&near, &far, &msgs, &sizes, (8, 65_535));
        exchange::<dyn BatchSocket>(&near, &far, &msgs, &sizes, (8, 65_535));
        let (sent, received) = (near.state().counters(), far.state().counters());
        assert_eq!(sent.sent, received.received);
        if near.state().gso() && far.state().gro() {
            assert!(sent.sent_batches > 0 && received.received_coalesced > 0);
        } else {
            skip("no offload on this kernel; the rest was tested");
        }
    });
}

#[test]
fn sending_again_without_gso_allocates_nothing() {
    let near = offload(sockets::udp4());
    if !near.state().gso() {
        return skip("no segmentation offload on this kernel");
    }
    let far = offload(sockets::udp4());
    let payload = vec![7; LONG];
    near.state().set_gso(false);
    let parts = [IoSlice::new(&payload[..90]), IoSlice::new(&payload[100..210])];
    let to = sockets::addr(far.get_ref());
    let msgs = [SendMsg::to(to, &payload[..200]), SendMsg::gather(&parts).with_dest(to)];
    let msgs = msgs.map(|msg| msg.with_segment_size(4));
    let mut batch = RecvBatch::for_gro(32);
    on_both_backends(|| {
        for i in 0..calls() / 50 {
            let send = || near.send_batch(&msgs[i % 2..][..1]);
            // The first two calls grow the arena; the second one gathers its buffers there.
            let sent = if i < 2 {
                send()
            } else {
                without_allocating("a send segmented in user space", send)
            };
            assert_eq!(sent.expect("loopback takes it"), 1);
            let mut received = 0;
            while received < 50 {
                far.recv_into(&mut batch).expect("it was sent");
                received += batch.iter().count();
            }
        }
    });
    assert_eq!(near.state().counters().sent_batches, 0);
}

/// The filter rejects `sendmsg`, which sends the only GSO batch of a call, but not `sendmmsg`, which sends its
/// datagrams.
#[test]
fn batches_that_are_rejected_allocate_nothing() {
    if SENDMMSG_IS_A_LOOP {
        return skip("this C library's sendmmsg is a loop of sendmsg: the filter rejects both");
    }
    let rejecting = |errno: i32, status: GsoStatus| {
        let _turn = use_backend(Backend::Mmsg);
        let near = offload(sockets::udp4());
        if !near.state().gso() {
            return skip("no segmentation offload on this kernel");
        }
        if let Err(error) = deny(&[SENDMSG], errno) {
            return skip(error);
        }
        let far = [2, 3, 4]
            .map(|host| UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).expect("loopback"));
        let (payload, mut batch) = ([7; SHORT], RecvBatch::new(8, SHORT));
        for i in 0..calls() {
            let far = &far[i % 3];
            let msgs = [SendMsg::to(sockets::addr(far), &payload); 4];
            let send = || near.send_batch(&msgs);
            let sent =
                if i == 0 { send() } else { without_allocating("a send without batches", send) };
            assert_eq!(sent.expect("loopback takes it"), 4);
            let mut received = 0;
            while received < 4 {
                received += far.recv_into(&mut batch).expect("it was sent");
            }
        }
        assert_eq!((near.state().gso_status(), near.state().counters().sent_batches), (status, 0));
    };
    // A filter cannot be removed, so each needs a thread of its own.
    for (errno, status) in [(libc::EIO, GsoStatus::Rejected), (libc::EPERM, GsoStatus::On)] {
        std::thread::scope(|scope| {
            scope.spawn(|| rejecting(errno, status)).join().expect("the test passes");
        });
    }
}
