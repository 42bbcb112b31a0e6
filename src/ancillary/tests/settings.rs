//! The encoder of per-message settings, compared with a naive list of control messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use proptest::prelude::*;

use crate::ancillary::{ControlBuf, SendMeta};
use crate::sys::control_message::append;
use crate::sys::numbers::{self, CmsgType};
use crate::sys::{CONTROL_SPACE, ControlMessage, Families, Layout};

/// The name of a setting, its control message and the payload; or the expected error.
type Part = Result<(&'static str, Option<CmsgType>, Vec<u8>), String>;

fn family(v4: bool) -> &'static str {
    if v4 { "IPv4" } else { "IPv6" }
}

fn too_long(needed: usize) -> String {
    format!("take {needed} bytes of {CONTROL_SPACE}")
}

fn int(value: u8) -> Vec<u8> {
    i32::from(value).to_ne_bytes().to_vec()
}

fn segment_size(size: u16) -> Option<Part> {
    let payload = match numbers::SEGMENT_LEN {
        2 => size.to_ne_bytes().to_vec(),
        _ => u32::from(size).to_ne_bytes().to_vec(),
    };
    let is_sent = size > 0 || numbers::SEGMENT_MAY_BE_ZERO;
    is_sent.then_some(Ok(("segment_size", numbers::SEGMENT, payload)))
}

fn tos(tos: u8, v4: bool) -> Part {
    let (ecn, all) = match v4 {
        true => (numbers::ECN_V4, numbers::SEND_TOS),
        false => (numbers::ECN_V6, numbers::TCLASS),
    };
    if ecn.is_some() && tos < 4 {
        return Ok(("tos", ecn, int(tos)));
    }
    let is_byte = v4 && numbers::SEND_TOS_IS_A_BYTE;
    Ok(("tos", all, if is_byte { vec![tos] } else { int(tos) }))
}

fn hop_limit(hops: u8, v4: bool) -> Part {
    match (v4, hops) {
        (true, 0) => Err("hop_limit is 0".to_owned()),
        (true, _) => Ok(("hop_limit", numbers::SEND_TTL, int(hops))),
        (false, _) => Ok(("hop_limit", numbers::HOP_LIMIT, int(hops))),
    }
}

fn pktinfo(source: Option<IpAddr>, interface: Option<u32>, v4: bool) -> Option<Part> {
    let index = interface.unwrap_or(0).to_ne_bytes();
    let wrong = source.filter(|source| source.to_canonical().is_ipv4() != v4);
    if let Some(source) = wrong {
        return Some(Err(format!("source is {source}: the destination is {}", family(v4))));
    }
    let part = match source.map(|source| source.to_canonical()) {
        None if interface.is_none() => return None,
        Some(IpAddr::V4(ip)) if numbers::PKTINFO_V4.is_none() && interface.is_none() => {
            ("source", numbers::SEND_SRCADDR_V4, ip.octets().to_vec())
        }
        Some(IpAddr::V6(ip)) => {
            ("source", numbers::PKTINFO_V6, [&ip.octets()[..], &index].concat())
        }
        None if !v4 => ("interface", numbers::PKTINFO_V6, [&[0; 16][..], &index].concat()),
        v4 => {
            let ip = match v4 {
                Some(IpAddr::V4(ip)) => ip.octets(),
                _ => [0; 4],
            };
            match numbers::SEND_PKTINFO_V4_IS_SHORT {
                true => ("source", numbers::PKTINFO_V4, [ip, index].concat()),
                false => ("interface", numbers::PKTINFO_V4, [index, ip, [0; 4]].concat()),
            }
        }
    };
    Some(Ok(part))
}

fn parts(size: Option<u16>, meta: SendMeta, v4: bool) -> Vec<Part> {
    let time = meta
        .transmit_time
        .map(|time| time.as_nanos() as u64)
        .map(|time| Ok(("transmit_time", numbers::TXTIME, time.to_ne_bytes().to_vec())));
    let id = meta
        .timestamp_id
        .map(|id| Ok(("timestamp_id", numbers::STAMP_NUMBER, id.to_ne_bytes().to_vec())));
    let all = [
        size.and_then(segment_size),
        meta.tos.map(|byte| tos(byte, v4)),
        meta.hop_limit.map(|hops| hop_limit(hops, v4)),
        pktinfo(meta.source, meta.interface, v4),
        time,
        id,
    ];
    all.into_iter().flatten().collect()
}

