//! `recvmsg_x` and `sendmsg_x` on a stand-in for Apple's kernel, which makes Linux's single-message calls by
//! Apple's rules. Everything above the calls is the same as on other systems.

pub(super) mod fake;
mod receive;
mod send;

use std::io;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use fake::{Made, made};

use super::is_safe;
use crate::sys::Direction::{Receive, Send};
use crate::sys::fault::{self, Call, Fate};
use crate::{Backend, BatchSocket, MmsgBuf, RecvBatch, RecvFlags, RecvMsg, SendFlags, SendMsg};

/// A connected pair on loopback.
fn pair() -> (UdpSocket, UdpSocket) {
    let (near, far) = (socket(), socket());
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    (near, far)
}

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// A connected pair, where datagrams of these lengths wait in the second socket.
fn waiting(lens: impl IntoIterator<Item = usize>) -> (UdpSocket, UdpSocket) {
    let (near, far) = pair();
    send_plainly(&near, lens);
    (near, far)
}

fn send_plainly(near: &UdpSocket, lens: impl IntoIterator<Item = usize>) {
    for (i, len) in lens.into_iter().enumerate() {
        assert_eq!(near.send(&payload(i, len)).unwrap(), len);
    }
}

fn arena() -> MmsgBuf {
    MmsgBuf::with_backend(Backend::Mmsg)
}

/// The payload of datagram `i`.
fn payload(i: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (i * 31 + at) as u8).collect()
}

/// The calls of one direction: how many were offered, and moved.
fn calls(direction: crate::sys::Direction) -> Vec<(usize, Option<usize>)> {
    let of = |made: &Made| made.direction == direction;
    made().into_iter().filter(of).map(|made| (made.offered, made.moved)).collect()
}

fn scripted(call: Call) -> usize {
    fault::log().iter().filter(|logged| logged.call == call).count()
}

#[test]
fn releases_since_15_6() {
    for safe in ["24.6.0", "24.6", "25.0.0", "25.1.0-beta", "100.0.0"] {
        assert!(is_safe(safe), "{safe}");
    }
    for unsafe_release in ["24.5.0", "24.5.9", "23.6.0", "9.9", "", "24", "24.x", "x.6", "-1.7"] {
        assert!(!is_safe(unsafe_release), "{unsafe_release}");
    }
}

#[test]
fn a_receive_moves_as_many_a_call_as_the_kernel_allows() {
    for (limit, first) in [(1, 1), (10, 10), (63, 63), (64, 64), (100, 64), (256, 64)] {
        let (near, far) = waiting((0..200).map(|i| i % 50));
        let _installed = fake::install(limit);
        let mut batch = RecvBatch::new(256, 100);
        assert_eq!(arena_recv_into(&mut batch, &far), 200, "{limit}");
        for (i, datagram) in batch.iter().enumerate() {
            assert_eq!((datagram.data(), datagram.truncated()), (&payload(i, i % 50)[..], false));
            assert_eq!(datagram.addr(), Some(near.local_addr().unwrap()));
        }
        let calls = calls(Receive);
        assert_eq!(calls[0], (first, Some(first)), "{limit}");
        assert!(calls.iter().all(|(offered, _)| *offered <= first));
    }
}

fn arena_recv_into(batch: &mut RecvBatch, socket: &UdpSocket) -> usize {
    Backend::Mmsg.make_process_default().unwrap();
    socket.recv_into(batch).unwrap()
}

#[test]
fn a_limit_that_was_lowered_meanwhile_makes_shorter_batches() {
    let (_near, far) = waiting([5; 30]);
    let _installed = fake::install(64);
    fake::lower(7);
    let mut batch = RecvBatch::new(64, 100);
    for received in [7, 7, 7, 7, 2] {
        assert_eq!(arena_recv_into(&mut batch, &far), received);
    }
    assert_eq!(calls(Receive).len(), 5);
}

