//! `recvmsg_x` and `sendmsg_x` on a stand-in for Apple's kernel, which makes Linux's single-message calls by
//! Apple's rules. Everything above the calls is the same as on other systems.

pub(super) mod fake;
mod receive;
mod send;

use std::io;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use fake::{FakeCall, take_calls};

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

fn arena() -> MmsgBuf {
    MmsgBuf::with_backend(Backend::Mmsg)
}

/// The payload of datagram `i`.
fn payload(i: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (i * 31 + at) as u8).collect()
}

/// The calls of one direction: how many were offered, and moved.
fn calls(direction: crate::sys::Direction) -> Vec<(usize, Option<usize>)> {
    let of = |call: &FakeCall| call.direction == direction;
    take_calls().into_iter().filter(of).map(|call| (call.offered, call.moved)).collect()
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

fn arena_recv_into(batch: &mut RecvBatch, socket: &UdpSocket) -> usize {
    Backend::Mmsg.make_process_default().unwrap();
    socket.recv_into(batch).unwrap()
}

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
    assert_eq!(take_calls(), []);
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
