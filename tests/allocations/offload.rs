//! GSO batches: sent, received, and sent again as single datagrams.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use crate::common::{repetitions, skip, sockets};
use crate::counting::{Counts, counted};
use crate::seccomp::{SENDMMSG_IS_A_LOOP, SENDMSG, deny};
use crate::way::Way;
use crate::{use_backend, without_allocating};
use mmsg::offload::GsoStatus;
use mmsg::{Backend, BatchSocket, Ecn, Offload, RecvBatch, RecvMsg, SendMsg, SendQueue};

/// Messages in a batch.
const BATCH: usize = 60;
/// Longer than payloads that the crate copies together.
const LONG: usize = 300;
const SHORT: usize = 100;

/// Number of calls on each backend, direct and through `dyn`.
fn calls() -> usize {
    repetitions(1_000, 300)
}

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

/// Receives with both kinds of calls and, with `check`, checks all messages.
struct Receiver<'a> {
    msgs: Vec<RecvMsg<'a>>,
    batch: RecvBatch,
}

impl Receiver<'_> {
    fn take<S: BatchSocket + ?Sized>(&mut self, socket: &S, count: usize, into: bool, check: bool) {
        let mut taken = 0;
        while taken < count {
            let ((result, datagrams), counts) = counted(|| {
                if into {
                    let result = socket.recv_into(&mut self.batch);
                    // Reading the datagrams must not allocate either.
                    let whole = self.batch.iter().filter(|d| !d.truncated() && d.addr().is_some());
                    (result, whole.count())
                } else {
                    let result = socket.recv_batch(&mut self.msgs);
                    let new = *result.as_ref().unwrap_or(&0);
                    (
                        result,
                        self.msgs[..new].iter().map(|msg| msg.message().datagrams().count()).sum(),
                    )
                }
            });
            assert!(!check || counts == Counts::NONE, "a receive allocates, into: {into}");
            result.expect("it was sent");
            taken += datagrams;
        }
        assert_eq!(taken, count, "more came than were sent");
    }
}

/// Sends in every way, after a warm-up.
fn exchange<S: BatchSocket + ?Sized>(near: &S, far: &S, msgs: &[SendMsg<'_>]) {
    let mut memory = vec![vec![0; 65_535]; 8];
    let mut receiver = Receiver {
        msgs: memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect(),
        batch: RecvBatch::for_gro(8),
    };
    let mut queue = SendQueue::new(1 << 20);
    for way in Way::ALL {
        // Two rounds for each kind of receive, because a queue has two stages that alternate.
        for i in 0..calls() / 4 + 4 {
            let (sent, counts) = counted(|| way.send(near, msgs, &mut queue));
            assert!(i < 4 || counts == Counts::NONE, "{way:?} allocates");
            let sent = sent.expect("loopback takes it");
            assert_eq!(sent, msgs.len());
            receiver.take(far, sent, i % 2 == 0, i >= 4);
        }
    }
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
        exchange(&near, &far, &msgs);
        exchange::<dyn BatchSocket>(&near, &far, &msgs);
        let (sent, received) = (near.state().counters(), far.state().counters());
        assert_eq!(sent.sent, received.received);
        if near.state().gso() && far.state().gro() {
            assert!(sent.sent_batches > 0 && received.received_coalesced > 0);
        } else {
            skip("offload without allocations", "no offload on this kernel; the rest was tested");
        }
    });
}

#[test]
fn sending_again_without_gso_allocates_nothing() {
    let near = offload(sockets::udp4());
    if !near.state().gso() {
        return skip("GSO batches that are rejected", "no segmentation offload on this kernel");
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

#[test]
fn an_empty_socket_with_offload_allocates_nothing() {
    let far = offload(sockets::udp4());
    far.get_ref().set_nonblocking(true).expect("an open socket");
    let mut batch = RecvBatch::for_gro(8);
    on_both_backends(|| {
        assert!(crate::common::would_block(far.recv_into(&mut batch)));
        for _ in 0..calls() {
            let result = without_allocating("recv_into", || far.recv_into(&mut batch));
            assert!(crate::common::would_block(result));
        }
    });
}

/// The filter rejects `sendmsg`, which sends the only GSO batch of a call, but not `sendmmsg`, which sends its
/// datagrams.
#[test]
fn batches_that_are_rejected_allocate_nothing() {
    const NAME: &str = "batches_that_are_rejected_allocate_nothing";
    if SENDMMSG_IS_A_LOOP {
        return skip(
            NAME,
            "this C library's sendmmsg is a loop of sendmsg: the filter rejects both",
        );
    }
    let rejecting = |errno: i32, status: GsoStatus| {
        let _turn = use_backend(Backend::Mmsg);
        let near = offload(sockets::udp4());
        if !near.state().gso() {
            return skip(NAME, "no segmentation offload on this kernel");
        }
        if let Err(error) = deny(&[SENDMSG], errno) {
            return skip(NAME, error);
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