#[test]
fn a_truncated_datagram_is_found_by_the_spare_byte() {
    let lens = [9, 10, 11, 12, 1000, 0, 10];
    let (_near, far) = waiting(lens);
    let _installed = fake::install(256);
    let mut memory = [[0xee; 12]; 7];
    let mut msgs: Vec<_> = memory.iter_mut().map(|m| RecvMsg::new(&mut m[..10])).collect();
    assert_eq!(arena().recv(&far, &mut msgs).unwrap(), 7);
    for (i, (msg, len)) in msgs.iter().zip(lens).enumerate() {
        let truncated = len > 10;
        assert_eq!((msg.len(), msg.truncated()), (len.min(10), truncated), "{len}");
        assert_eq!(msg.full_len(), (!truncated).then_some(len));
        assert_eq!(msg.data(), &payload(i, len)[..len.min(10)]);
    }
    drop(msgs);
    assert!(memory.iter().all(|m| m[10..] == [0xee; 2]), "nothing is written past a buffer");
    assert_eq!(calls(Receive), [(7, Some(7))]);
}

#[test]
fn a_call_takes_messages_with_as_many_buffers_as_the_first_has() {
    let (_near, far) = waiting([6; 6]);
    let _installed = fake::install(256);
    let mut memory = [[0; 2]; 15];
    let mut memory = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer));
    let mut buffers: Vec<Vec<_>> =
        [3, 3, 1, 4, 4, 0].map(|count| memory.by_ref().take(count).collect()).into();
    let mut msgs: Vec<_> = buffers.iter_mut().map(|b| RecvMsg::scatter(b)).collect();
    assert_eq!(arena().recv(&far, &mut msgs).unwrap(), 6);
    let results: Vec<_> = msgs.iter().map(|msg| (msg.len(), msg.truncated())).collect();
    assert_eq!(results, [(6, false), (6, false), (2, true), (6, false), (6, false), (0, true)]);
    assert_eq!(calls(Receive), [(2, Some(2)), (1, Some(1)), (2, Some(2)), (1, Some(1))]);
}

#[test]
fn a_message_with_too_many_buffers_goes_by_recvmsg() {
    let (_near, far) = waiting([300; 3]);
    let _installed = fake::install(256);
    fault::script([]);
    let mut memory = vec![[0; 1]; 600];
    let mut buffers: Vec<_> = memory.iter_mut().map(|b| IoSliceMut::new(b)).collect();
    let mut msgs: Vec<_> = buffers.chunks_mut(300).map(RecvMsg::scatter).collect();
    assert_eq!(arena().recv(&far, &mut msgs).unwrap(), 2);
    assert!(msgs.iter().all(|msg| msg.len() == 300 && !msg.truncated()));
    assert_eq!((calls(Receive), scripted(Call::RecvMsg)), (vec![], 2));
}

#[test]
fn control_data_that_may_be_of_another_datagram_is_dropped() {
    let (near, far) = pair();
    Ancillary::HOP_LIMIT.require(&far).unwrap();
    let _installed = fake::install(256);
    let mut batch = RecvBatch::new(8, 100);
    for (without, received) in [(0, 3), (1, 3), (2, 3), (3, 3), (0, 1)] {
        send_plainly(&near, vec![4; received]);
        fake::without_control(without);
        assert_eq!(arena_recv_into(&mut batch, &far), received);
        // With none at all nothing was lost.
        let (all, some) = (without == 0, (1..received).contains(&without));
        for (i, message) in batch.messages().enumerate() {
            assert_eq!((message.data(), message.addr().is_some()), (&payload(i, 4)[..], true));
            assert_eq!(message.control_truncated(), some, "{without}");
            assert_eq!(message.meta().hop_limit.is_some(), all, "{without}");
        }
    }
}

#[test]
fn control_data_without_space_is_truncated() {
    let (near, far) = pair();
    Ancillary::HOP_LIMIT.require(&far).unwrap();
    let _installed = fake::install(256);
    near.send(b"one").unwrap();
    near.send(b"two").unwrap();
    fake::space_for_control(4);
    let mut batch = RecvBatch::new(8, 100);
    assert_eq!(arena_recv_into(&mut batch, &far), 2);
    assert!(batch.messages().all(|m| m.control_truncated() && m.meta().hop_limit.is_none()));
}

