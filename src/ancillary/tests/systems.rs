//! The bytes of each row of guide/platforms.md on Apple's systems and the BSDs, on any machine: the codecs are compiled
//! once more for each of them, with its numbers and its layout of control messages.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use crate::sys::Layout;
use crate::{RecvMeta, SendMeta};

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
            use send_meta::SendMeta;

            /// The metadata that every system but Linux may report.
            fn decode(control: &[u8]) -> crate::RecvMeta {
                let mut meta = None;
                recv_meta::RecvMeta::decode(control, &mut meta);
                let meta = meta.unwrap_or_default();
                crate::RecvMeta {
                    dest: meta.dest,
                    local: meta.local,
                    interface: meta.interface,
                    tos: meta.tos,
                    hop_limit: meta.hop_limit,
                    timestamp: meta.timestamp,
                    ..crate::RecvMeta::NONE
                }
            }

            /// The control messages, or the error.
            fn encode(
                v4: bool,
                meta: &crate::SendMeta,
                size: Option<u16>,
            ) -> Result<Vec<u8>, String> {
                let meta = SendMeta {
                    tos: meta.tos,
                    source: meta.source,
                    interface: meta.interface,
                    hop_limit: meta.hop_limit,
                    transmit_time: meta.transmit_time,
                    timestamp_id: meta.timestamp_id,
                };
                let mut space = [0xEE; crate::control::CONTROL_SPACE];
                let families = crate::sys::Families { v4, v6: !v4 };
                let len = meta.encode(families, size, &[], &mut space);
                len.map(|len| space[..len].to_vec()).map_err(|error| error.to_string())
            }

            pub(super) const SYSTEM: super::System = super::System {
                name: stringify!($name),
                decode,
                encode,
                layout: sys::Layout::NATIVE,
            };
        }
    };
}

/// `_ALIGN`, or `__DARWIN_ALIGN32`, after a `cmsghdr` of 12 bytes.
const fn layout(data_offset: usize, align: usize) -> Layout {
    Layout { len_bytes: 4, data_offset, align }
}

system!(apple: apple, super::super::layout(12, 4), 4);
system!(freebsd: freebsd, super::super::layout(16, 8), 8);
system!(freebsd_i386: freebsd, super::super::layout(12, 4), 4);
system!(netbsd: netbsd, super::super::layout(16, 8), 4);
system!(openbsd: openbsd, super::super::layout(16, 8), 8);

/// Whether to IPv4, the settings, and a segment size: the control data, or the error's text.
type Encode = fn(bool, &SendMeta, Option<u16>) -> Result<Vec<u8>, String>;

/// A system: its codecs, and where a payload begins and what a control message is padded to.
struct System {
    name: &'static str,
    decode: fn(&[u8]) -> RecvMeta,
    encode: Encode,
    layout: Layout,
}

const SYSTEMS: [System; 5] =
    [apple::SYSTEM, freebsd::SYSTEM, freebsd_i386::SYSTEM, netbsd::SYSTEM, openbsd::SYSTEM];

impl System {
    /// A control message as the system lays it out: length, level, type, payload, padding.
    fn message(&self, level: i32, ty: i32, payload: &[u8]) -> Vec<u8> {
        let len = (self.layout.data_offset + payload.len()) as u32;
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend([level, ty].map(i32::to_ne_bytes).as_flattened());
        bytes.resize(self.layout.data_offset, 0);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(self.layout.align), 0);
        bytes
    }

    /// The number of a control message: Apple's, FreeBSD's, NetBSD's, OpenBSD's.
    fn number(&self, numbers: [i32; 4]) -> i32 {
        let place = ["apple", "freebsd", "netbsd", "openbsd"];
        numbers[place.iter().position(|name| self.name.starts_with(name)).expect("a system")]
    }
}

