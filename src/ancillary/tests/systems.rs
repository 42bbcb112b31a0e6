//! The bytes of each row of docs/guide/metadata.md on Apple's systems and the BSDs, on any machine: the codecs are compiled
//! once more for each of them, with its numbers and its layout of control messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use crate::sys::Layout;

/// Compiles both codecs for a system.
macro_rules! system {
    ($name:ident: $numbers:ident, $layout:expr, $microseconds:expr) => {
        #[path = "."]
        #[allow(dead_code, unused_imports, clippy::duplicate_mod, clippy::new_ret_no_self)]
        mod $name {
            use crate::ancillary::{Ecn, invalid};

            pub(super) mod sys {
                pub(crate) use crate::sys::numbers::$numbers as platform;
                pub(crate) use crate::sys::*;

                pub(crate) mod numbers {
                    pub(crate) use super::platform::*;
                    pub(crate) use crate::sys::numbers::{CmsgType, SourceRule};
                }

                pub(crate) const MICROSECONDS_LEN: usize = $microseconds;

                pub(crate) struct Layout;
                impl Layout {
                    pub(crate) const NATIVE: crate::sys::Layout = $layout;
                }

                pub(crate) struct ControlMessages;
                impl ControlMessages {
                    pub(crate) fn new(bytes: &[u8]) -> crate::sys::ControlMessages<'_> {
                        crate::sys::ControlMessages::with_layout(bytes, Layout::NATIVE)
                    }
                }
            }

            #[path = "../recv_meta.rs"]
            mod recv_meta;
            #[path = "../send_meta.rs"]
            mod send_meta;

            use recv_meta::RecvMeta;
            use send_meta::SendMeta;

            use super::{Received, Sent};

            pub(super) fn decode(control: &[u8]) -> Received {
                let mut meta = None;
                RecvMeta::decode(control, &mut meta);
                let meta = meta.unwrap_or_default();
                Received {
                    destination: meta.dest,
                    local: meta.local,
                    interface: meta.interface,
                    tos: meta.tos,
                    hop_limit: meta.hop_limit,
                    timestamp: meta.timestamp,
                    original_dest: meta.original_dest.map(|addr| addr.to_string()),
                }
            }

            /// The control messages, or the error.
            pub(super) fn encode(v4: bool, sent: Sent) -> Result<Vec<u8>, String> {
                let Sent { tos, source, interface, hop_limit, segment_size, transmit_time } = sent;
                let rest = SendMeta::new();
                let meta = SendMeta { tos, source, interface, hop_limit, transmit_time, ..rest };
                let mut space = [0xEE; crate::control::CONTROL_SPACE];
                let families = crate::sys::Families { v4, v6: !v4 };
                let len = meta.encode(families, segment_size, &[], &mut space);
                len.map(|len| space[..len].to_vec()).map_err(|error| error.to_string())
            }
        }
    };
}

/// `_ALIGN`, or `__DARWIN_ALIGN32`, after a `cmsghdr` of 12 bytes.
const fn layout(data_offset: usize, align: usize) -> Layout {
    Layout { len_bytes: 4, data_offset, align, big_endian: Layout::NATIVE.big_endian }
}

system!(apple: apple, super::super::layout(12, 4), 4);
system!(freebsd: freebsd, super::super::layout(16, 8), 8);
system!(freebsd_i386: freebsd, super::super::layout(12, 4), 4);
system!(netbsd: netbsd, super::super::layout(16, 8), 4);
system!(openbsd: openbsd, super::super::layout(16, 8), 8);

#[derive(Clone, Debug, Default, PartialEq)]
struct Received {
    destination: Option<IpAddr>,
    local: Option<IpAddr>,
    interface: Option<u32>,
    tos: Option<u8>,
    hop_limit: Option<u8>,
    timestamp: Option<SystemTime>,
    original_dest: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    tos: Option<u8>,
    source: Option<IpAddr>,
    interface: Option<u32>,
    hop_limit: Option<u8>,
    segment_size: Option<u16>,
    transmit_time: Option<Duration>,
}

/// A system: its codecs, where a payload begins and what a control message is padded to.
struct System {
    name: &'static str,
    decode: fn(&[u8]) -> Received,
    encode: fn(bool, Sent) -> Result<Vec<u8>, String>,
    data_offset: usize,
    align: usize,
}

