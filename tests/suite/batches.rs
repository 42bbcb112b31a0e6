//! Batch sizes from 0 to more than one call moves.

use std::net::UdpSocket;

use mmsg::{BatchSocket, BatchSocketExt, RecvBatch, SendMsg};

use crate::common::recv::{collect, data_of, memory, payloads, recv_msgs};
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{MAX_BURST, addr, has_space_for, settle, udp4};
use crate::common::threads::Call;
use crate::common::{no_failure, numbered, queue_of};

/// Maximum of messages in one call.
const MAX_PER_CALL: usize = 1_024;

/// One message, the maximum of one call, and more.
const COUNTS: [usize; 3] = [1, MAX_PER_CALL, MAX_PER_CALL + 6];

#[cfg(unix)]
#[test]
fn every_count_up_to_the_most_is_received_by_one_call() {
    let mut batches =
        [MAX_PER_CALL - 1, MAX_PER_CALL, 2_000].map(|slots| RecvBatch::new(slots, 32));
    assert_eq!((batches[2].slots(), batches[2].message_count()), (2_000, 0));
    // Small batches follow large ones, and must show no part of them.
    for count in [1, MAX_PER_CALL, MAX_PER_CALL + 6, 2_000, MAX_PER_CALL + 1, 3, 1] {
        let (from, to) = (udp4(), udp4());
        if !has_space_for(&to, count) {
            return;
        }
        let sent = numbered(count, 15);
        let send = || {
            let msgs = sent.iter().map(|data| SendMsg::to(addr(&to), data));
            assert_eq!(from.send_each(msgs, no_failure).expect("it waits"), count);
            settle();
        };
        for batch in &mut batches {
            send();
            for sent in sent.chunks(batch.slots().min(MAX_PER_CALL)) {
                let count = sent.len();
                assert_eq!(to.recv_into(batch).expect("all are there"), count);
                assert_eq!((batch.message_count(), batch.messages().len()), (count, count));
                assert!(batch.iter().map(|datagram| datagram.data()).eq(sent));
                assert!(batch.iter().all(|datagram| datagram.addr() == Some(addr(&from))));
            }
        }
        send();
        let mut memory = memory(count, 32);
        let mut msgs = recv_msgs(&mut memory);
        let first = count.min(MAX_PER_CALL);
        assert_eq!(to.recv_batch(&mut msgs).expect("all are there"), first);
        assert!(
            msgs[first..]
                .iter()
                .all(|msg| msg.message().is_empty() && msg.message().addr().is_none())
        );
        if count > first {
            assert_eq!(to.recv_batch(&mut msgs[first..]).expect("the rest"), count - first);
        }
        assert_eq!(data_of(&msgs), sent);
        assert!(
            msgs.iter()
                .all(|msg| msg.message().addr() == Some(addr(&from)) && !msg.message().truncated())
        );
    }
}

/// Several receivers, so that no buffer overflows on any machine.
fn receivers() -> Vec<UdpSocket> {
    (0..6).map(|_| udp4()).collect()
}

/// Message `i` must go to receiver `i % 6`.
fn assert_spread(receivers: &[UdpSocket], sent: &[Vec<u8>]) {
    for (i, receiver) in receivers.iter().enumerate() {
        let expected: Vec<_> = sent.iter().skip(i).step_by(receivers.len()).cloned().collect();
        assert_eq!(payloads(receiver, expected.len()), expected);
    }
}

fn spread<'a>(receivers: &[UdpSocket], data: &'a [Vec<u8>]) -> Vec<SendMsg<'a>> {
    let to: Vec<_> = receivers.iter().map(addr).collect();
    data.iter().zip(to.iter().cycle()).map(|(data, to)| SendMsg::to(*to, data)).collect()
}

#[test]
fn every_count_is_sent_in_every_way() {
    let (from, to) = (udp4(), receivers());
    let counts = [1, 31, 255, 256, 257, 512, 1_023, 1_024, 1_025, 1_030];
    for count in counts.into_iter().filter(|count| (..=MAX_BURST).contains(count)) {
        let sent = numbered(count, 15);
        let msgs = spread(&to, &sent);
        let first = count.min(MAX_PER_CALL);
        assert_eq!(from.send_batch(&msgs).expect("they are taken"), first);
        assert_eq!(from.send_batch(&msgs[first..]).expect("the rest is taken"), count - first);
        assert_spread(&to, &sent);
        assert_eq!(from.send_each(&msgs, no_failure).expect("all are taken"), count);
        assert_spread(&to, &sent);
        // Filtered, so that its length is unknown.
        let mut unknown = msgs.iter().copied().filter(|_| true);
        assert_eq!(from.send_each(&mut unknown, no_failure).expect("all are taken"), count);
        assert_spread(&to, &sent);

        let mut queue = queue_of(&msgs);
        assert_eq!(from.flush(&mut queue).expect("all are taken"), count);
        assert!(queue.is_empty());
        assert_spread(&to, &sent);
    }
}

/// A Unix socket's queue holds a few datagrams and a sender waits for space, so nothing can be lost and a blocking
/// batch of any length gets through.
#[cfg(unix)]
#[test]
fn a_blocking_batch_waits_for_a_reader_and_loses_nothing() {
    let (a, b) = unix_pair();
    for count in COUNTS {
        let sent = numbered(count, 15);
        let (data, socket) = (sent.clone(), a.try_clone().expect("a second descriptor"));
        let sender = Call::blocked(move || {
            let msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data)).collect();
            let mut done = 0;
            while done < msgs.len() {
                done += socket.send_batch(&msgs[done..]).expect("the reader makes space");
            }
        });
        let got = collect(&b, count);
        assert!(got.iter().map(|got| &got.data).eq(&sent));
        sender.result();
    }
}