/// Sends as both backends do, and returns what came.
fn send_all(near: &UdpSocket, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
    arena().send(near, msgs)
}

fn delivered(far: &UdpSocket) -> Vec<Vec<u8>> {
    far.set_nonblocking(true).unwrap();
    let mut buffer = [0; 2000];
    std::iter::from_fn(|| far.recv(&mut buffer).ok().map(|len| buffer[..len].to_vec())).collect()
}

#[test]
fn flags_that_the_call_rejects_go_by_sendmsg() {
    let (near, far) = pair();
    let msgs = [SendMsg::new(b"one"), SendMsg::new(b"two")];
    let _installed = fake::install(256);
    for flags in [SendFlags::DONT_WAIT, SendFlags::DONT_ROUTE] {
        assert_eq!(arena().send_with(&near, &msgs, flags).unwrap(), 2);
    }
    assert_eq!((calls(Send), delivered(&far).len()), (vec![], 4));
    far.set_nonblocking(false).unwrap();
    near.send(b"three").unwrap();
    let mut memory = [[0; 8]; 2];
    let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
    assert_eq!(arena().recv_with(&far, &mut msgs, RecvFlags::PEEK).unwrap(), 1);
    assert_eq!(calls(Receive), []);
    assert_eq!(arena().recv_with(&far, &mut msgs, RecvFlags::DONT_WAIT).unwrap(), 1);
    assert_eq!(calls(Receive), [(2, Some(1))]);
}

#[test]
fn a_partial_send_goes_on_one_by_one() {
    for count in 1..5 {
        let (near, far) = pair();
        let payloads: Vec<_> = (0..5).map(|i| payload(i, 4)).collect();
        let msgs: Vec<_> = payloads.iter().map(|payload| SendMsg::new(payload)).collect();
        let _installed = fake::install(256);
        // The kernel drops the error that ended the call. The message meets it again, or is sent.
        fault::script([(Call::SendMmsg, Fate::AtMost(count))]);
        assert_eq!(send_all(&near, &msgs).unwrap(), 5);
        assert_eq!(delivered(&far), payloads);
        fault::script([
            (Call::SendMmsg, Fate::AtMost(count)),
            (Call::SendMsg, Fate::Fail(libc::ENOBUFS)),
        ]);
        assert_eq!(send_all(&near, &msgs).unwrap(), count);
        assert_eq!(fault::finish().len(), 2);
        assert_eq!(delivered(&far), payloads[..count]);
    }
}

#[test]
fn an_error_of_a_send_is_the_first_message_s() {
    let msgs: Vec<_> = (0..150).map(|_| SendMsg::new(b"some")).collect();
    let _installed = fake::install(256);
    for errno in [libc::EMSGSIZE, libc::EAGAIN, libc::EPIPE, libc::ECONNREFUSED] {
        let (near, far) = pair();
        fault::script([(Call::SendMmsg, Fate::Fail(errno))]);
        let error = send_all(&near, &msgs).unwrap_err();
        assert_eq!((error.raw_os_error(), delivered(&far).len()), (Some(errno), 0));
        // In the second call.
        fault::script([(Call::SendMmsg, Fate::Kernel), (Call::SendMmsg, Fate::Fail(errno))]);
        assert_eq!((send_all(&near, &msgs).unwrap(), delivered(&far).len()), (64, 64));
        assert_eq!(fault::finish().len(), 2);
        // The message that another error was about meets it again.
        let next = send_all(&near, &msgs).map_err(|error| error.raw_os_error());
        let is_reported_once = errno == libc::ECONNREFUSED;
        assert_eq!(next, if is_reported_once { Err(Some(errno)) } else { Ok(150) });
    }
}

#[test]
fn a_tos_that_the_kernel_rejects_is_left_out() {
    let (near, far) = pair();
    let msgs: Vec<_> = (0..3).map(|_| SendMsg::new(b"some").with_ecn(crate::Ecn::Ect0)).collect();
    let _installed = fake::install(256);
    fault::script([
        (Call::SendMmsg, Fate::Fail(libc::EINVAL)),
        (Call::SendMsg, Fate::Fail(libc::EINVAL)),
    ]);
    assert_eq!((send_all(&near, &msgs).unwrap(), delivered(&far).len()), (3, 3));
    fault::finish();
}

