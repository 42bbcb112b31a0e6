//! `recv_slices`: receives into plain buffers.

use std::io::IoSliceMut;

use mmsg::BatchSocket;

use crate::common::recv::{in_one_receive, memory};
use crate::common::sockets::{addr, settle, udp4};

// Windows receives one message a call.
#[cfg(unix)]
#[test]
fn a_message_longer_than_its_buffer_says_so() {
    let (from, to) = (udp4(), udp4());
    for data in [&b"0123456789"[..], b"01234567", b""] {
        from.send_to(data, addr(&to)).expect("it is taken");
    }
    settle();
    let mut memory = memory(4, 8);
    let mut buffers: Vec<_> = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
    let mut received = Vec::new();
    let count = to.recv_slices(&mut buffers, &mut |i, message| {
        assert_eq!((message.addr(), message.datagrams().len()), (Some(addr(&from)), 1));
        received.push((i, message.data().to_vec(), message.truncated()));
    });
    let all =
        [(0, b"01234567".to_vec(), true), (1, b"01234567".to_vec(), false), (2, vec![], false)];
    assert_eq!((count.expect("they are there"), &received[..]), (3, &all[..]));
}

#[test]
fn the_closure_may_call_the_socket() {
    let (client, server) = (udp4(), udp4());
    for data in [b"one", b"two"] {
        client.send_to(data, addr(&server)).expect("it is taken");
    }
    settle();
    let mut memory = memory(4, 8);
    let mut buffers: Vec<_> = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
    let count = server.recv_slices(&mut buffers, &mut |_, message| {
        let reply = message.reply(message.data()).expect("it has a source");
        assert_eq!(server.send_batch(&[reply]).expect("it is taken"), 1);
    });
    let count = count.expect("two are there");
    assert_eq!(count, in_one_receive(2));
    let mut buffer = [0; 8];
    for data in &[b"one", b"two"][..count] {
        assert_eq!(client.recv(&mut buffer).expect("the reply"), 3);
        assert_eq!(&buffer[..3], *data);
    }
}