const SYSTEMS: [System; 5] = [
    System {
        name: "apple",
        decode: apple::decode,
        encode: apple::encode,
        data_offset: 12,
        align: 4,
    },
    System {
        name: "freebsd",
        decode: freebsd::decode,
        encode: freebsd::encode,
        data_offset: 16,
        align: 8,
    },
    System {
        name: "freebsd, 32 bits",
        decode: freebsd_i386::decode,
        encode: freebsd_i386::encode,
        data_offset: 12,
        align: 4,
    },
    System {
        name: "netbsd",
        decode: netbsd::decode,
        encode: netbsd::encode,
        data_offset: 16,
        align: 8,
    },
    System {
        name: "openbsd",
        decode: openbsd::decode,
        encode: openbsd::encode,
        data_offset: 16,
        align: 8,
    },
];

impl System {
    /// A control message as the system lays it out: length, level, type, payload, padding.
    fn message(&self, level: i32, ty: i32, payload: &[u8]) -> Vec<u8> {
        let len = (self.data_offset + payload.len()) as u32;
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend([level, ty].map(i32::to_ne_bytes).as_flattened());
        bytes.resize(self.data_offset, 0);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(self.align), 0);
        bytes
    }
}

const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const V6_BYTES: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn int(value: i32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

/// `struct in_pktinfo` of 12 bytes (Apple), or of 8 (NetBSD), or `struct in_addr`.
fn destination(name: &str) -> (i32, Vec<u8>) {
    let (ip, index) = (V4.octets().to_vec(), int(5));
    match name {
        "apple" => (26, [index, vec![0; 4], ip].concat()),
        "netbsd" => (25, [ip, index].concat()),
        _ => (7, ip),
    }
}

#[test]
fn received_metadata_is_read_as_each_system_writes_it() {
    for system in &SYSTEMS {
        let read = |level, ty, payload: &[u8]| (system.decode)(&system.message(level, ty, payload));
        let name = system.name;
        let none = Received::default;
        // IPv4: one byte for TOS and TTL (`ip_savecontrol`).
        let (ty, payload) = destination(name);
        let interface = ["apple", "netbsd"].contains(&name).then_some(5);
        let expected = Received { destination: Some(V4.into()), interface, ..none() };
        assert_eq!(read(0, ty, &payload), expected, "{name}");
        let tos = match name {
            "apple" => Some(27),
            "freebsd" | "freebsd, 32 bits" => Some(68),
            _ => None,
        };
        if let Some(ty) = tos {
            assert_eq!(read(0, ty, &[0xB9]), Received { tos: Some(0xB9), ..none() }, "{name}");
        }
        let ttl = match name {
            "apple" => 24,
            "netbsd" => 23,
            "openbsd" => 31,
            _ => 65,
        };
        assert_eq!(read(0, ttl, &[63]), Received { hop_limit: Some(63), ..none() }, "{name}");
        // IPv6: ints (RFC 3542).
        let info = [&V6_BYTES[..], &int(5)].concat();
        let (destination, local) = (Some(V6.into()), Some(V6.into()));
        let expected = Received { destination, local, interface: Some(5), ..none() };
        assert_eq!(read(41, 46, &info), expected, "{name}");
        let tclass = if name == "apple" { 36 } else { 61 };
        assert_eq!(read(41, tclass, &int(0xB9)), Received { tos: Some(0xB9), ..none() }, "{name}");
        assert_eq!(read(41, 47, &int(63)), Received { hop_limit: Some(63), ..none() }, "{name}");
        // `struct timeval`: 16 bytes on 64-bit systems (the microseconds are 4 on Apple's and NetBSD, then padding), and 8
        // with FreeBSD's 32-bit time of i386.
        let ty = match name {
            "netbsd" => 8,
            "openbsd" => 4,
            _ => 2,
        };
        let seconds = 1_700_000_000i64.to_ne_bytes();
        let time = match name {
            "apple" | "netbsd" => [&seconds[..], &int(123_456), &[0xEE; 4]].concat(),
            "freebsd, 32 bits" => [int(1_700_000_000), int(123_456)].concat(),
            _ => [seconds, 123_456i64.to_ne_bytes()].concat(),
        };
        let at = |nanos| SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, nanos);
        let expected = Received { timestamp: Some(at(123_456_000)), ..none() };
        assert_eq!(read(0xffff, ty, &time), expected, "{name}");
        if name == "freebsd" {
            // `struct timespec` of `SCM_REALTIME`; `struct sockaddr_in` begins with its length.
            let time = [seconds, 789i64.to_ne_bytes()].concat();
            let expected = Received { timestamp: Some(at(789)), ..none() };
            assert_eq!(read(0xffff, 5, &time), expected);
        }
        // A socket with all of it: each message is found behind the padding of the one before.
        let all = [(0, ttl, vec![63]), (41, 46, info), (41, 47, int(62))];
        let all = all.map(|(level, ty, payload)| system.message(level, ty, &payload)).concat();
        let expected =
            Received { hop_limit: Some(62), destination, local, interface: Some(5), ..none() };
        assert_eq!((system.decode)(&all), expected, "{name}");
    }
}

