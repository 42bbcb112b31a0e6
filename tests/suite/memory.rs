//! Memory: arenas grow and are reused, batches move, and payloads lie at any address.

use mmsg::{BatchSocket, Flags, MmsgBuf, RecvBatch, RecvMsg, SendMsg};

use crate::common::recv::{data_of, in_one_receive, memory, payloads, recv_msgs};
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{addr, borrow, settle, udp4, udp6};
use crate::common::{numbered, payload};

#[cfg(unix)]
#[test]
fn an_address_that_was_not_written_is_none() {
    let (a, b) = unix_pair();
    let inet = udp6().unwrap_or_else(udp4);
    let mut batch = RecvBatch::new(4, 8);
    for _ in 0..3 {
        // The same slots hold an address and a truncated message, then a complete one without an address.
        let mut mem = memory(4, 8);
        let mut msgs = recv_msgs(&mut mem);
        for _ in 0..6 {
            inet.send_to(b"from somewhere", addr(&inet)).expect("it is taken");
        }
        settle();
        assert_eq!(inet.recv_batch(&mut msgs[..3]).expect("six are there"), 3);
        assert!(msgs[..3].iter().all(|msg| msg.addr() == Some(addr(&inet)) && msg.truncated()));
        assert_eq!(inet.recv_into(&mut batch).expect("three are left"), 3);
        assert!(batch.iter().all(|d| d.addr() == Some(addr(&inet)) && d.truncated()));

        // The fourth message received nothing.
        assert_eq!((msgs[3].addr(), msgs[3].len()), (None, 0));

        a.send_batch(&[SendMsg::new(b"nowhere"); 6]).expect("the queue has space");
        assert_eq!(b.recv_batch(&mut msgs[..3]).expect("six are there"), 3);
        assert!(msgs.iter().all(|msg| msg.addr().is_none() && !msg.truncated()));
        assert_eq!(b.recv_into(&mut batch).expect("three are left"), 3);
        assert!(batch.iter().all(|d| d.addr().is_none() && !d.truncated()));
    }
}

#[cfg(unix)]
#[test]
fn an_arena_that_grows_between_calls_gives_the_right_bytes() {
    let (from, to) = (udp4(), udp4());
    // A new one grows from nothing.
    let (mut sender, mut receiver) = (MmsgBuf::new(), MmsgBuf::new());
    let mut seed = 0;
    for count in [1, 2, 3, 5, 8, 16, 17, 33, 64, 65, 100, 129, 200, 1, 150, 7] {
        let sent: Vec<_> = (0..count).map(|i| payload(seed + i, 1 + (seed + i) % 97)).collect();
        seed += count;
        let msgs: Vec<_> = sent.iter().map(|data| SendMsg::to(addr(&to), data)).collect();
        assert_eq!(
            sender.send(borrow(&from), &msgs, Flags::NONE).expect("loopback takes them"),
            count
        );
        settle();
        let mut memory = memory(count, 100);
        let mut msgs = recv_msgs(&mut memory);
        assert_eq!(
            receiver.recv(borrow(&to), &mut msgs, Flags::NONE).expect("they are there"),
            count
        );
        assert_eq!(data_of(&msgs), sent);
        assert!(msgs.iter().all(|msg| msg.addr() == Some(addr(&from))));
    }
}

#[test]
fn a_batch_that_moves_keeps_its_wiring() {
    let (from, to) = (udp4(), udp4());
    let mut batch = RecvBatch::new(3, 64);
    for round in 0..3 {
        let sent = numbered(3, 20 + round);
        let msgs: Vec<_> = sent.iter().map(|data| SendMsg::to(addr(&to), data)).collect();
        assert_eq!(from.send_batch(&msgs).expect("loopback takes them"), 3);
        settle();
        for sent in sent.chunks(in_one_receive(3)) {
            let mut moved = Box::new(batch);
            assert_eq!(to.recv_into(&mut moved).expect("they are there"), sent.len());
            batch = *moved;
            assert!(batch.iter().map(|datagram| datagram.data()).eq(sent));
            assert!(batch.iter().all(|datagram| datagram.addr() == Some(addr(&from))));
        }
    }
}

#[test]
fn payload_may_lie_at_any_address() {
    let (from, to) = (udp4(), udp4());
    let data = payload(3, 64);
    for offset in 0..9 {
        for len in [0, 1, 7, 8, 31] {
            let msg = SendMsg::to(addr(&to), &data[offset..offset + len]);
            assert_eq!(from.send_batch(&[msg, msg]).expect("they are taken"), 2);
        }
        for len in [0, 1, 7, 8, 31] {
            let mut memory = [0xEE; 80];
            let (before, at) = memory.split_at_mut(offset);
            let (one, two) = at.split_at_mut(len);
            let mut msgs = [RecvMsg::new(one), RecvMsg::new(&mut two[..len])];
            let mut count = 0;
            while count < 2 {
                count += to.recv_batch(&mut msgs[count..]).expect("they are there");
            }
            let expected = &data[offset..offset + len];
            assert_eq!((msgs[0].data(), msgs[1].data()), (expected, expected));
            assert!(before.iter().all(|byte| *byte == 0xEE));
            assert!(two[len..].iter().all(|byte| *byte == 0xEE));
        }
    }
}

#[cfg(unix)]
#[test]
fn messages_that_do_not_fit_wait_for_the_next_call() {
    let (from, to) = (udp4(), udp4());
    let sent = numbered(50, 20);
    let msgs: Vec<_> = sent.iter().map(|data| SendMsg::to(addr(&to), data)).collect();
    assert_eq!(from.send_batch(&msgs).expect("loopback takes them"), 50);
    settle();
    let mut got = Vec::new();
    let mut batch = RecvBatch::new(6, 64);
    // Each call offers fewer slots than datagrams wait.
    for (count, into_batch) in [(1, false), (4, false), (6, true), (2, false), (6, true)] {
        if into_batch {
            assert_eq!(to.recv_into(&mut batch).expect("more are there"), count);
            got.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
        } else {
            let mut memory = memory(count, 64);
            let mut msgs = recv_msgs(&mut memory);
            assert_eq!(to.recv_batch(&mut msgs).expect("more are there"), count);
            got.extend(data_of(&msgs));
        }
    }
    got.extend(payloads(&to, 50 - got.len()));
    assert_eq!(got, sent);
}