const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const V6_BYTES: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn int(value: i32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

/// `struct in_pktinfo` of 12 bytes (Apple), or of 8 (NetBSD), or `struct in_addr`, of a received message.
fn destination(system: &System) -> Vec<u8> {
    let (ip, index) = (V4.octets().to_vec(), int(5));
    match system.name {
        "apple" => [index, vec![0; 4], ip].concat(),
        "netbsd" => [ip, index].concat(),
        _ => ip,
    }
}

#[test]
fn received_metadata_is_read_as_each_system_writes_it() {
    for system in &SYSTEMS {
        let (name, none) = (system.name, RecvMeta::NONE);
        let read = |level, ty, payload: &[u8]| (system.decode)(&system.message(level, ty, payload));

        // IPv4: one byte for TOS and TTL (`ip_savecontrol`).
        let interface = ["apple", "netbsd"].contains(&name).then_some(5);
        let expected = RecvMeta { dest: Some(V4.into()), interface, ..none };
        assert_eq!(
            read(0, system.number([26, 7, 25, 7]), &destination(system)),
            expected,
            "{name}"
        );
        let tos = RecvMeta { tos: Some(0xB9), ..none };
        if name == "apple" || name.starts_with("freebsd") {
            assert_eq!(read(0, system.number([27, 68, 0, 0]), &[0xB9]), tos, "{name}");
        }
        let ttl = system.number([24, 65, 23, 31]);
        let hops = RecvMeta { hop_limit: Some(63), ..none };
        assert_eq!(read(0, ttl, &[63]), hops, "{name}");

        // IPv6: ints (RFC 3542).
        let info = [&V6_BYTES[..], &int(5)].concat();
        let (dest, local) = (Some(V6.into()), Some(V6.into()));
        let to_v6 = RecvMeta { dest, local, interface: Some(5), ..none };
        assert_eq!(read(41, 46, &info), to_v6, "{name}");
        assert_eq!(read(41, system.number([36, 61, 61, 61]), &int(0xB9)), tos, "{name}");
        assert_eq!(read(41, 47, &int(63)), hops, "{name}");

        // `struct timeval`: 16 bytes on 64-bit systems (the microseconds are 4 on Apple's and NetBSD, then padding), and 8
        // with FreeBSD's 32-bit time of i386.
        let seconds = 1_700_000_000i64.to_ne_bytes();
        let time = match name {
            "apple" | "netbsd" => [&seconds[..], &int(123_456), &[0xEE; 4]].concat(),
            "freebsd_i386" => [int(1_700_000_000), int(123_456)].concat(),
            _ => [seconds, 123_456i64.to_ne_bytes()].concat(),
        };
        let at = |nanos| {
            let timestamp = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, nanos);
            RecvMeta { timestamp: Some(timestamp), ..none }
        };
        assert_eq!(read(0xffff, system.number([2, 2, 8, 4]), &time), at(123_456_000), "{name}");
        if name == "freebsd" {
            // `struct timespec` of `SCM_REALTIME`.
            assert_eq!(read(0xffff, 5, &[seconds, 789i64.to_ne_bytes()].concat()), at(789));
        }

        // A socket with all of it: each message is found behind the padding of the one before.
        let all = [(0, ttl, vec![63]), (41, 46, info), (41, 47, int(62))];
        let all = all.map(|(level, ty, payload)| system.message(level, ty, &payload)).concat();
        let expected = RecvMeta { hop_limit: Some(62), ..to_v6 };
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
        assert_eq!((read.dest, read.local), (Some(mapped.into()), None), "{}", system.name);
        let sent = (system.encode)(true, &SendMeta::new().with_source(mapped.into()), None);
        assert!(sent.is_ok_and(|control| !control.is_empty()));
    }
}

#[test]
fn options_of_a_send_are_written_as_each_system_reads_them() {
    let none = SendMeta::new();
    for system in &SYSTEMS {
        let name = system.name;
        let v4 = |meta| (system.encode)(true, &meta, None);
        let v6 = |meta| (system.encode)(false, &meta, None);
        let lacks = |result: Result<Vec<u8>, String>, field: &str| {
            let reason = result.expect_err("the system has no such control message");
            assert!(reason.contains(&format!("does not support {field} ")), "{name}: {reason}");
        };

        let (ip, zero, index) = (V4.octets().to_vec(), vec![0; 4], int(5));
        let (source, interface) = match name {
            "apple" => ([&zero[..], &ip, &zero].concat(), [&index[..], &zero, &zero].concat()),
            "netbsd" => ([&ip[..], &zero].concat(), [&zero[..], &index].concat()),
            _ => (ip, Vec::new()),
        };
        let ty = system.number([26, 7, 25, 7]);
        assert_eq!(v4(none.with_source(V4.into())), Ok(system.message(0, ty, &source)), "{name}");
        match ty {
            7 => lacks(v4(none.with_interface(5)), "interface"),
            _ => assert_eq!(v4(none.with_interface(5)), Ok(system.message(0, ty, &interface))),
        }
        let tos = none.with_tos(0xB9);
        match name {
            "apple" => assert_eq!(v4(tos), Ok(system.message(0, 3, &int(0xB9)))),
            "netbsd" | "openbsd" => lacks(v4(tos), "tos"),
            _ => assert_eq!(v4(tos), Ok(system.message(0, 3, &[0xB9])), "{name}"),
        }
        let hops = none.with_hop_limit(7);
        lacks(v4(hops), "hop_limit");

        assert_eq!(v6(hops), Ok(system.message(41, 47, &int(7))), "{name}");
        let tclass = system.number([36, 61, 61, 61]);
        assert_eq!(v6(tos), Ok(system.message(41, tclass, &int(0xB9))), "{name}");
        let info = [&V6_BYTES[..], &int(5)].concat();
        let both = none.with_source(V6.into()).with_interface(5);
        assert_eq!(v6(both), Ok(system.message(41, 46, &info)), "{name}");
        lacks((system.encode)(true, &none, Some(1200)), "segment_size");
        lacks(v6(none.with_transmit_time(Duration::from_nanos(1))), "transmit_time");
    }
}
