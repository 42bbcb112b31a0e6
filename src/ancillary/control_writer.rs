//! Writes per-message options as control messages.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use super::{SendMeta, invalid};
use crate::sys::numbers::{self, CmsgType};
use crate::sys::{
    CONTROL_SPACE, ControlMessage, ControlMessages, Families, Layout, control_message,
};

impl SendMeta {
    /// Writes the control messages of these options for destinations of these families (IPv4-mapped ones are IPv4), and
    /// the raw ones after them. Returns the length in bytes.
    #[inline(always)]
    pub(crate) fn encode(
        &self,
        families: Families,
        raw: &[u8],
        space: &mut [u8],
    ) -> io::Result<usize> {
        let mut writer = ControlWriter { space, len: 0, families };
        let Self { tos, source, interface, hop_limit, segment_size, transmit_time, timestamp_id } =
            *self;
        if let Some(size) = segment_size {
            writer.append_segment_size(size)?;
        }
        if let Some(tos) = tos {
            writer.append_tos(tos)?;
        }
        if let Some(hops) = hop_limit {
            writer.append_hop_limit(hops)?;
        }
        if source.is_some() || interface.is_some() {
            writer.append_pktinfo(source, interface)?;
        }
        if let Some(time) = transmit_time {
            writer.append("transmit_time", numbers::TXTIME, &time.to_ne_bytes())?;
        }
        if let Some(id) = timestamp_id {
            writer.append("timestamp_id", numbers::STAMP_NUMBER, &id.to_ne_bytes())?;
        }
        if raw.is_empty() { Ok(writer.len) } else { writer.append_raw(raw) }
    }

    /// Whether these options cannot be written for both families at once.
    pub(crate) fn needs_one_family(&self) -> bool {
        let either = self.source.is_some() || self.interface.is_some();
        either || self.hop_limit == Some(0) || !numbers::IGNORES_OTHER_FAMILY
    }
}

/// Appends control messages to a buffer, for destinations of these families.
struct ControlWriter<'a> {
    space: &'a mut [u8],
    /// Bytes written.
    len: usize,
    families: Families,
}

