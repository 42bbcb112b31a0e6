//! The decoder of control messages, compared with a naive reading, message by message.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use crate::ancillary::{Ecn, RecvMeta};
use crate::sys::Layout;
use crate::sys::control_message::append;
use crate::sys::numbers::{self, CmsgType};

/// All control messages that are decoded, with their valid lengths.
const TYPES: [(Option<CmsgType>, &[usize]); 13] = [
    (numbers::PKTINFO_V4, &[8, 12]),
    (numbers::PKTINFO_V6, &[20]),
    (numbers::TOS, &[1, 4]),
    (numbers::TCLASS, &[1, 4]),
    (numbers::TTL, &[1, 4]),
    (numbers::HOP_LIMIT, &[1, 4]),
    (numbers::TIMESTAMP_NS, &[8, 16]),
    (numbers::TIMESTAMPING, &[24, 48]),
    (numbers::GRO, &[4]),
    (numbers::DROPPED, &[4]),
    (numbers::ORIGINAL_DEST_V4, &[16]),
    (numbers::ORIGINAL_DEST_V6, &[28]),
    (Some((77, 77)), &[]),
];

type ControlList = Vec<(Option<CmsgType>, Vec<u8>)>;

fn control(messages: &[(Option<CmsgType>, Vec<u8>)]) -> Vec<u8> {
    let mut buf = vec![0; messages.len() * 128];
    let end = messages.iter().try_fold(0, |at, (ty, payload)| {
        append(Layout::NATIVE, &mut buf, at, ty.expect("Linux has it"), payload)
    });
    buf.truncate(end.expect("the buffer is ample"));
    buf
}

fn read(messages: &[(Option<CmsgType>, Vec<u8>)]) -> RecvMeta {
    decode(&control(messages))
}

fn decode(control: &[u8]) -> RecvMeta {
    let mut meta = None;
    RecvMeta::decode(control, &mut meta);
    meta.unwrap_or_default()
}

fn one(ty: Option<CmsgType>, payload: impl Into<Vec<u8>>) -> RecvMeta {
    read(&[(ty, payload.into())])
}

/// A valid payload for `ty`, made from `seed`.
fn payload(ty: Option<CmsgType>, len: usize, seed: u32) -> Vec<u8> {
    let word = seed.to_ne_bytes();
    let small = (seed & 0xff).to_ne_bytes();
    let mut bytes = word.repeat(len.div_ceil(4));
    bytes.truncate(len);
    match ty {
        numbers::TOS | numbers::TCLASS | numbers::TTL | numbers::HOP_LIMIT if len == 4 => {
            small.to_vec()
        }
        numbers::GRO if len == 4 => (1 + (seed & 0xfff)).to_ne_bytes().to_vec(),
        numbers::TIMESTAMP_NS | numbers::TIMESTAMPING if len % 8 == 0 && len > 0 => {
            let (seconds, nanos) = (seed & 0xff_ffff, seed % 1_000_000_000);
            let stamp = match len {
                16 | 48 => {
                    [u64::from(seconds).to_ne_bytes(), u64::from(nanos).to_ne_bytes()].concat()
                }
                _ => [seconds.to_ne_bytes(), nanos.to_ne_bytes()].concat(),
            };
            stamp.repeat(len.div_ceil(stamp.len()))[..len].to_vec()
        }
        numbers::ORIGINAL_DEST_V4 if len == 16 => sockaddr(SocketAddr::from((word, 53))),
        numbers::ORIGINAL_DEST_V6 if len == 28 => {
            sockaddr("[2001:db8::1]:53".parse().expect("one"))
        }
        _ => bytes,
    }
}

