//! Sockets with all metadata and options enabled.

use std::net::UdpSocket;

use crate::common::no_failure;
use crate::counting::{Counts, counted};
use crate::kit::{addr, at, dual_stack, udp4, udp6};
use mmsg::control::ControlBuf;
use mmsg::error_queue::{Event, Report, drain_errors};
use mmsg::{
    Ancillary, BatchSocket, BatchSocketExt, Ecn, RecvBatch, RecvMsg, SendMeta, SendMsg, SendQueue,
};

/// Makes a call and, once `warm`, fails if it allocates.
#[track_caller]
fn without_allocating<R>(warm: bool, what: &str, call: impl FnOnce() -> R) -> R {
    let (result, counts) = counted(call);
    assert!(!warm || counts == Counts::NONE, "{what} allocates");
    result
}

const BATCH: usize = 16;
const ROUNDS: usize = 100;

fn everything() -> Ancillary {
    Ancillary::DEST
        | Ancillary::TOS
        | Ancillary::HOP_LIMIT
        | Ancillary::TIMESTAMP
        | Ancillary::HARDWARE_TIMESTAMP
        | Ancillary::GRO
        | Ancillary::DROPPED
        | Ancillary::ORIGINAL_DEST
        | Ancillary::ERRORS
        | Ancillary::SEND_TIMESTAMP
}

/// Sends datagrams and GSO batches with all settings from `near` to `far`, in every way.
fn exchange(near: &UdpSocket, far: &UdpSocket, to: std::net::SocketAddr) {
    for socket in [near, far] {
        let _ = everything().enable(socket).expect("it is a socket");
    }
    let source = if to.is_ipv4() { [127, 0, 0, 1].into() } else { addr(near).ip() };
    let meta = SendMeta::new().with_hop_limit(33).with_source(source);
    let mut control = ControlBuf::new();
    control.push(77, 77, b"unknown").expect("there is space");
    let plain = SendMsg::to(to, &[7; 25]).with_meta(&meta);
    let plain = plain.with_ecn(Ecn::Ect0).with_segment_size(10);
    let msgs = [[plain, plain.with_control(&control)]; BATCH / 2];
    let msgs = msgs.as_flattened();
    let mut memory = vec![[0; 64]; BATCH];
    let mut recv_msgs: Vec<_> = memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect();
    let mut batch = RecvBatch::new(BATCH, 64);
    let mut queue = SendQueue::new(1 << 16);
    let mut reports = [Report::EMPTY; 2 * BATCH];
    for round in 0..ROUNDS {
        let warm = round >= 8;
        let sent = match round % 3 {
            0 => without_allocating(warm, "send_batch", || near.send_batch(msgs)),
            1 => without_allocating(warm, "send_each", || near.send_each(msgs, no_failure)),
            _ => without_allocating(warm, "push and flush", || {
                // A queue takes no control messages.
                (0..BATCH).for_each(|_| queue.push(&plain).expect("there is space"));
                near.flush(&mut queue)
            }),
        };
        assert_eq!(sent.expect("they are taken"), BATCH);
        let mut taken = 0;
        let mut check = |datagrams: usize, meta: &mmsg::RecvMeta| {
            assert_eq!((datagrams, meta.segment_size, meta.ecn()), (3, Some(10), Some(Ecn::Ect0)));
            assert!(meta.dest.is_some() && meta.timestamp.is_some());
            taken += 1;
        };
        match round % 2 {
            0 => without_allocating(warm, "recv_into", || {
                assert_eq!(far.recv_into(&mut batch).expect("they are there"), BATCH);
                batch.messages().for_each(|msg| check(msg.datagrams().count(), msg.meta()));
            }),
            _ => without_allocating(warm, "recv_batch", || {
                assert_eq!(far.recv_batch(&mut recv_msgs).expect("they are there"), BATCH);
                recv_msgs
                    .iter()
                    .for_each(|msg| check(msg.message().datagrams().count(), msg.message().meta()));
            }),
        }
        assert_eq!(taken, BATCH);
        let stamps = without_allocating(warm, "drain_errors", || drain_errors(near, &mut reports));
        let stamps = &reports[..stamps.expect("it is a socket")];
        assert!(!stamps.is_empty());
        assert!(stamps.iter().all(|report| matches!(report.event, Event::Sent { .. })));
    }
}

#[test]
fn everything_turned_on_allocates_nothing() {
    let (v4, v6, dual) = (udp4(), udp6(), dual_stack());
    exchange(&udp4(), &v4, addr(&v4));
    exchange(&udp6(), &v6, addr(&v6));
    exchange(&udp4(), &dual, at("127.0.0.1", &dual));
}