#[test]
fn errors_of_a_receive() {
    let (near, far) = pair();
    let _installed = fake::install(256);
    let mut batch = RecvBatch::new(150, 100);
    for errno in [libc::ECONNREFUSED, libc::ENOBUFS, libc::EAGAIN] {
        send_plainly(&near, [4; 100]);
        fault::script([(Call::RecvMmsg, Fate::Fail(errno))]);
        Backend::Mmsg.make_process_default().unwrap();
        let error = far.recv_into(&mut batch).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(errno));
        // In the second call: it is the next one's, but for "nothing more waits".
        fault::script([(Call::RecvMmsg, Fate::Kernel), (Call::RecvMmsg, Fate::Fail(errno))]);
        assert_eq!(far.recv_into(&mut batch).unwrap(), 64);
        let next = far.recv_into(&mut batch);
        if errno == libc::EAGAIN {
            assert_eq!(next.unwrap(), 36);
        } else {
            assert_eq!(next.unwrap_err().raw_os_error(), Some(errno));
            assert_eq!(far.recv_into(&mut batch).unwrap(), 36);
        }
        fault::finish();
    }
}

#[test]
fn the_end_of_a_socket_is_a_receive_of_none() {
    let (near, far) = pair();
    near.send(b"last").unwrap();
    let _installed = fake::install(256);
    let mut batch = RecvBatch::new(8, 100);
    assert_eq!(arena_recv_into(&mut batch, &far), 1);
    socket2::SockRef::from(&far).shutdown(std::net::Shutdown::Read).unwrap();
    for _ in 0..2 {
        assert_eq!(arena_recv_into(&mut batch, &far), 0);
    }
    assert_eq!(calls(Receive), [(8, Some(1)), (8, Some(0)), (8, Some(0))]);
}

#[test]
fn other_sockets_have_a_call_for_each_message() {
    let (near, far) = UnixDatagram::pair().unwrap();
    let _installed = fake::install(256);
    let mut control = crate::control::ControlBuf::new();
    control.push_fds(&[std::os::fd::AsFd::as_fd(&near)]).unwrap();
    let msgs = [SendMsg::new(b"one").with_control(&control), SendMsg::new(b"two")];
    assert_eq!(arena().send(&near, &msgs).unwrap(), 2);
    let mut batch = RecvBatch::new(8, 100);
    batch.accept_fds(true);
    Backend::Mmsg.make_process_default().unwrap();
    assert_eq!(far.recv_into(&mut batch).unwrap(), 2);
    assert_eq!(batch.take_fds(0).count(), 1);
    assert_eq!(made(), []);
}

#[test]
fn without_the_calls_each_message_has_its_own() {
    let (near, far) = pair();
    let msgs = [SendMsg::new(b"one"), SendMsg::new(b"two")];
    let mut batch = RecvBatch::new(8, 100);
    let _installed = fake::install(256);
    for (errno, is_missing) in [(libc::ENOSYS, true), (libc::EPERM, false)] {
        Backend::Mmsg.make_process_default().unwrap();
        fault::script([(Call::SendMmsg, Fate::Fail(errno))]);
        let sent = arena().send(&near, &msgs);
        // A firewall's EPERM is about the message: the stand-in has the calls.
        assert_eq!(sent.ok(), is_missing.then_some(2));
        assert_eq!(Backend::current() == Backend::Msg, is_missing);
        near.send(b"one").unwrap();
        Backend::Mmsg.make_process_default().unwrap();
        fault::script([(Call::RecvMmsg, Fate::Fail(errno))]);
        assert_eq!(far.recv_into(&mut batch).is_ok(), is_missing);
        assert_eq!(Backend::current() == Backend::Msg, is_missing);
        delivered(&far);
        far.set_nonblocking(false).unwrap();
    }
    fault::script([]);
}