/// The independent twin: socket2's conversion.
fn sockaddr(addr: SocketAddr) -> Vec<u8> {
    let (addr, mut bytes) = (socket2::SockAddr::from(addr), Vec::new());
    if let Some(v4) = addr.as_socket_ipv4() {
        bytes.extend(u16::try_from(numbers::AF_INET).expect("a small number").to_ne_bytes());
        bytes.extend(v4.port().to_be_bytes());
        bytes.extend(v4.ip().octets());
        bytes.extend([0; 8]);
    } else if let Some(v6) = addr.as_socket_ipv6() {
        bytes.extend(u16::try_from(numbers::AF_INET6).expect("a small number").to_ne_bytes());
        bytes.extend(v6.port().to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(v6.ip().octets());
        bytes.extend([0; 4]);
    }
    assert_eq!(bytes.len(), addr.len() as usize);
    bytes
}

/// Up to eight messages in any order, most with a valid length and number.
fn messages() -> impl Strategy<Value = ControlList> {
    let message = (0..TYPES.len(), any::<prop::sample::Index>(), numbers(), 0usize..8, 0usize..65)
        .prop_map(|(i, which, seed, odds, any_len)| {
            let (ty, lens) = TYPES[i];
            let len = match lens {
                [] => any_len,
                _ if odds == 0 => any_len,
                _ => *which.get(lens),
            };
            let any_number = (odds == 1).then(|| seed.to_ne_bytes().repeat(16)[..len].to_vec());
            (ty, any_number.unwrap_or_else(|| payload(ty, len, seed)))
        });
    prop::collection::vec(message, 0..8)
}

/// Any numbers, and those at the ends of what is valid.
fn numbers() -> impl Strategy<Value = u32> {
    let ends = [0, 1, 255, 256, 65_535, 65_536, 999_999_999, 1_000_000_000, i32::MAX as u32];
    prop_oneof![3 => any::<u32>(), 1 => prop::sample::select(ends.to_vec())]
}

fn word(data: &[u8]) -> u32 {
    u32::from_ne_bytes(data.try_into().expect("four bytes"))
}

fn ipv4(bytes: &[u8]) -> IpAddr {
    IpAddr::from(<[u8; 4]>::try_from(bytes).expect("four bytes"))
}

/// The naive twin: the obvious reading of each message on its own.
fn naive(messages: &[(Option<CmsgType>, Vec<u8>)]) -> RecvMeta {
    let mut meta = RecvMeta::NONE;
    let (mut v4, mut v6) = (None, None);
    for (ty, data) in messages {
        let small = |data: &[u8]| match data.len() {
            1 => Some(data[0]),
            4 => u8::try_from(word(data)).ok(),
            _ => None,
        };
        match (*ty, data.len()) {
            (numbers::PKTINFO_V4, 8) => v4 = Some((ipv4(&data[..4]), None, word(&data[4..]))),
            (numbers::PKTINFO_V4, 12) => {
                v4 = Some((ipv4(&data[8..]), Some(ipv4(&data[4..8])), word(&data[..4])));
            }
            (numbers::PKTINFO_V6, 20) => {
                let ip = IpAddr::from(<[u8; 16]>::try_from(&data[..16]).expect("sixteen"));
                v6 = Some((ip, word(&data[16..])));
            }
            (numbers::TOS | numbers::TCLASS, _) => meta.tos = small(data).or(meta.tos),
            (numbers::TTL | numbers::HOP_LIMIT, _) => {
                meta.hop_limit = small(data).or(meta.hop_limit)
            }
            (numbers::GRO, 4) => {
                let size = u16::try_from(word(data)).ok().filter(|size| *size > 0);
                meta.segment_size = size.or(meta.segment_size);
            }
            (numbers::TIMESTAMP_NS, 8 | 16) => meta.timestamp = stamp(data).and_then(time),
            (numbers::TIMESTAMPING, 24 | 48) => {
                let stamps: Vec<_> = data.chunks(data.len() / 3).map(stamp).collect();
                let there = |i: usize| stamps[i].filter(|stamp| !stamp.is_zero());
                meta.timestamp = there(0).and_then(time).or(meta.timestamp);
                meta.hardware_timestamp = there(2);
            }
            (numbers::TIMESTAMP_NS, _) => meta.timestamp = None,
            (numbers::TIMESTAMPING, _) => meta.hardware_timestamp = None,
            (numbers::DROPPED, len) => meta.dropped = (len == 4).then(|| word(data)),
            (numbers::ORIGINAL_DEST_V4, 16) if data[2..4] == [0, 53] => {
                let ip = <[u8; 4]>::try_from(&data[4..8]).expect("four");
                meta.original_dest = Some((ip, 53).into());
            }
            (numbers::ORIGINAL_DEST_V6, 28) if data[2..4] == [0, 53] => {
                meta.original_dest = Some("[2001:db8::1]:53".parse().expect("an address"));
            }
            // Other bytes have no family of addresses.
            (numbers::ORIGINAL_DEST_V4 | numbers::ORIGINAL_DEST_V6, _) => meta.original_dest = None,
            _ => {}
        }
    }
    let index = |index: u32| Some(index).filter(|index| *index > 0);
    if let Some((destination, local, interface)) = v4 {
        meta.dest = Some(destination);
        meta.local = local.filter(|ip| !ip.is_unspecified());
        meta.interface = index(interface);
    }
    // IPv4-mapped addresses have their own test.
    if let Some((destination, interface)) = v6 {
        meta.dest = Some(destination);
        meta.local = Some(destination).filter(|ip| !ip.is_multicast() && ip.to_canonical() == *ip);
        meta.interface = index(interface).or(meta.interface);
    }
    meta
}

fn time(stamp: Duration) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(stamp)
}

