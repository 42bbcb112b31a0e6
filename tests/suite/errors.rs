//! Errors: which message each is about, its errno, and which messages are still sent.

#[cfg(unix)]
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
#[cfg(unix)]
use std::os::fd::AsFd;

use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMsg};
#[cfg(target_os = "linux")]
use socket2::{Domain, SockRef, Socket, Type};

use crate::common::recv::{collect, memory, payloads, recv_msgs};
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{addr, borrow, refusing, settle_answers, udp4};
use crate::common::{
    choose_backend, code, errno, fails_alone, has_icmp_errors, is_refused, would_block,
};

/// The messages are rejected locally, with the same errors as in std's call.
#[test]
fn an_error_at_any_position_is_of_its_message_alone() {
    let (from, to, too_long) = (udp4(), udp4(), vec![0; 70_000]);
    let offload = Offload::new(udp4()).expect("a UDP socket");
    let port = addr(&to).port();
    let dests = [
        (addr(&to), &too_long[..]),
        ((Ipv4Addr::LOCALHOST, 0).into(), b"to port 0"),
        ((Ipv4Addr::BROADCAST, port).into(), b"not asked for"),
        ((Ipv6Addr::LOCALHOST, port).into(), b"the other family"),
    ];
    // Some systems send to port 0.
    let bad = dests.into_iter().filter_map(|(dest, data)| {
        let sent = from.send_to(data, dest);
        sent.is_err().then(|| (code(sent), SendMsg::to(dest, data)))
    });
    let nowhere = (code(from.send(b"where to?")), SendMsg::new(b"where to?"));
    let bad: Vec<_> = bad.chain([nowhere]).collect();
    assert!(bad.len() > 3, "{} of 5 fail", bad.len());
    for (errno, bad) in bad {
        let good = SendMsg::to(addr(&to), b"good");
        fails_alone(&from, &to, [good, bad], errno);
        fails_alone(&offload, &to, [good, bad], errno);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn errors_of_the_socket_end_a_call_of_any_length() {
    let (closed, peer) = (udp4(), udp4());
    closed.connect(addr(&peer)).expect("connecting only stores the peer");
    SockRef::from(&closed).shutdown(std::net::Shutdown::Write).expect("it is connected");
    for count in [1, 2, 5] {
        let msgs = vec![SendMsg::new(b"late"); count];
        assert_eq!(code(closed.send_batch(&msgs)), libc::EPIPE);
        let mut failed = Vec::new();
        let note = |i, error| failed.push((i, code::<()>(Err(error))));
        assert_eq!(closed.send_each(&msgs, note).expect("each is reported"), count);
        assert!(failed.into_iter().eq((0..count).map(|i| (i, libc::EPIPE))));
    }
}

/// The BSDs return the datagram first, and the receive's next call takes the error.
#[cfg(any(target_os = "linux", windows))]
#[test]
fn connection_refused_is_returned_once_and_loses_nothing_received() {
    if !has_icmp_errors() {
        return;
    }
    let gone = refusing();
    let socket = udp4();
    socket.send_to(b"earlier", addr(&socket)).expect("it is taken");
    socket.connect(addr(&gone)).expect("connecting only stores the peer");
    let mut memory = memory(4, 16);
    let mut msgs = recv_msgs(&mut memory);
    let mut receive = || socket.recv_batch(&mut msgs);
    assert_eq!(socket.send_batch(&[SendMsg::new(b"hello?")]).expect("no answer yet"), 1);
    settle_answers();
    // Linux returns the error first; earlier datagrams wait behind it.
    assert!(is_refused(&receive().expect_err("it is returned")));
    assert_eq!(receive().expect("the earlier one"), 1);
    socket.set_nonblocking(true).expect("an open socket");
    assert!(would_block(receive()), "returned once");
    assert!(would_block(socket.recv_into(&mut RecvBatch::new(4, 16))), "returned once");
}

/// A Unix socket may not send to a peer that is connected to another socket. A firewall, and a sandbox without
/// multi-message calls, return the same errno.
#[cfg(target_os = "linux")]
#[test]
fn eperm_from_a_peer_is_not_taken_for_a_sandbox() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    choose_backend();
    let bound = |role: &str| {
        let name = format!("mmsg s10 {role} {}", std::process::id());
        let name = SocketAddr::from_abstract_name(name).expect("a name");
        (UnixDatagram::bind_addr(&name).expect("nobody else has the name"), name)
    };
    let ((a, a_name), (b, b_name), (_c, c_name)) = (bound("a"), bound("b"), bound("c"));
    a.connect_addr(&b_name).expect("it is there");
    b.connect_addr(&c_name).expect("it is there");

    let msgs = [b"0", b"1", b"2", b"3"].map(|data| SendMsg::new(data));
    assert_eq!(code(a.send_batch(&msgs)), errno::EPERM);
    assert_eq!(code(a.send_batch(&msgs[..1])), errno::EPERM);
    assert_eq!(Some(mmsg::Backend::current()), crate::BACKEND);

    // After the first error the peer connects back: only that message has failed.
    let mut failed = Vec::new();
    let mut turn_back = |index, error: io::Error| {
        failed.push((index, error.raw_os_error()));
        b.connect_addr(&a_name).expect("it is there");
    };
    assert_eq!(a.send_each(msgs, &mut turn_back).expect("the queue has space"), 4);
    assert_eq!(failed, [(0, Some(errno::EPERM))]);
    assert_eq!(payloads(&b, 3), [b"1", b"2", b"3"]);
    assert_eq!(Some(mmsg::Backend::current()), crate::BACKEND);
}

#[cfg(unix)]
#[test]
fn a_descriptor_that_is_no_socket_is_an_error() {
    choose_backend();
    let file = File::open("/dev/null").expect("every Unix has it");
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let msgs = [SendMsg::to(to, b"one"), SendMsg::to(to, b"two")];
    for count in [1, 2] {
        assert_eq!(code(file.as_fd().send_batch(&msgs[..count])), errno::ENOTSOCK);
        assert_eq!(
            code(file.as_fd().recv_batch(&mut recv_msgs(&mut memory(count, 16)))),
            errno::ENOTSOCK
        );
        assert_eq!(code(file.as_fd().recv_into(&mut RecvBatch::new(count, 16))), errno::ENOTSOCK);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_packet_socket_is_an_error() {
    choose_backend();
    match Socket::new(Domain::PACKET, Type::DGRAM, None) {
        Ok(socket) => {
            assert_eq!(code(borrow(&socket).recv_into(&mut RecvBatch::new(2, 16))), errno::EINVAL)
        }
        Err(error) => crate::common::skip(error),
    }
}

#[cfg(unix)]
#[test]
fn a_full_socket_is_no_error_of_a_message() {
    let (a, b) = unix_pair();
    a.set_nonblocking(true).expect("an open socket");
    let numbers: Vec<_> = (0u16..2_000).map(u16::to_be_bytes).collect();
    let msgs: Vec<_> = numbers.iter().map(|data| SendMsg::new(data)).collect();
    let none = |index, error| panic!("message {index}: {error}");
    let mut given = 0;
    let done = a.send_each(msgs.iter().inspect(|_| given += 1), none).expect("some are taken");
    assert!(0 < done && done < 2_000, "a Unix socket's queue is short: {done}");
    assert!((done..=done + 256).contains(&given), "{given}");
    assert!(would_block(a.send_each(&msgs[done..], none)));
    assert!(would_block(a.send_batch(&msgs[done..])));
    let got = collect(&b, done);
    assert!(got.iter().map(|got| &got.data[..]).eq(numbers[..done].iter().map(|n| &n[..])));
    assert_eq!(a.send_each(&msgs[done..][..1], none).expect("there is space again"), 1);
}

#[test]
fn an_impossible_batch_is_rejected_when_it_is_made() {
    let wrong =
        [(0, 1), (1, 0), (0, 0), (usize::MAX, 1), (1, usize::MAX), (usize::MAX, usize::MAX)];
    for (slots, len) in wrong {
        let error = RecvBatch::try_new(slots, len).expect_err("it cannot be");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{slots} slots of {len}");
        assert!(std::panic::catch_unwind(|| RecvBatch::new(slots, len)).is_err());
    }
    let socket: UdpSocket = udp4();
    let mut smallest = RecvBatch::try_new(1, 1).expect("one slot of one byte");
    socket.send_to(b"x", addr(&socket)).expect("it is taken");
    assert_eq!(socket.recv_into(&mut smallest).expect("it is there"), 1);
}

#[test]
fn a_datagram_that_is_too_big_is_told_apart_on_every_system() {
    use mmsg::errors::is_too_big;

    let (from, to) = (udp4(), udp4());
    let too_big = from.send_batch(&[SendMsg::to(addr(&to), &[0; 70_000])]);
    assert!(is_too_big(&too_big.expect_err("no datagram is so long")));
    assert!(!is_too_big(&io::Error::from_raw_os_error(errno::EINVAL)));
    assert!(!is_too_big(&ErrorKind::InvalidInput.into()));
}
