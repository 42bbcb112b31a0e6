//! Control data as Windows' headers document it, since Wine supports little of it; and the errors of ICMP messages.

pub(super) mod segments;

use std::net::UdpSocket;

use windows_sys::Win32::Networking::WinSock::{
    MSG_CTRUNC, MSG_TRUNC, WSAECONNRESET, WSAENETRESET, WSAMSG,
};

use super::calls::lacks_payload;
use super::header::Header;
use crate::sys::fault::{self, Call, Fate};
use crate::sys::{Families, numbers};
use crate::{BatchSocket, Ecn, Offload, RecvBatch, RecvMeta, SendMeta, SendMsg};

/// A control message of a 64-bit program: `WSACMSGHDR`, the payload, and padding to 8 bytes.
fn message(level: i32, ty: i32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (16 + payload.len() as u64).to_le_bytes().to_vec();
    bytes.extend(level.to_le_bytes());
    bytes.extend(ty.to_le_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn encoded(v4: bool, size: Option<u16>, meta: SendMeta) -> Vec<u8> {
    let mut space = [0xEE; crate::control::CONTROL_SPACE];
    let len = meta.encode(Families { v4, v6: !v4 }, size, &[], &mut space);
    let len = len.expect("Windows has it");
    space[..len].to_vec()
}

fn int(value: i32) -> [u8; 4] {
    value.to_le_bytes()
}

fn decode(control: &[u8]) -> RecvMeta {
    let mut meta = None;
    RecvMeta::decode(control, &mut meta);
    meta.unwrap_or_default()
}

#[test]
fn settings_are_written_as_documented() {
    let new = SendMeta::new;
    for (v4, meta, expected) in [
        (true, new().with_tos(Ecn::Ect0 as u8), message(0, 50, &int(2))),
        (false, new().with_tos(Ecn::Ce as u8), message(41, 50, &int(3))),
        // A TOS byte with other bits than ECN is sent as a whole.
        (true, new().with_tos(0xB9), message(0, 3, &int(0xB9))),
        (false, new().with_tos(0xB9), message(41, 39, &int(0xB9))),
        (true, new().with_hop_limit(7), message(0, 4, &int(7))),
        (false, new().with_hop_limit(7), message(41, 21, &int(7))),
        (
            true,
            new().with_source([192, 0, 2, 1].into()).with_interface(5),
            message(0, 19, &[192, 0, 2, 1, 5, 0, 0, 0]),
        ),
        (true, new().with_interface(5), message(0, 19, &[0, 0, 0, 0, 5, 0, 0, 0])),
        (
            false,
            new().with_source([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()).with_interface(5),
            message(41, 19, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 0]),
        ),
    ] {
        assert_eq!(encoded(v4, None, meta), expected, "{meta:?}");
    }
}

/// Otherwise the buffer's old bytes would be its payload.
#[test]
fn an_empty_datagram_whose_control_data_did_not_fit_stays_empty() {
    // Wine sets no flag for a truncated payload.
    for (flags, expected) in
        [(MSG_CTRUNC, false), (MSG_TRUNC, true), (MSG_TRUNC | MSG_CTRUNC, true), (0, true)]
    {
        let msg = WSAMSG { dwFlags: flags, ..WSAMSG::default() };
        assert_eq!(lacks_payload(&Header { msg, received: 0 }), expected, "{flags:#x}");
    }
}

#[test]
fn the_segment_size_comes_first() {
    let meta = SendMeta::new().with_tos(Ecn::Ect1 as u8);
    let both = [message(17, 2, &int(9)), message(0, 50, &int(1))].concat();
    assert_eq!(encoded(true, Some(9), meta), both);
    assert_eq!(encoded(true, Some(1200), SendMeta::new()), message(17, 2, &int(1200)));
    assert_eq!(encoded(true, Some(0), SendMeta::new()), []);
}

#[test]
fn metadata_is_read_as_documented() {
    let control = [
        message(0, 19, &[192, 0, 2, 1, 5, 0, 0, 0]),
        message(0, 3, &int(0xB9)),
        message(0, 4, &int(63)),
    ]
    .concat();
    let meta = decode(&control);
    assert_eq!(meta.dest, Some([192, 0, 2, 1].into()));
    assert_eq!((meta.interface, meta.tos, meta.hop_limit), (Some(5), Some(0xB9), Some(63)));
    assert_eq!((meta.segment_size, meta.local), (None, None));
    let control = [
        message(41, 19, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 0]),
        message(41, 39, &int(0xB9)),
        message(41, 21, &int(63)),
    ]
    .concat();
    let meta = decode(&control);
    assert_eq!(meta.dest, Some([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()));
    assert_eq!((meta.interface, meta.tos, meta.hop_limit), (Some(5), Some(0xB9), Some(63)));
}

#[test]
fn ecn_alone_is_a_part_of_the_tos() {
    let (tos, ecn) = (message(0, 3, &int(0xB8)), message(0, 50, &int(2)));
    assert_eq!(decode(&ecn).ecn(), Some(Ecn::Ect0));
    // The whole byte wins, whichever comes first.
    for control in [[&tos[..], &ecn].concat(), [&ecn[..], &tos].concat()] {
        assert_eq!(decode(&control).tos, Some(0xB8));
    }
}

#[test]
fn the_numbers_are_those_of_the_headers() {
    assert_eq!(numbers::RECV_TTL, Some((0, 21)));
    assert_eq!(numbers::RECV_TOS, Some((0, 40)));
    assert_eq!(numbers::RECV_TCLASS, Some((41, 40)));
    assert_eq!(numbers::SEGMENT, Some((17, 2)));
}

/// Some machines coalesce datagrams without reporting their boundaries.
#[test]
fn coalescing_is_never_asked_for() {
    assert_eq!(numbers::GRO, None);
    let socket = Offload::builder().gro(true).build(socket()).expect("a UDP socket");
    assert!(!socket.state().gro());
}

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").expect("a loopback socket")
}

#[test]
fn calls_on_an_unconnected_socket_pass_over_icmp_errors_of_other_datagrams() {
    let socket = socket();
    let to = socket.local_addr().expect("it is bound");
    let mut batch = RecvBatch::new(8, 64);
    for code in [WSAECONNRESET, WSAENETRESET] {
        fault::script([(Call::SendMsg, Fate::Fail(code)), (Call::SendMsg, Fate::Kernel)]);
        assert_eq!(socket.send_batch(&[SendMsg::to(to, b"one")]).expect("it is sent"), 1);
        fault::finish();
        fault::script([Fate::Kernel, Fate::Fail(code)].map(|fate| (Call::SendMsg, fate)));
        let two = [SendMsg::to(to, b"two").with_ecn(Ecn::Ect0), SendMsg::to(to, b"three")];
        assert_eq!(socket.send_batch(&two).expect("the first is sent"), 1);
        fault::finish();
        assert_eq!(socket.send_batch(&two[1..]).expect("the error was about another datagram"), 1);
        fault::script([(Call::RecvMsg, Fate::Fail(code))]);
        for _ in 0..3 {
            assert_eq!(socket.recv_into(&mut batch).expect("one is there"), 1);
        }
        fault::finish();
    }
}

#[test]
fn a_connected_socket_returns_the_icmp_error_of_its_peer_once() {
    let (near, far) = (socket(), socket());
    near.connect(far.local_addr().expect("it is bound")).expect("connect only stores the peer");
    let msgs = [SendMsg::new(b"one"), SendMsg::new(b"two"), SendMsg::new(b"three")];
    for code in [WSAECONNRESET, WSAENETRESET] {
        fault::script([(Call::SendMsg, Fate::Fail(code))]);
        let error = near.send_batch(&msgs).expect_err("it is about an earlier datagram");
        fault::finish();
        assert_eq!(error.raw_os_error(), Some(code));
        assert_eq!(near.send_batch(&msgs).expect("all are sent"), 3);
        // Behind the first message, the error ends the call and is lost.
        fault::script([Fate::Kernel, Fate::Fail(code)].map(|fate| (Call::SendMsg, fate)));
        assert_eq!(near.send_batch(&msgs).expect("the first is sent"), 1);
        fault::finish();
        assert_eq!(near.send_batch(&msgs[1..]).expect("both are sent"), 2);
    }
}