/// `None` before 1970, and for nanoseconds of a second or more.
fn stamp(data: &[u8]) -> Option<Duration> {
    let (seconds, nanos) = data.split_at(data.len() / 2);
    let number = |bytes: &[u8]| match bytes.len() {
        4 => i32::from_ne_bytes(bytes.try_into().expect("four bytes")).into(),
        _ => i64::from_ne_bytes(bytes.try_into().expect("eight bytes")),
    };
    let nanos = u32::try_from(number(nanos)).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(number(seconds)).ok()?, nanos))
}

proptest! {
    #[test]
    fn metadata_is_what_the_control_messages_say(messages in messages()) {
        prop_assert_eq!(read(&messages), naive(&messages));
    }

    #[test]
    fn the_last_message_may_lack_its_padding(messages in messages()) {
        let mut control = control(&messages);
        if let Some((_, payload)) = messages.last() {
            let padding = Layout::NATIVE.space(payload.len()) - Layout::NATIVE.data_offset - payload.len();
            control.truncate(control.len() - padding);
        }
        prop_assert_eq!(decode(&control), naive(&messages));
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(
        messages in messages(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        end in any::<prop::sample::Index>(),
    ) {
        let mut control = control(&messages);
        for (at, byte) in changes {
            if !control.is_empty() {
                let at = at.index(control.len());
                control[at] = byte;
            }
        }
        control.truncate(end.index(control.len() + 1));
        prop_assert!(decode(&control).segment_size != Some(0));
    }
}

#[test]
fn a_reply_leaves_from_the_destination_of_the_request_if_it_can() {
    let reply = |ip: &str| {
        let mut meta = RecvMeta::NONE;
        (meta.dest, meta.interface) = (ip.parse().ok(), Some(7));
        assert!(meta.dest.is_some());
        (meta.reply_meta().source, meta.reply_meta().interface)
    };
    for ip in ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "::1"] {
        assert_eq!(reply(ip), (ip.parse().ok(), None), "{ip}");
    }
    // A link-local address means nothing without its interface.
    assert_eq!(reply("fe80::1"), ("fe80::1".parse().ok(), Some(7)));
    let many = ["224.0.0.1", "255.255.255.255", "::ffff:224.0.0.1", "::ffff:255.255.255.255"];
    for ip in many.into_iter().chain(["ff02::1"]) {
        assert_eq!(reply(ip), (None, None), "{ip}");
    }
    assert_eq!(RecvMeta::NONE.reply_meta(), crate::SendMeta::new());

    // This host's own address is preferred to the one in the header.
    let mut meta = RecvMeta::NONE;
    meta.dest = "192.0.2.255".parse().ok();
    meta.local = "192.0.2.1".parse().ok();
    assert_eq!(meta.reply_meta().source, meta.local);
}

#[test]
fn congestion_bits_are_the_low_two() {
    for tos in 0..=255u8 {
        let meta = one(numbers::TOS, [tos]);
        assert_eq!(meta.ecn().map(|ecn| ecn as u8), Some(tos & 3));
        assert_eq!(meta.ecn(), Some(Ecn::from_tos(tos)));
    }
    assert_eq!(RecvMeta::NONE.ecn(), None);
}

#[test]
fn a_mapped_destination_stays_mapped_in_either_order() {
    let v4 = [7u32.to_ne_bytes(), [192, 0, 2, 9], [192, 0, 2, 255]].concat();
    let mapped = Ipv4Addr::new(192, 0, 2, 255).to_ipv6_mapped();
    let local = Ipv4Addr::new(192, 0, 2, 9).to_ipv6_mapped();
    let v6 = [&mapped.octets()[..], &7u32.to_ne_bytes()].concat();
    let (v4, v6) = ((numbers::PKTINFO_V4, v4), (numbers::PKTINFO_V6, v6));
    for messages in [[v4.clone(), v6.clone()], [v6.clone(), v4.clone()]] {
        let meta = read(&messages);
        assert_eq!((meta.dest, meta.interface), (Some(IpAddr::V6(mapped)), Some(7)));
        assert_eq!(meta.local, Some(IpAddr::V6(local)));
        assert_eq!(meta.reply_meta().source, Some(IpAddr::V6(local)));
    }
    // Without the IPv4 struct, this host's own address is unknown, as for a message queued before the option was set.
    let (v6, v4) = ((v6.0, v6.1), (v4.0, [[0; 8].as_slice(), &v4.1[8..]].concat()));
    for messages in [vec![v6.clone()], vec![v6.clone(), v4.clone()], vec![v4, v6]] {
        let meta = read(&messages);
        assert_eq!((meta.dest, meta.local), (Some(IpAddr::V6(mapped)), None));
    }
}