/// The bytes of these control messages followed by raw ones, in `max` bytes of space.
fn bytes(parts: Vec<Part>, raw: &ControlBuf, v4: bool, max: usize) -> Result<Vec<u8>, String> {
    let (mut space, mut len, mut taken) = (vec![0; max], 0, Vec::new());
    for part in parts {
        let (setting, ty, payload) = part?;
        let ty = ty.ok_or_else(|| format!("does not support {setting} for {}", family(v4)))?;
        let needed = len + Layout::NATIVE.space(payload.len());
        let end = append(Layout::NATIVE, &mut space, len, ty, &payload);
        len = end.ok_or_else(|| too_long(needed))?;
        taken.push(ty);
    }
    // All of them apply, so none may occur twice.
    if let Some(ControlMessage { level, ty, .. }) =
        raw.messages().find(|message| taken.contains(&(message.level, message.ty)))
    {
        return Err(format!("both set level {level}, type {ty}"));
    }
    let needed = len + raw.as_bytes().len();
    if needed > max {
        return Err(too_long(needed));
    }
    space.truncate(len);
    space.extend_from_slice(raw.as_bytes());
    Ok(space)
}

fn sources() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|ip| IpAddr::V4(Ipv4Addr::from(ip))),
        any::<u128>().prop_map(|ip| IpAddr::V6(Ipv6Addr::from(ip))),
        any::<u32>().prop_map(|ip| IpAddr::V6(Ipv4Addr::from(ip).to_ipv6_mapped())),
    ]
}

/// Mostly common settings.
fn metas() -> impl Strategy<Value = SendMeta> {
    let rarely = |rare| prop::option::weighted(rare, Just(()));
    let usual = (any::<Option<u8>>(), prop::option::of(sources()));
    let rare = (
        (rarely(0.1), any::<u32>()),
        (rarely(0.1), 0..3u8),
        (rarely(0.1), any::<u64>()),
        (rarely(0.1), any::<u32>()),
    );
    (usual, rare).prop_map(|((tos, source), (interface, hops, time, id))| SendMeta {
        tos: tos.map(|tos| if tos < 128 { tos & 0b11 } else { tos }),
        source,
        interface: interface.0.map(|()| interface.1),
        hop_limit: hops.0.map(|()| hops.1),
        transmit_time: time.0.map(|()| Duration::from_nanos(time.1)),
        timestamp_id: id.0.map(|()| id.1),
    })
}

proptest! {
    #[test]
    fn settings_are_the_control_messages_of_the_list(
        meta in metas(),
        size in prop::option::of(0u16..1500),
        v4 in any::<bool>(),
        raw in prop::option::weighted(0.3, prop_oneof![
            (1000..1002i32, prop::collection::vec(any::<u8>(), 0..20)),
            (0..1i32, Just(vec![1; 4])),
        ]),
        max in prop_oneof![3 => Just(CONTROL_SPACE), 1 => 0..CONTROL_SPACE],
    ) {
        let mut control = ControlBuf::new();
        let parts = parts(size, meta, v4);
        if let Some((level, data)) = &raw {
            // A type of its own, or that of a setting which may be there.
            let taken = parts.last().cloned().and_then(Result::ok).and_then(|(_, ty, _)| ty);
            let (level, ty) = if *level > 0 { (*level, 7) } else { taken.unwrap_or((1000, 7)) };
            control.push(level, ty, data).expect("it fits");
        }
        // Stale bytes, none of which may remain.
        let mut space = vec![0xEE; max];
        let encoded = meta.encode(Families { v4, v6: !v4 }, size, control.as_bytes(), &mut space).map(|len| space[..len].to_vec());
        match (encoded, bytes(parts, &control, v4, max)) {
            (Err(error), Err(reason)) => prop_assert!(error.to_string().contains(&reason), "{error}"),
            (encoded, expected) => prop_assert_eq!(encoded.ok(), expected.ok()),
        }
    }
}
