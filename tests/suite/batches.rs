//! Batch sizes from none to more than one system call can carry.

use std::net::UdpSocket;
use std::time::Duration;

use mmsg::{BatchSocket, BatchSocketExt, RecvBatch, RecvFlags, SendMsg, SendQueue};

use crate::common::recv::{collect, data_of, memory, payloads, recv_msgs};
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{addr, has_space_for, refusing, settle, udp4};
use crate::common::threads::Call;
use crate::common::{has_icmp_errors, is_refused, numbered};

/// One message, the most of one system call, and more.
const COUNTS: [usize; 3] = [1, 1_024, 1_030];

fn messages<'a>(data: &'a [Vec<u8>], to: &UdpSocket) -> Vec<SendMsg<'a>> {
    let to = addr(to);
    data.iter().map(|data| SendMsg::to(to, data)).collect()
}

#[test]
fn no_messages_are_no_call() {
    if !has_icmp_errors("no_messages_are_no_call") {
        return;
    }
    let gone = refusing();
    let socket = udp4();
    socket.connect(addr(&gone)).expect("connecting does nothing but remember");
    socket.send(b"anyone there?").expect("the answer comes later");
    settle();
    // A system call would return ECONNREFUSED.
    assert_eq!(socket.recv_batch(&mut []).expect("no call"), 0);
    assert_eq!(socket.send_batch(&[]).expect("no call"), 0);
    let none: [SendMsg<'_>; 0] = [];
    assert_eq!(socket.send_iter(none).expect("no call"), 0);
    assert_eq!(socket.send_each(none, |_, _| panic!("no message")).expect("no call"), 0);
    assert_eq!(socket.flush(&mut SendQueue::new(1_000)).expect("no call"), 0);
    let reported = socket.recv_batch(&mut recv_msgs(&mut memory(1, 1)));
    assert!(is_refused(&reported.expect_err("the answer to the datagram before")));
}

#[test]
fn every_count_is_received_by_one_call() {
    for count in COUNTS {
        let (from, to) = (udp4(), udp4());
        if !has_space_for(&to, count, "every_count_is_received_by_one_call") {
            return;
        }
        let sent = numbered(count, 15);
        assert_eq!(from.send_batch(&messages(&sent, &to)).expect("all are taken"), count);
        settle();
        let mut memory = memory(count, 32);
        let mut msgs = recv_msgs(&mut memory);
        assert_eq!(to.recv_batch(&mut msgs).expect("all are there"), count);
        assert_eq!(data_of(&msgs), sent);
        assert!(msgs.iter().all(|msg| msg.addr() == Some(addr(&from)) && !msg.truncated()));
    }
}

#[test]
fn every_count_is_received_into_a_batch_by_one_call() {
    let mut batch = RecvBatch::new(2_000, 32);
    assert_eq!((batch.slots(), batch.message_count()), (2_000, 0));
    // Down again at the end: nothing of a larger batch before is left.
    for count in [1, 1_024, 1_030, 2_000, 1_025, 3, 1] {
        let (from, to) = (udp4(), udp4());
        if !has_space_for(&to, count, "every_count_is_received_into_a_batch_by_one_call") {
            return;
        }
        let sent = numbered(count, 15);
        assert_eq!(from.send_batch(&messages(&sent, &to)).expect("all are taken"), count);
        settle();
        assert_eq!(to.recv_into(&mut batch).expect("all are there"), count);
        assert_eq!((batch.message_count(), batch.messages().len()), (count, count));
        assert!(batch.iter().map(|datagram| datagram.data()).eq(&sent));
        assert!(batch.iter().all(|datagram| datagram.addr() == Some(addr(&from))));
    }
}

/// A batch that has seen single messages for long looks for one, if the socket waits, and takes several all the same when
/// they come.
#[test]
fn several_messages_come_after_many_single_ones() {
    let (from, to) = (udp4(), udp4());
    to.set_read_timeout(None).expect("a socket can wait");
    let mut batch = RecvBatch::new(8, 16);
    let sent = numbered(120, 15);
    let (single, together) = sent.split_at(100);
    for data in single {
        from.send_batch(&[SendMsg::to(addr(&to), data)]).expect("it is taken");
        settle();
        assert_eq!(to.recv_into(&mut batch).expect("it is there"), 1);
        assert!(batch.iter().map(|datagram| datagram.data()).eq([data]));
    }
    assert_eq!(from.send_batch(&messages(together, &to)).expect("all are taken"), together.len());
    settle();
    let (mut received, mut receives) = (Vec::new(), 0);
    while received.len() < together.len() {
        to.recv_into(&mut batch).expect("the rest is there");
        received.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
        receives += 1;
    }
    assert_eq!(received, together);
    assert!(receives <= 3 + 3, "{receives} receives for {} messages", together.len());
    let empty = to.recv_into_with(&mut batch, RecvFlags::DONT_WAIT).expect_err("nothing is left");
    assert_eq!(empty.kind(), std::io::ErrorKind::WouldBlock);
    // From now on all slots are offered.
    assert_eq!(from.send_batch(&messages(&together[..8], &to)).expect("all are taken"), 8);
    settle();
    assert_eq!(to.recv_into(&mut batch).expect("all are there"), 8);
}

/// An event loop or a loop of ticks gets all that waits by one receive, whatever came before.
#[test]
fn a_receive_that_does_not_wait_takes_all() {
    let (from, timed, non_blocking, told) = (udp4(), udp4(), udp4(), udp4());
    non_blocking.set_nonblocking(true).expect("a socket can be non-blocking");
    timed.set_read_timeout(Some(Duration::from_millis(900))).expect("a socket can have a timeout");
    told.set_read_timeout(None).expect("a socket can wait");
    let dont_wait = [(&timed, false), (&non_blocking, false), (&told, true)];
    for (to, flag) in dont_wait {
        let flags = if flag { RecvFlags::DONT_WAIT } else { RecvFlags::NONE };
        let mut batch = RecvBatch::new(8, 16);
        let sent = numbered(45, 15);
        let (single, together) = sent.split_at(40);
        for data in single {
            from.send_batch(&[SendMsg::to(addr(to), data)]).expect("it is taken");
            settle();
            assert_eq!(to.recv_into_with(&mut batch, flags).expect("it is there"), 1);
        }
        from.send_batch(&messages(together, to)).expect("all are taken");
        settle();
        assert_eq!(to.recv_into_with(&mut batch, flags).expect("all are there"), 5);
        assert!(batch.iter().map(|datagram| datagram.data()).eq(together));
    }
}

#[test]
fn a_batch_of_exactly_one_call_and_one_slot_more() {
    for slots in [1_024, 1_025] {
        let (from, to) = (udp4(), udp4());
        if !has_space_for(&to, 1_030, "a_batch_of_exactly_one_call_and_one_slot_more") {
            return;
        }
        let sent = numbered(1_030, 4);
        assert_eq!(from.send_batch(&messages(&sent, &to)).expect("all are taken"), 1_030);
        settle();
        let mut batch = RecvBatch::new(slots, 4);
        assert_eq!(to.recv_into(&mut batch).expect("it is full"), slots);
        assert!(batch.iter().map(|datagram| datagram.data()).eq(&sent[..slots]));
        assert_eq!(to.recv_into(&mut batch).expect("the rest is there"), 1_030 - slots);
        assert!(batch.iter().map(|datagram| datagram.data()).eq(&sent[slots..]));
    }
}

/// Spread over several receivers, so that no buffer overflows on any machine.
fn receivers() -> Vec<UdpSocket> {
    (0..6).map(|_| udp4()).collect()
}

/// Message `i` goes to receiver `i % 6`; checks that it did.
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
fn s8_a_batch_longer_than_one_call_is_sent_whole() {
    let (from, to) = (udp4(), receivers());
    for count in COUNTS {
        let sent = numbered(count, 15);
        let msgs = spread(&to, &sent);
        assert_eq!(from.send_batch(&msgs).expect("all are taken"), count);
        assert_spread(&to, &sent);
        let failed = &mut |index, error| panic!("message {index}: {error}");
        assert_eq!(from.send_each(&msgs, failed).expect("all are taken"), count);
        assert_spread(&to, &sent);
    }
}

#[test]
fn every_count_is_sent_from_an_iterator_and_from_a_queue() {
    let (from, to) = (udp4(), receivers());
    for count in [1, 31, 32, 63, 64, 65, 128, 1_023, 1_024, 1_025, 1_030] {
        let sent = numbered(count, 15);
        let msgs = spread(&to, &sent);
        // Once with a length that is known before, once without.
        assert_eq!(from.send_iter(msgs.iter().copied()).expect("all are taken"), count);
        assert_spread(&to, &sent);
        let mut unknown = msgs.iter().copied().filter(|_| true);
        assert_eq!(from.send_iter(&mut unknown).expect("all are taken"), count);
        assert_spread(&to, &sent);

        let mut queue = SendQueue::new(1 << 20);
        for msg in &msgs {
            queue.push(msg).expect("there is space");
        }
        assert_eq!(from.flush(&mut queue).expect("all are taken"), count);
        assert!(queue.is_empty());
        assert_spread(&to, &sent);
    }
}

/// A Unix socket's queue holds a few datagrams, and a sender waits for space: nothing can be lost,
/// and a blocking batch of any length gets through.
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
