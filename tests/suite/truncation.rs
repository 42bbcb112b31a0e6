//! Messages longer than their buffers, and the length of each message.

use mmsg::{BatchSocket, RecvBatch, RecvMsg, SendMsg};

use crate::common::payload;
use crate::common::recv::{data_of, fill, memory, recv_msgs};
use crate::common::sockets::{addr, settle, udp4};

#[cfg(unix)]
#[test]
fn only_the_truncated_message_says_so() {
    let (from, to) = (udp4(), udp4());
    let lens = [3, 100, 8, 9, 0, 7];
    let sent: Vec<_> = lens.iter().map(|&len| payload(len, len)).collect();
    let msgs: Vec<_> = sent.iter().map(|data| SendMsg::to(addr(&to), data)).collect();
    for _ in 0..2 {
        assert_eq!(from.send_batch(&msgs).expect("they are taken"), 6);
    }
    settle();

    let mut memory = memory(6, 8);
    let mut msgs = recv_msgs(&mut memory);
    assert_eq!(to.recv_batch(&mut msgs).expect("they are there"), 6);
    let mut batch = RecvBatch::new(6, 8);
    assert_eq!(to.recv_into(&mut batch).expect("they are there"), 6);

    for ((msg, slot), data) in msgs.iter().zip(batch.messages()).zip(&sent) {
        let kept = data.len().min(8);
        assert_eq!((msg.data(), slot.data()), (&data[..kept], &data[..kept]));
        assert_eq!((msg.addr(), slot.addr()), (Some(addr(&from)), Some(addr(&from))));
        let truncated = data.len() > 8;
        assert_eq!((msg.truncated(), slot.truncated()), (truncated, truncated));
        assert!(!msg.message().control_truncated() && !slot.control_truncated());
        assert!(msg.message().datagrams().all(|datagram| datagram.truncated() == truncated));
    }
    assert!(batch.iter().map(|datagram| datagram.truncated()).eq(lens.map(|len| len > 8)));
}

#[cfg(unix)]
#[test]
fn the_result_counts_messages_and_each_has_its_own_length() {
    let (from, to) = (udp4(), udp4());
    let lens = [1_000, 10, 500, 1];
    for len in lens {
        from.send_to(&payload(len, len), addr(&to)).expect("it is taken");
    }
    settle();
    let mut memory = memory(9, 2_000);
    let mut msgs = recv_msgs(&mut memory);
    // A single-message system call returns bytes, a multi-message one messages; here the count is of messages.
    assert_eq!(to.recv_batch(&mut msgs).expect("four are there"), 4);
    assert!(msgs[..4].iter().map(RecvMsg::len).eq(lens));
    for (msg, len) in msgs.iter().zip(lens) {
        assert_eq!(msg.data(), payload(len, len));
    }
    // One message in one call: the count is 1, not its bytes.
    let data = payload(0, 777);
    assert_eq!(from.send_batch(&[SendMsg::to(addr(&to), &data)]).expect("it is taken"), 1);
    assert_eq!(to.recv_batch(&mut msgs[..1]).expect("it is there"), 1);
    assert_eq!(msgs[0].data(), data);
}

#[test]
fn messages_that_were_not_counted_keep_what_they_held() {
    let (from, to) = (udp4(), udp4());
    let mut memory = memory(3, 16);
    let mut msgs = recv_msgs(&mut memory);
    for data in [b"first", b"other", b"third"] {
        from.send_to(data, addr(&to)).expect("it is taken");
    }
    settle();
    fill(&to, &mut msgs);
    from.send_to(b"new", addr(&to)).expect("it is taken");
    assert_eq!(to.recv_batch(&mut msgs).expect("one is there"), 1);
    assert_eq!(data_of(&msgs), [&b"new"[..], b"other", b"third"]);
    assert!(msgs.iter().all(|msg| msg.addr() == Some(addr(&from))));
}
