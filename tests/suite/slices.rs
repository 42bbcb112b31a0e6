//! `recv_slices`: receives into plain buffers.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use mmsg::{BatchSocket, SendMsg};

use crate::common::recv::{in_one_receive, memory};
use crate::common::sockets::{addr, settle, udp4, udp6};
use crate::common::{numbered, would_block};

/// A message as the closure sees it: buffer index, payload, source, truncated.
type Received = (usize, Vec<u8>, Option<SocketAddr>, bool);

/// Receives into `count` buffers of `len` bytes and returns the messages.
fn recv(socket: &dyn BatchSocket, memory: &mut [Vec<u8>]) -> io::Result<Vec<Received>> {
    let mut buffers: Vec<_> = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
    let mut received = Vec::new();
    let count = socket.recv_slices(&mut buffers, &mut |i, message| {
        assert_eq!(message.datagrams().len(), 1);
        let (data, from) = (message.data().to_vec(), message.addr());
        received.push((i, data, from, message.truncated()));
    })?;
    assert_eq!(received.len(), count);
    Ok(received)
}

// Windows receives one message a call.
#[cfg(unix)]
#[test]
fn each_message_is_in_its_buffer() {
    for (from, to) in [Some((udp4(), udp4())), udp6().zip(udp6())].into_iter().flatten() {
        for (count, buffers) in [(1, 1), (5, 8), (40, 40), (200, 300), (60, 40)] {
            let data = numbered(count, 24);
            let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(addr(&to), data)).collect();
            assert_eq!(from.send_batch(&msgs).expect("they are taken"), count);
            settle();
            let mut left = &data[..];
            while !left.is_empty() {
                let mut memory = memory(buffers, 32);
                let received = recv(&to, &mut memory).expect("they are there");
                assert_eq!(received.len(), left.len().min(buffers));
                let (now, later) = left.split_at(received.len());
                for (i, (received, data)) in received.iter().zip(now).enumerate() {
                    let whole = (i, data.clone(), Some(addr(&from)), false);
                    assert_eq!(received, &whole);
                    assert_eq!(memory[i][..data.len()], data[..]);
                }
                assert!(memory[received.len()..].iter().flatten().all(|byte| *byte == 0xEE));
                left = later;
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn a_message_longer_than_its_buffer_says_so() {
    let (from, to) = (udp4(), udp4());
    for data in [&b"0123456789"[..], b"01234567", b""] {
        from.send_to(data, addr(&to)).expect("it is taken");
    }
    settle();
    let received = recv(&to, &mut memory(4, 8)).expect("they are there");
    let from = Some(addr(&from));
    let all = [
        (0, b"01234567".to_vec(), from, true),
        (1, b"01234567".to_vec(), from, false),
        (2, Vec::new(), from, false),
    ];
    assert_eq!(received, all);
}

#[test]
fn nothing_is_called_without_a_message() {
    let socket = udp4();
    let mut no_buffers = memory(0, 0);
    assert_eq!(recv(&socket, &mut no_buffers).expect("nothing to do"), []);
    let mut memory = memory(3, 8);
    socket.set_nonblocking(true).expect("it can be");
    assert!(would_block(recv(&socket, &mut memory)));
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
