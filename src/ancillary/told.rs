//! What was told about a received message, kept where the next one's is read into.

#![cfg_attr(one_by_one, allow(dead_code))] // No control messages there.

use std::net::Ipv4Addr;

use super::decode::{Header, Row, header, split_first};
use super::{CONTROL_SPACE, ControlMessage, Layout, RecvMeta};
use crate::sys::kinds;

/// What was told about a message.
///
/// Messages of one socket are mostly told the same things about. So what was told of an earlier
/// message is written over, and only what is not told any more is reset.
///
/// Invariant: a field of `meta` that is not in `has` is `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    meta: RecvMeta,
    /// Bits of the fields that may be `Some`.
    has: u32,
}

/// Bits of `has`.
mod field {
    /// Of both addresses, `destination` and `local`.
    pub(super) const DESTINATION: u32 = 1;
    pub(super) const INTERFACE: u32 = 1 << 1;
    pub(super) const TOS: u32 = 1 << 2;
    pub(super) const HOP_LIMIT: u32 = 1 << 3;
    pub(super) const SEGMENT_SIZE: u32 = 1 << 4;
    /// All the others.
    pub(super) const RARER: u32 = 1 << 5;
    pub(super) const ALL: u32 = (1 << 6) - 1;
}

const GRO: Header = header(kinds::GRO, 4);
const PKTINFO_V4: Header = header(kinds::PKTINFO_V4, 12);
const PKTINFO_V6: Header = header(kinds::PKTINFO_V6, 20);
const TOS: Header = header(kinds::TOS, 1);
const TCLASS: Header = header(kinds::TCLASS, 4);

const SPACE_1: usize = Layout::NATIVE.space(1);
const SPACE_4: usize = Layout::NATIVE.space(4);
const SPACE_12: usize = Layout::NATIVE.space(12);
const SPACE_20: usize = Layout::NATIVE.space(20);

impl Told {
    pub(crate) const NOTHING: Self = Self { meta: RecvMeta::NONE, has: 0 };

    #[inline]
    pub(crate) fn meta(&self) -> &RecvMeta {
        &self.meta
    }

    /// Reads what came with a message into the first `len` bytes of `room`, if it is what servers
    /// ask for, the destination and the congestion bits, and nothing else: that has one order and
    /// one length, and looked for so it costs a few instructions. False if it is something else,
    /// for [`read`](Self::read).
    #[inline(always)]
    pub(crate) fn read_usual(&mut self, room: &[u8; CONTROL_SPACE], len: usize) -> bool {
        match len {
            USUAL_V4 => {
                let Some((info, tos)) = usual_v4(room) else { return false };
                self.meta.read_pktinfo_v4(info, false);
                self.meta.tos = Some(tos);
            }
            USUAL_V6 => {
                let Some((info, class)) = usual_v6(room) else { return false };
                self.meta.read_pktinfo_v6(info, false);
                self.meta.tos = Some(class);
            }
            _ => return false,
        }
        self.keep(field::DESTINATION | field::INTERFACE | field::TOS);
        true
    }

    /// Reads what is known out of the control messages that came with a message, in place of what
    /// was told of an earlier one. Gives the segment size of a train.
    ///
    /// Most often they come in one order; the rest is walked over after that.
    pub(crate) fn read(&mut self, control: &[u8]) -> Option<u16> {
        let (mut row, mut has) = (Row::new(control), 0);
        if let Some(size) = row.next::<4, SPACE_4>(&GRO).and_then(segment_size) {
            self.meta.segment_size = Some(size);
            has |= field::SEGMENT_SIZE;
        }
        if let Some(info) = row.next::<12, SPACE_12>(&PKTINFO_V4) {
            self.meta.read_pktinfo_v4(info, false);
            has |= field::DESTINATION | field::INTERFACE;
        } else if let Some(info) = row.next::<20, SPACE_20>(&PKTINFO_V6) {
            self.meta.read_pktinfo_v6(info, false);
            has |= field::DESTINATION | field::INTERFACE;
            // An IPv6 socket tells the destination of an IPv4 message twice.
            if let Some(info) = row.next::<12, SPACE_12>(&PKTINFO_V4) {
                self.meta.read_pktinfo_v4(info, true);
            }
        }
        if let Some([tos]) = row.next::<1, SPACE_1>(&TOS) {
            self.meta.tos = Some(*tos);
            has |= field::TOS;
        } else if let Some(class) = row.next::<4, SPACE_4>(&TCLASS).and_then(small) {
            self.meta.tos = Some(class);
            has |= field::TOS;
        }
        match row.rest() {
            [] => self.keep(has),
            rest => self.read_others(rest, has),
        }
        self.meta.segment_size
    }

    #[inline(never)]
    fn read_others(&mut self, mut rest: &[u8], mut has: u32) {
        while let Some((message, after)) = split_first(Layout::NATIVE, rest) {
            has |= self.take(message, has);
            rest = after;
        }
        self.keep(has);
    }

    /// Resets what is not in `has`.
    #[inline(always)]
    fn keep(&mut self, has: u32) {
        if self.has != has {
            self.forget(has);
        }
    }

