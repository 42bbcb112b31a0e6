//! Raw control messages of Linux: enabled by socket options, read and sent as bytes. Memory that is used with control
//! data and then without, and the other way round.

use std::io::IoSliceMut;
use std::net::UdpSocket;

use libc::IPPROTO_IP;
use mmsg::control::{CONTROL_SPACE, ControlBuf, ControlMessages};
use mmsg::{BatchSocket, Message, RecvBatch, SendMsg};

use crate::common::descriptors::pass;
use crate::common::linux::set_option;
use crate::common::recv::{data_of, memory, recv_msgs};
use crate::common::sockets::{addr, settle, udp4, unix_pair};
use crate::common::{fails_alone, numbered};

/// The payload of the first control message with this level and type.
fn find(messages: ControlMessages<'_>, level: i32, ty: i32) -> Option<Vec<u8>> {
    messages.into_iter().find(|m| (m.level, m.ty) == (level, ty)).map(|m| m.data.to_vec())
}

fn ask(socket: &UdpSocket, level: i32, options: &[i32]) {
    for option in options {
        set_option(socket, level, *option, 1).expect("an option of every Linux");
    }
}

fn control(messages: &[(i32, i32, &[u8])]) -> ControlBuf {
    let mut control = ControlBuf::default();
    for (level, ty, data) in messages {
        control.push(*level, *ty, data).expect("there is space");
    }
    control
}

#[test]
fn a_message_after_an_odd_one_is_sent_right() {
    let (from, to) = (udp4(), udp4());
    ask(&to, IPPROTO_IP, &[libc::IP_RECVTTL, libc::IP_RECVTOS]);
    let tos: (i32, i32, &[u8]) = (IPPROTO_IP, libc::IP_TOS, &[0x04]);
    let ttl = 7i32.to_ne_bytes();
    let ttl: (i32, i32, &[u8]) = (IPPROTO_IP, libc::IP_TTL, &ttl);
    for order in [[tos, ttl], [ttl, tos]] {
        let control = control(&order);
        assert_eq!(control.messages().count(), 2);
        // A byte before the struct makes its size odd, but the buffer keeps its own alignment.
        let boxed = Box::new((1u8, control.clone()));
        for control in [&control, &boxed.1] {
            let msg = SendMsg::to(addr(&to), b"data").with_control(control);
            assert_eq!(from.send_batch(&[msg, msg]).expect("they are taken"), 2);
        }
        settle();
        let mut batch = RecvBatch::new(4, 16);
        assert_eq!(to.recv_into(&mut batch).expect("they are there"), 4);
        for message in batch.messages() {
            let of = |ty| find(message.control_messages(), IPPROTO_IP, ty);
            assert_eq!(of(libc::IP_TOS), Some(vec![0x04]));
            assert_eq!(of(libc::IP_TTL), Some(7i32.to_ne_bytes().to_vec()));
        }
    }
}

#[test]
fn a_control_message_that_the_kernel_rejects_fails_its_message() {
    let (from, to) = (udp4(), udp4());
    // A time to live of 0 is invalid.
    let rejected = control(&[(IPPROTO_IP, libc::IP_TTL, &0i32.to_ne_bytes())]);
    let good = SendMsg::to(addr(&to), b"good");
    fails_alone(&from, &to, [good, good.with_control(&rejected)], libc::EINVAL);
}

#[test]
fn truncated_control_data_is_reported_for_its_message_alone() {
    let (a, b) = unix_pair();
    // A buffer holds the peer's credentials or as many descriptors, but not both.
    set_option(&b, libc::SOL_SOCKET, libc::SO_PASSCRED, 1).expect("an option of every Linux");
    // SAFETY: arithmetic on its argument.
    let header = unsafe { libc::CMSG_LEN(0) } as usize;
    let descriptors = (CONTROL_SPACE - header) / 4;
    for (data, count) in [(b"one", 0), (b"two", descriptors), (b"six", 0)].repeat(2) {
        pass(&a, data, &a, count);
    }

    let mut memory = memory(3, 16);
    let mut msgs = recv_msgs(&mut memory);
    assert_eq!(b.recv_batch(&mut msgs).expect("they are there"), 3);
    assert_eq!(data_of(&msgs), [b"one", b"two", b"six"]);
    assert!(msgs.iter().map(|msg| msg.message().control_truncated()).eq([false, true, false]));
    // A Unix socket coalesces nothing, so no segment size was lost.
    assert!(!msgs.iter().any(|msg| msg.message().truncated()));
    let datagrams = msgs.iter().flat_map(|msg| msg.message().datagrams());
    assert!(datagrams.map(|datagram| datagram.data()).eq([b"one", b"two", b"six"]));

    let mut batch = RecvBatch::new(4, 16);
    assert_eq!(b.recv_into(&mut batch).expect("they are there"), 3);
    assert!(batch.messages().map(|m| m.control_truncated()).eq([false, true, false]));
    assert!(batch.iter().map(|d| d.data()).eq([b"one", b"two", b"six"]) && !batch.truncated());
    let second = batch.message(1).expect("three came");
    let received = find(second.control_messages(), libc::SOL_SOCKET, libc::SCM_RIGHTS);
    assert!(received.expect("some of the descriptors fit").len() / 4 < descriptors);
}

/// A socket whose datagrams have two control messages, and one whose datagrams have none.
fn rich_and_plain() -> (UdpSocket, UdpSocket) {
    let (rich, plain) = (udp4(), udp4());
    ask(&rich, IPPROTO_IP, &[libc::IP_PKTINFO, libc::IP_RECVTTL]);
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
fn assert_control(messages: ControlMessages<'_>, rich: bool) {
    let seen: Vec<_> = messages.map(|m| (m.level, m.ty, m.data.len())).collect();
    let all = [(IPPROTO_IP, libc::IP_PKTINFO, 12), (IPPROTO_IP, libc::IP_TTL, 4)];
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
