//! Control messages of Linux, raw: asked for by socket options, read and sent as bytes.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use libc::{IPPROTO_IP, IPPROTO_IPV6};
use mmsg::control::{CONTROL_SPACE, ControlBuf, ControlMessages};
use mmsg::{
    BatchSocket, BatchSocketExt, Ecn, MmsgBuf, Offload, RecvBatch, RecvMsg, SendMeta, SendMsg,
};

use crate::common::descriptors::pass;
use crate::common::linux::set_option;
use crate::common::recv::{data_of, memory, payloads, recv_msgs_with};
use crate::common::sockets::{addr, settle, udp4, udp6, unix_pair};
use crate::common::{code, payload};

/// The payload of the control message of this level and type, if there is one.
fn find(messages: ControlMessages<'_>, level: i32, ty: i32) -> Option<Vec<u8>> {
    messages.into_iter().find(|m| (m.level, m.ty) == (level, ty)).map(|m| m.data.to_vec())
}

fn ask(socket: &UdpSocket, level: i32, options: &[i32]) {
    for option in options {
        set_option(socket, level, *option, 1).expect("an option of every Linux");
    }
}

fn control(messages: &[(i32, i32, &[u8])]) -> ControlBuf {
    let mut control = ControlBuf::new();
    for (level, ty, data) in messages {
        control.push(*level, *ty, data).expect("there is space");
    }
    control
}

#[test]
fn each_message_of_a_batch_is_sent_with_its_own_tos() {
    let (from, to) = (udp4(), udp4());
    ask(&to, IPPROTO_IP, &[libc::IP_RECVTOS]);
    // Linux takes a byte and an int.
    let one = control(&[(IPPROTO_IP, libc::IP_TOS, &[0x02])]);
    let two = control(&[(IPPROTO_IP, libc::IP_TOS, &0xb8i32.to_ne_bytes())]);
    let plain = SendMsg::to(addr(&to), b"data");
    let msgs = [plain.with_control(&one), plain, plain.with_control(&two)];
    assert_eq!(from.send_batch(&msgs).expect("they are taken"), 3);
    settle();
    let mut batch = RecvBatch::new(4, 16);
    assert_eq!(to.recv_into(&mut batch).expect("they are there"), 3);
    let seen = batch.messages().map(|m| find(m.control_messages(), IPPROTO_IP, libc::IP_TOS));
    assert!(seen.eq([0x02, 0, 0xb8].map(|tos| Some(vec![tos]))));
}

#[test]
fn the_traffic_class_of_ipv6_is_carried_both_ways() {
    let (Some(from), Some(to)) = (udp6(), udp6()) else { return };
    ask(&to, IPPROTO_IPV6, &[libc::IPV6_RECVTCLASS]);
    let control = control(&[(IPPROTO_IPV6, libc::IPV6_TCLASS, &0x2ei32.to_ne_bytes())]);
    let msg = SendMsg::to(addr(&to), b"data");
    assert_eq!(from.send_batch(&[msg.with_control(&control), msg]).expect("taken"), 2);
    settle();
    let mut batch = RecvBatch::new(4, 16);
    assert_eq!(to.recv_into(&mut batch).expect("they are there"), 2);
    let class = |m: mmsg::Message<'_>| m.control_messages().next().and_then(|c| c.int());
    assert!(batch.messages().map(class).eq([Some(0x2e), Some(0)]));
}

#[test]
fn m3_every_set_of_options_is_read_right() {
    // Payloads of 12, 4 and 1 bytes: alone and together they end at every type of boundary.
    let options = [
        (libc::IP_PKTINFO, libc::IP_PKTINFO, 12),
        (libc::IP_RECVTTL, libc::IP_TTL, 4),
        (libc::IP_RECVTOS, libc::IP_TOS, 1),
    ];
    for set in 0..8 {
        let (from, to) = (udp4(), udp4());
        let asked = options.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
        let asked: Vec<_> = asked.map(|(_, option)| *option).collect();
        ask(&to, IPPROTO_IP, &asked.iter().map(|option| option.0).collect::<Vec<_>>());
        for len in 0..4 {
            from.send_to(&payload(len, len), addr(&to)).expect("it is taken");
        }
        settle();
        let mut controls: [ControlBuf; 4] = Default::default();
        let mut memory = memory(4, 16);
        let mut msgs = recv_msgs_with(&mut memory, &mut controls);
        assert_eq!(to.recv_batch(&mut msgs).expect("they are there"), 4);
        for (len, msg) in msgs.iter().enumerate() {
            assert!(msg.data() == payload(len, len) && !msg.control_truncated());
            assert_eq!(msg.control_messages().count(), asked.len());
            for (_, ty, len) in &asked {
                let data = find(msg.control_messages(), IPPROTO_IP, *ty).expect("asked for");
                assert_eq!(data.len(), *len);
                match *ty {
                    libc::IP_PKTINFO => assert_eq!(data[8..], Ipv4Addr::LOCALHOST.octets()),
                    libc::IP_TTL => assert_eq!(data, 64i32.to_ne_bytes()),
                    _ => assert_eq!(data, [0]),
                }
            }
        }
    }
}