    #[cold]
    #[inline(never)]
    fn forget(&mut self, has: u32) {
        let old = self.meta;
        let has_field = |field| has & field != 0;
        self.meta = RecvMeta {
            destination: old.destination.filter(|_| has_field(field::DESTINATION)),
            local: old.local.filter(|_| has_field(field::DESTINATION)),
            interface: old.interface.filter(|_| has_field(field::INTERFACE)),
            tos: old.tos.filter(|_| has_field(field::TOS)),
            hop_limit: old.hop_limit.filter(|_| has_field(field::HOP_LIMIT)),
            segment_size: old.segment_size.filter(|_| has_field(field::SEGMENT_SIZE)),
            ..if has_field(field::RARER) { old } else { RecvMeta::NONE }
        };
        self.has = has;
    }

    /// Takes note of one control message and gives the fields that it set. One of an unexpected
    /// length is left alone: absent, not guessed. `has` is what the ones before it have set.
    #[inline(always)]
    fn take(&mut self, message: ControlMessage<'_>, has: u32) -> u32 {
        let (meta, data) = (&mut self.meta, message.data);
        match (message.level, message.kind) {
            kinds::PKTINFO_V4 => {
                let Ok(info) = data.try_into() else { return 0 };
                meta.read_pktinfo_v4(info, has & field::DESTINATION != 0);
                field::DESTINATION | field::INTERFACE
            }
            kinds::PKTINFO_V6 => {
                let Ok(info) = data.try_into() else { return 0 };
                meta.read_pktinfo_v6(info, has & field::DESTINATION != 0);
                field::DESTINATION | field::INTERFACE
            }
            kinds::DSTADDR_V4 => {
                let Ok(ip) = <[u8; 4]>::try_from(data) else { return 0 };
                (meta.destination, meta.local) = (Some(Ipv4Addr::from(ip).into()), None);
                field::DESTINATION
            }
            kinds::TOS | kinds::TCLASS => {
                let Some(tos) = byte(data) else { return 0 };
                meta.tos = Some(tos);
                field::TOS
            }
            kinds::TTL | kinds::HOP_LIMIT => {
                let Some(hops) = byte(data) else { return 0 };
                meta.hop_limit = Some(hops);
                field::HOP_LIMIT
            }
            kinds::GRO => {
                let size = data.try_into().ok().and_then(segment_size);
                let Some(size) = size else { return 0 };
                meta.segment_size = Some(size);
                field::SEGMENT_SIZE
            }
            (level, kind) => self.take_rarer(level, kind, data, has),
        }
    }

    #[inline(never)]
    fn take_rarer(&mut self, level: i32, kind: i32, data: &[u8], has: u32) -> u32 {
        if has & field::RARER == 0 {
            // The first one: those of an earlier message go.
            let RecvMeta { destination, local, interface, tos, hop_limit, segment_size, .. } =
                self.meta;
            self.meta = RecvMeta {
                destination,
                local,
                interface,
                tos,
                hop_limit,
                segment_size,
                ..RecvMeta::NONE
            };
        }
        self.meta.read_rarer(ControlMessage { level, kind, data });
        field::RARER
    }
}

impl From<RecvMeta> for Told {
    fn from(meta: RecvMeta) -> Self {
        Self { meta, has: field::ALL }
    }
}

/// Bytes of what an IPv4 message is told with where destination and TOS were asked for.
const USUAL_V4: usize = SPACE_12 + SPACE_1;
/// The same for IPv6.
const USUAL_V6: usize = SPACE_20 + SPACE_4;

#[inline(always)]
fn usual_v4(room: &[u8; CONTROL_SPACE]) -> Option<(&[u8; 12], u8)> {
    let mut row = Row::new(&room[..USUAL_V4]);
    let info = row.next::<12, SPACE_12>(&PKTINFO_V4)?;
    row.next::<1, SPACE_1>(&TOS).map(|[tos]| (info, *tos))
}

#[inline(always)]
fn usual_v6(room: &[u8; CONTROL_SPACE]) -> Option<(&[u8; 20], u8)> {
    let mut row = Row::new(&room[..USUAL_V6]);
    let info = row.next::<20, SPACE_20>(&PKTINFO_V6)?;
    row.next::<4, SPACE_4>(&TCLASS).and_then(small).map(|class| (info, class))
}

/// A C int (udp_cmsg_recv in the kernel's include/linux/udp.h). Nothing longer than a datagram and
/// no zero is a length to split by.
#[inline(always)]
fn segment_size(size: &[u8; 4]) -> Option<u16> {
    u16::try_from(i32::from_ne_bytes(*size)).ok().filter(|size| *size > 0)
}

/// A C int that is a byte.
#[inline(always)]
fn small(int: &[u8; 4]) -> Option<u8> {
    u8::try_from(i32::from_ne_bytes(*int)).ok()
}

/// A small number, told as one byte or as a C int: Linux's IP_TOS has one byte, its IP_TTL four.
#[inline(always)]
fn byte(data: &[u8]) -> Option<u8> {
    match data {
        [byte] => Some(*byte),
        _ => data.try_into().ok().and_then(small),
    }
}