impl ControlWriter<'_> {
    #[inline]
    fn append_segment_size(&mut self, size: u16) -> io::Result<()> {
        if size == 0 && !numbers::SEGMENT_MAY_BE_ZERO {
            return Ok(());
        }
        let (size, long) = (size.to_ne_bytes(), u32::from(size).to_ne_bytes());
        let payload = if numbers::SEGMENT_LEN == 2 { &size[..] } else { &long };
        self.append("segment_size", numbers::SEGMENT, payload)
    }

    #[inline(always)]
    fn append_tos(&mut self, tos: u8) -> io::Result<()> {
        if self.families.v4 {
            let is_a_byte = numbers::SEND_TOS_IS_A_BYTE;
            self.append_tos_as(tos, numbers::ECN_V4, numbers::SEND_TOS, is_a_byte)?;
        }
        if self.families.v6 {
            self.append_tos_as(tos, numbers::ECN_V6, numbers::TCLASS, false)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn append_tos_as(
        &mut self,
        tos: u8,
        ecn: Option<CmsgType>,
        whole: Option<CmsgType>,
        is_a_byte: bool,
    ) -> io::Result<()> {
        if ecn.is_some() && tos & !0b11 == 0 {
            self.append_int("tos", ecn, tos)
        } else if is_a_byte {
            // FreeBSD takes a byte, other systems an int. Linux takes both (ip_cmsg_send in net/ipv4/ip_sockglue.c).
            self.append("tos", whole, &[tos])
        } else {
            self.append_int("tos", whole, tos)
        }
    }

    fn append_hop_limit(&mut self, hops: u8) -> io::Result<()> {
        if self.families.v4 {
            if hops == 0 {
                return Err(invalid("SendMeta::hop_limit is 0: for IPv4 it must be 1 to 255"));
            }
            self.append_int("hop_limit", numbers::SEND_TTL, hops)?;
        }
        if self.families.v6 {
            self.append_int("hop_limit", numbers::HOP_LIMIT, hops)?;
        }
        Ok(())
    }

    /// Appends source address and interface for one family; one may be missing.
    #[inline(always)]
    fn append_pktinfo(&mut self, source: Option<IpAddr>, interface: Option<u32>) -> io::Result<()> {
        let index = interface.unwrap_or(0).to_ne_bytes();
        let ip = source.map(|source| source.to_canonical());
        match (self.families.v4, ip) {
            (true, Some(IpAddr::V6(_))) | (false, Some(IpAddr::V4(_))) => {
                let (source, family) =
                    (source.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), self.family());
                Err(invalid(format!("SendMeta::source is {source}: the destination is {family}")))
            }
            (true, Some(IpAddr::V4(ip))) => self.append_pktinfo_v4(ip, index, interface.is_some()),
            (true, None) => self.append_pktinfo_v4(Ipv4Addr::UNSPECIFIED, index, true),
            (false, ip) => {
                // struct in6_pktinfo (RFC 3542, section 6.1).
                let mut info = [0; 20];
                if let Some(IpAddr::V6(ip)) = ip {
                    info[..16].copy_from_slice(&ip.octets());
                }
                info[16..].copy_from_slice(&index);
                let option = if ip.is_some() { "source" } else { "interface" };
                self.append(option, numbers::PKTINFO_V6, &info)
            }
        }
    }

    #[inline(always)]
    fn append_pktinfo_v4(
        &mut self,
        ip: Ipv4Addr,
        index: [u8; 4],
        has_interface: bool,
    ) -> io::Result<()> {
        let ip = ip.octets();
        if numbers::PKTINFO_V4.is_none() && !has_interface {
            return self.append("source", numbers::SEND_SRCADDR_V4, &ip);
        }
        if numbers::SEND_PKTINFO_V4_IS_SHORT {
            return self.append("source", numbers::PKTINFO_V4, [ip, index].as_flattened());
        }
        // struct in_pktinfo (ip(7)): interface, source (ipi_spec_dst), and a field that the kernel
        // ignores on send.
        let info = [index, ip, [0; 4]];
        // A platform without this control message still supports source addresses, so the error names the interface.
        self.append("interface", numbers::PKTINFO_V4, info.as_flattened())
    }

    #[inline]
    fn append_int(
        &mut self,
        option: &'static str,
        ty: Option<CmsgType>,
        value: u8,
    ) -> io::Result<()> {
        self.append(option, ty, &i32::from(value).to_ne_bytes())
    }

    /// Appends the control message of an option, a field of `SendMeta`.
    #[inline(always)] // The payload's length is then a constant, which saves 80 instructions a message.
    fn append(
        &mut self,
        option: &'static str,
        ty: Option<CmsgType>,
        payload: &[u8],
    ) -> io::Result<()> {
        let Some(ty) = ty else {
            let family = self.family();
            let reason = format!("this platform does not have SendMeta::{option} for {family}");
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        };
        let end = control_message::append(Layout::NATIVE, self.space, self.len, ty, payload);
        self.len = end.ok_or_else(|| too_long(self.len + Layout::NATIVE.space(payload.len())))?;
        Ok(())
    }

    /// Appends encoded control messages. Returns the total length.
    fn append_raw(self, raw: &[u8]) -> io::Result<usize> {
        for message in ControlMessages::new(raw) {
            let same =
                |own: &ControlMessage<'_>| (own.level, own.ty) == (message.level, message.ty);
            if ControlMessages::new(&self.space[..self.len]).any(|own| same(&own)) {
                let (level, ty) = (message.level, message.ty);
                let reason = format!(
                    "a SendMeta and a ControlBuf both set level {level}, type {ty}: set it once"
                );
                return Err(invalid(reason));
            }
        }
        let end = self.len + raw.len();
        let free = self.space.get_mut(self.len..end);
        free.ok_or_else(|| too_long(end))?.copy_from_slice(raw);
        Ok(end)
    }

    fn family(&self) -> &'static str {
        if self.families.v4 { "IPv4" } else { "IPv6" }
    }
}

#[cold]
fn too_long(needed: usize) -> io::Error {
    invalid(format!("options and control messages take {needed} bytes of {CONTROL_SPACE}"))
}