#[test]
fn m3_a_message_after_an_odd_one_is_sent_right() {
    let (from, to) = (udp4(), udp4());
    ask(&to, IPPROTO_IP, &[libc::IP_RECVTTL, libc::IP_RECVTOS]);
    let tos: (i32, i32, &[u8]) = (IPPROTO_IP, libc::IP_TOS, &[0x04]);
    let ttl = 7i32.to_ne_bytes();
    let ttl: (i32, i32, &[u8]) = (IPPROTO_IP, libc::IP_TTL, &ttl);
    for order in [[tos, ttl], [ttl, tos]] {
        let control = control(&order);
        assert_eq!(control.messages().count(), 2);
        // The size of a struct with a byte before it is odd; the buffer's own alignment holds.
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
fn e17_options_and_control_messages_go_together_and_set_nothing_twice() {
    let (from, to) = (udp4(), udp4());
    ask(&to, IPPROTO_IP, &[libc::IP_RECVTTL, libc::IP_RECVTOS]);
    let offload = Offload::new(from.try_clone().expect("a descriptor")).expect("a UDP socket");
    let sockets: [&dyn BatchSocket; 2] = [&from, &offload];
    for socket in sockets {
        for len in 0u8..20 {
            let tos = control(&[(IPPROTO_IP, libc::IP_TOS, &[4 * len])]);
            let meta = SendMeta::new().with_hop_limit(len + 1);
            let data = payload(len.into(), len.into());
            let msg = SendMsg::to(addr(&to), &data).with_control(&tos);
            assert_eq!(socket.send_batch(&[msg.with_meta(&meta)]).expect("it is taken"), 1);

            for twice in [SendMeta::new().with_tos(0), SendMeta::new().with_ecn(Ecn::Ect0)] {
                let error = socket.send_batch(&[msg.with_meta(&twice)]).expect_err("two values");
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
            }
        }
        settle();
        let mut batch = RecvBatch::new(20, 32);
        assert_eq!(to.recv_into(&mut batch).expect("they are there"), 20);
        for (len, message) in (0u8..).zip(batch.messages()) {
            let of = |ty| find(message.control_messages(), IPPROTO_IP, ty);
            assert_eq!(message.data(), payload(len.into(), len.into()));
            assert_eq!(of(libc::IP_TOS), Some(vec![4 * len]));
            assert_eq!(of(libc::IP_TTL), Some(i32::from(len + 1).to_ne_bytes().to_vec()));
        }
    }
}

#[test]
fn the_destination_of_a_datagram_is_received_in_both_families() {
    for to in [Some(udp4()), udp6()].into_iter().flatten() {
        let (level, option, ty) = match addr(&to).ip() {
            IpAddr::V4(_) => (IPPROTO_IP, libc::IP_PKTINFO, libc::IP_PKTINFO),
            IpAddr::V6(_) => (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, libc::IPV6_PKTINFO),
        };
        ask(&to, level, &[option]);
        to.send_to(b"to myself", addr(&to)).expect("it is taken");
        let (mut bytes, mut control) = ([0; 16], ControlBuf::new());
        let mut msgs = [RecvMsg::new(&mut bytes).with_control(&mut control)];
        assert_eq!(to.recv_batch(&mut msgs).expect("it is there"), 1);
        let payload = find(msgs[0].control_messages(), level, ty).expect("asked for");
        match addr(&to).ip() {
            IpAddr::V4(ip) => assert_eq!(payload[8..12], ip.octets()),
            IpAddr::V6(ip) => assert_eq!(payload[..16], ip.octets()),
        }
        // Without a `ControlBuf` a message has no raw control messages.
        to.send_to(b"to myself", addr(&to)).expect("it is taken");
        let mut msgs = [RecvMsg::new(&mut bytes)];
        assert_eq!(to.recv_batch(&mut msgs).expect("it is there"), 1);
        assert_eq!(msgs[0].control_messages().count(), 0);
        assert!(!msgs[0].control_truncated());
    }
}

#[test]
fn a_source_address_can_be_chosen_for_one_message() {
    let (Some(to), Ok(from)) = (udp6(), UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))) else {
        return;
    };
    let mut wanted = Ipv6Addr::LOCALHOST.octets().to_vec();
    wanted.extend(0i32.to_ne_bytes());
    let control = control(&[(IPPROTO_IPV6, libc::IPV6_PKTINFO, &wanted)]);
    let msg = SendMsg::to(addr(&to), b"data").with_control(&control);
    let mut arena = MmsgBuf::new();
    assert_eq!(arena.send(&from, &[msg]).expect("it is taken"), 1);
    assert_eq!(payloads(&to, 1), [b"data"]);
}