/// A dual-stack socket of Apple's systems and FreeBSD reports IPv4 by IPv6's control messages.
#[test]
fn a_mapped_destination_is_the_source_of_the_answer() {
    let mapped = V4.to_ipv6_mapped();
    let info = [&mapped.octets()[..], &int(5)].concat();
    for system in &SYSTEMS[..3] {
        let read = (system.decode)(&system.message(41, 46, &info));
        assert_eq!((read.destination, read.local), (Some(mapped.into()), None), "{}", system.name);
        let sent = Sent { source: read.destination, ..Sent::default() };
        assert!((system.encode)(true, sent).is_ok_and(|control| !control.is_empty()));
    }
}

#[test]
fn options_of_a_send_are_written_as_each_system_reads_them() {
    let none = Sent::default();
    for system in &SYSTEMS {
        let name = system.name;
        let v4 = |sent| (system.encode)(true, sent);
        let v6 = |sent| (system.encode)(false, sent);
        let lacks = |result: Result<Vec<u8>, String>, field: &str| {
            let reason = result.expect_err("the system has no such control message");
            assert!(reason.contains(&format!("does not support {field} ")), "{name}: {reason}");
        };
        let is_freebsd = name.starts_with("freebsd");
        let ip = V4.octets();
        let source = Sent { source: Some(V4.into()), ..none };
        let interface = Sent { interface: Some(5), ..none };
        let expected = match name {
            "apple" => system.message(0, 26, &[int(0), ip.to_vec(), vec![0; 4]].concat()),
            "netbsd" => system.message(0, 25, &[ip.to_vec(), int(0)].concat()),
            _ => system.message(0, 7, &ip),
        };
        assert_eq!(v4(source), Ok(expected), "{name}");
        match name {
            "apple" => {
                let info = [int(5), vec![0; 8]].concat();
                assert_eq!(v4(interface), Ok(system.message(0, 26, &info)));
            }
            "netbsd" => {
                let info = [vec![0; 4], int(5)].concat();
                assert_eq!(v4(interface), Ok(system.message(0, 25, &info)));
            }
            _ => lacks(v4(interface), "interface"),
        }
        let tos = Sent { tos: Some(0xB9), ..none };
        match name {
            "apple" => assert_eq!(v4(tos), Ok(system.message(0, 3, &int(0xB9)))),
            _ if is_freebsd => assert_eq!(v4(tos), Ok(system.message(0, 3, &[0xB9])), "{name}"),
            _ => lacks(v4(tos), "tos"),
        }
        let hops = Sent { hop_limit: Some(7), ..none };
        lacks(v4(hops), "hop_limit");
        assert_eq!(v6(hops), Ok(system.message(41, 47, &int(7))), "{name}");
        let tclass = if name == "apple" { 36 } else { 61 };
        assert_eq!(v6(tos), Ok(system.message(41, tclass, &int(0xB9))), "{name}");
        let both = Sent { source: Some(V6.into()), interface: Some(5), ..none };
        let info = [&V6_BYTES[..], &int(5)].concat();
        assert_eq!(v6(both), Ok(system.message(41, 46, &info)), "{name}");
        lacks(v4(Sent { segment_size: Some(1200), ..none }), "segment_size");
        lacks(v6(Sent { transmit_time: Some(Duration::from_nanos(1)), ..none }), "transmit_time");
    }
}
