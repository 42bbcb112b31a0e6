//! Memory: arenas grow and are reused, and batches move.

use mmsg::{BatchSocket, Flags, MmsgBuf, RecvBatch, SendMsg};

use crate::common::recv::{data_of, in_one_receive, memory, recv_msgs};
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
        assert!(
            msgs[..3]
                .iter()
                .all(|msg| msg.message().addr() == Some(addr(&inet)) && msg.message().truncated())
        );
        assert_eq!(inet.recv_into(&mut batch).expect("three are left"), 3);
        assert!(batch.iter().all(|d| d.addr() == Some(addr(&inet)) && d.truncated()));

        // The fourth message received nothing.
        assert_eq!((msgs[3].message().addr(), msgs[3].message().len()), (None, 0));

        a.send_batch(&[SendMsg::new(b"nowhere"); 6]).expect("the queue has space");
        assert_eq!(b.recv_batch(&mut msgs[..3]).expect("six are there"), 3);
        assert!(
            msgs.iter().all(|msg| msg.message().addr().is_none() && !msg.message().truncated())
        );
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
        assert!(msgs.iter().all(|msg| msg.message().addr() == Some(addr(&from))));
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

/// A receive offers 1,024 slots to the kernel, whose headers lie in a few pages.
#[cfg(target_os = "linux")]
#[test]
fn slots_that_were_never_used_take_no_memory() {
    if crate::common::is_slow() {
        return; // There the allocator touches what it zeroes.
    }
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("it is mounted");
        let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
        pages.expect("a number") * 4_096
    };
    let (from, to) = (udp4(), udp4());
    let before = resident();
    let mut batch = RecvBatch::new(1_000_000, 1_500);
    for _ in 0..2 {
        from.send_batch(&[SendMsg::to(addr(&to), b"data")]).expect("loopback takes it");
        assert_eq!(to.recv_into(&mut batch).expect("it was sent"), 1);
    }
    let used = resident().saturating_sub(before);
    // Other tests run meanwhile. A header for each slot would be 64 MB.
    assert!(used < 60 << 20, "{used} bytes");
}

/// Each receive begins where the last one ended, also beyond the slots that were ever offered.
#[test]
fn receives_that_add_to_a_large_batch_fill_its_slots_in_order() {
    let (from, to) = (udp4(), udp4());
    let mut batch = RecvBatch::new(3_000, 8);
    for round in 0..2 {
        batch.clear();
        let mut expected = Vec::new();
        for (pushed, sent) in [(0, 3), (1_200, 0), (0, 2), (1, 1), (0, 1), (1_500, 1)] {
            for _ in 0..pushed {
                expected.push(vec![round, 0]);
                assert!(batch.push(None, &[round, 0], Default::default()));
            }
            for i in 0..sent {
                let data = vec![round, 1, i];
                from.send_batch(&[SendMsg::to(addr(&to), &data)]).expect("loopback takes it");
                settle();
                expected.push(data);
                assert_eq!(to.recv_more(&mut batch).expect("it is there"), 1);
            }
        }
        assert!(batch.iter().map(|datagram| datagram.data()).eq(&expected), "round {round}");
        assert!(batch.iter().zip(&expected).all(|(d, data)| d.addr().is_some() == (data[1] == 1)));
    }
}