#[test]
fn a_control_message_that_the_kernel_rejects_fails_its_message() {
    let (from, to) = (udp4(), udp4());
    // A time to live of 0 is invalid.
    let rejected = control(&[(IPPROTO_IP, libc::IP_TTL, &0i32.to_ne_bytes())]);
    let good = SendMsg::to(addr(&to), b"good");
    let bad = good.with_control(&rejected);
    assert_eq!(code(from.send_batch(&[bad, good])), libc::EINVAL);
    let mut failed = Vec::new();
    let done = from.send_each([good, bad, good], |index, error| {
        failed.push((index, error.raw_os_error()));
    });
    assert_eq!((done.expect("two are taken"), failed), (3, vec![(1, Some(libc::EINVAL))]));
    assert_eq!(payloads(&to, 2), [b"good"; 2]);
}

#[test]
fn d33_r7_truncated_control_data_is_reported_for_its_message_alone() {
    let (a, b) = unix_pair();
    // The peer's credentials and as many descriptors as fit a buffer do not fit it together.
    set_option(&b, libc::SOL_SOCKET, libc::SO_PASSCRED, 1).expect("an option of every Linux");
    // SAFETY: arithmetic on its argument.
    let header = unsafe { libc::CMSG_LEN(0) } as usize;
    let descriptors = (CONTROL_SPACE - header) / 4;
    for (data, count) in [(b"one", 0), (b"two", descriptors), (b"six", 0)] {
        pass(&a, data, &a, count);
    }

    let mut controls: [ControlBuf; 3] = Default::default();
    let mut memory = memory(3, 16);
    let mut msgs = recv_msgs_with(&mut memory, &mut controls);
    assert_eq!(b.recv_batch(&mut msgs).expect("they are there"), 3);
    assert_eq!(data_of(&msgs), [b"one", b"two", b"six"]);
    assert!(msgs.iter().map(RecvMsg::control_truncated).eq([false, true, false]));
    // A Unix socket coalesces nothing, so no segment size was lost.
    assert!(!msgs.iter().any(RecvMsg::truncated));
    let datagrams = msgs.iter().flat_map(RecvMsg::datagrams);
    assert!(datagrams.map(|datagram| datagram.data()).eq([b"one", b"two", b"six"]));

    let received = find(msgs[1].control_messages(), libc::SOL_SOCKET, libc::SCM_RIGHTS);
    let received = received.expect("some of the descriptors fit");
    assert!(received.len() / 4 < descriptors);
}

#[test]
fn d33_a_batch_shows_unix_messages_with_truncated_control_data() {
    let (a, b) = unix_pair();
    set_option(&b, libc::SOL_SOCKET, libc::SO_PASSCRED, 1).expect("an option of every Linux");
    // SAFETY: arithmetic on its argument.
    let header = unsafe { libc::CMSG_LEN(0) } as usize;
    pass(&a, b"before", &a, 0);
    pass(&a, b"rights", &a, (CONTROL_SPACE - header) / 4);

    let mut batch = RecvBatch::new(4, 16);
    assert_eq!(b.recv_into(&mut batch).expect("they are there"), 2);
    assert!(batch.messages().map(|m| m.control_truncated()).eq([false, true]));
    assert!(!batch.messages().any(|message| message.truncated()));
    assert!(
        batch
            .iter()
            .map(|d| (d.data(), d.truncated()))
            .eq([(&b"before"[..], false), (b"rights", false)])
    );
}
