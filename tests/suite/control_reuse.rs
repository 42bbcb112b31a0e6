//! Memory that is used with control data and then without, and the other way round.

use std::io::IoSliceMut;
use std::net::UdpSocket;

use mmsg::{BatchSocket, Message, RecvBatch, SendMsg};

use crate::common::linux::set_option;
use crate::common::numbered;
use crate::common::recv::memory;
use crate::common::sockets::{addr, settle, udp4};

/// A socket whose datagrams have two control messages, and one whose datagrams have none.
fn rich_and_plain() -> (UdpSocket, UdpSocket) {
    let (rich, plain) = (udp4(), udp4());
    for option in [libc::IP_PKTINFO, libc::IP_RECVTTL] {
        set_option(&rich, libc::IPPROTO_IP, option, 1).expect("an option of every Linux");
    }
    (rich, plain)
}

fn send_to_itself(socket: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
    let sent = numbered(count, 15);
    let msgs: Vec<_> = sent.iter().map(|data| SendMsg::to(addr(socket), data)).collect();
    assert_eq!(socket.send_batch(&msgs).expect("they are taken"), count);
    settle();
    sent
}

/// Checks that both control messages are complete, or that there are none.
fn assert_control(messages: mmsg::control::ControlMessages<'_>, rich: bool) {
    let seen: Vec<_> = messages.map(|m| (m.level, m.ty, m.data.len())).collect();
    let all = [(libc::IPPROTO_IP, libc::IP_PKTINFO, 12), (libc::IPPROTO_IP, libc::IP_TTL, 4)];
    assert_eq!(seen, if rich { &all[..] } else { &[] });
}

#[test]
fn arenas_and_batches_have_whole_control_space_for_every_message() {
    let (rich, plain) = rich_and_plain();
    let mut batch = RecvBatch::new(50, 16);
    // Batches of changing size, with and without control messages: no header may keep anything from the previous
    // call.
    let turns = [(1, true), (3, false), (50, true), (2, false), (2, true), (50, false), (49, true)];
    for (count, is_rich) in turns {
        let socket = if is_rich { &rich } else { &plain };
        let sent = send_to_itself(socket, count);
        let check = |i: usize, message: Message<'_>| {
            assert_eq!((message.data(), message.addr()), (&sent[i][..], Some(addr(socket))));
            assert!(!message.truncated() && !message.control_truncated());
            assert_control(message.control_messages(), is_rich);
        };
        assert_eq!(socket.recv_into(&mut batch).expect("they are there"), count);
        batch.messages().enumerate().for_each(|(i, message)| check(i, message));

        send_to_itself(socket, count);
        let mut memory = memory(50, 16);
        let mut buffers: Vec<_> = memory.iter_mut().map(|part| IoSliceMut::new(part)).collect();
        let received = socket.recv_slices(&mut buffers, &mut |i, message| check(i, message));
        assert_eq!(received.expect("they are there"), count);
    }
}
