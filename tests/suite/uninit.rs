//! Messages received into memory that may be uninitialised.

use std::mem::{self, MaybeUninit};

use bytes::BytesMut;
use mmsg::{BatchSocket, Offload, RecvMeta, RecvMsg};

use crate::common::recv::{fill, recv_msgs};
use crate::common::sockets::{addr, settle, udp4};
use crate::common::{ReceivesBy, payload, would_block};

/// Takes a message's bytes over into the buffer that it was received into.
#[track_caller]
fn take_over(buffer: &mut BytesMut, (start, len): (*const u8, usize)) {
    assert_eq!(start, buffer.spare_capacity_mut().as_ptr().cast());
    // SAFETY: a message that begins in the buffer's spare capacity has initialised `len` bytes of it.
    unsafe { buffer.set_len(buffer.len() + len) };
}

fn place(msg: &RecvMsg<'_>) -> (*const u8, usize) {
    (msg.data().as_ptr(), msg.message().len())
}

#[test]
fn messages_are_received_into_spare_capacity() {
    let socket = udp4();
    let offload = Offload::builder().gro(false).build(&socket).expect("a UDP socket");
    let ways: [&dyn BatchSocket; 2] = [&socket, &offload];
    for way in ways {
        let sent: Vec<_> = [0, 1, 1_472, 8_000, 60_000].map(|len| payload(len, len)).into();
        for data in &sent {
            socket.send_to(data, addr(&socket)).expect("loopback takes it");
        }
        settle();
        let mut pool: Vec<_> = sent.iter().map(|_| BytesMut::with_capacity(65_535)).collect();
        for (i, buffer) in pool.iter_mut().enumerate() {
            buffer.extend_from_slice(&[i as u8][..i % 2]);
        }
        let mut msgs: Vec<_> =
            pool.iter_mut().map(|buffer| RecvMsg::uninit(buffer.spare_capacity_mut())).collect();
        fill(way, &mut msgs);
        assert!(
            msgs.iter()
                .zip(&sent)
                .all(|(msg, data)| msg.data() == data && !msg.message().truncated())
        );
        assert!(msgs.iter().all(|msg| msg.message().addr() == Some(addr(&socket))));
        let places: Vec<_> = msgs.iter().map(place).collect();
        for (i, (buffer, place)) in pool.iter_mut().zip(places).enumerate() {
            take_over(buffer, place);
            assert_eq!(buffer[i % 2..], sent[i]);
        }
    }
}

#[test]
fn a_message_that_nothing_came_into_has_no_bytes() {
    let socket = udp4();
    socket.set_nonblocking(true).expect("an open socket");
    let mut memory = [const { [MaybeUninit::uninit(); 32] }; 3];
    let mut msgs = memory.each_mut().map(|buffer| RecvMsg::uninit(buffer));
    let lens = |msgs: &[RecvMsg<'_>]| msgs.iter().map(|msg| msg.data().len()).collect::<Vec<_>>();
    assert!(would_block(socket.recv_batch(&mut msgs)));
    assert_eq!(lens(&msgs), [0, 0, 0]);
    socket.send_to(b"short", addr(&socket)).expect("loopback takes it");
    settle();
    assert_eq!(socket.recv_batch(&mut msgs).expect("one is there"), 1);
    assert_eq!(lens(&msgs), [5, 0, 0]);
    msgs[0].data_mut().fill(b'-');
    // An error leaves the bytes of the last receive.
    assert!(would_block(socket.recv_batch(&mut msgs)));
    assert_eq!((lens(&msgs), msgs[0].data()), (vec![5, 0, 0], &b"-----"[..]));
    assert!(msgs.iter().all(|msg| format!("{msg:?}").contains("capacity: 32")));
}

/// It may count what it likes, and do with the messages what safe code can.
#[test]
fn a_socket_of_others_shows_only_initialised_bytes() {
    for count in [0, 1, 2, 1_000] {
        for fills in [None, Some(&b"filled"[..])] {
            for swaps in [false, true] {
                let mut memory = [const { [MaybeUninit::uninit(); 32] }; 2];
                let starts = memory.each_ref().map(|buffer| buffer.as_ptr().cast::<u8>());
                let mut msgs = memory.each_mut().map(|buffer| RecvMsg::uninit(buffer));
                let socket = ReceivesBy(|msgs: &mut [RecvMsg<'_>]| {
                    if let Some(data) = fills {
                        msgs[0].fill(data, None, RecvMeta::default());
                    }
                    if swaps {
                        let (one, other) = msgs.split_at_mut(1);
                        mem::swap(&mut one[0], &mut other[0]);
                    }
                    Ok(count)
                });
                assert_eq!(socket.recv_batch(&mut msgs).expect("it lies"), count);
                let filled = usize::from(swaps);
                assert_eq!(msgs[filled].data(), fills.unwrap_or_default());
                assert_eq!(msgs[1 - filled].data(), b"");
                assert!(msgs.iter().all(|msg| msg.message().datagrams().all(|d| d.len() <= 6)));
                // This is how a caller finds out.
                assert_eq!(msgs[0].data().as_ptr() == starts[0], !swaps);
            }
        }
    }
}

#[test]
fn messages_in_both_kinds_of_memory_share_a_call() {
    let socket = udp4();
    let (mut known, mut unknown) = (vec![vec![0xEE; 16]], [MaybeUninit::uninit(); 16]);
    for _ in 0..2 {
        for data in [b"one", b"two"] {
            socket.send_to(data, addr(&socket)).expect("loopback takes it");
        }
        settle();
        let mut msgs = recv_msgs(&mut known);
        msgs.push(RecvMsg::uninit(&mut unknown));
        fill(&socket, &mut msgs);
        assert_eq!((msgs[0].data(), msgs[1].data()), (&b"one"[..], &b"two"[..]));
        msgs.iter_mut().for_each(|msg| msg.data_mut().fill(b'-'));
    }
    assert_eq!(known[0], [b"---", &[0xEE; 13][..]].concat(), "no byte beyond the payload");
}
