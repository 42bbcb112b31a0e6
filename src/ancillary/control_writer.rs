//! Writes per-message options as control messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::unencodable::Unencodable;
use super::{Ecn, SendMeta};
use crate::sys::numbers::{self, CmsgType};
use crate::sys::{Layout, control_message};

impl SendMeta {
    /// Writes the control messages of these options for an IPv4 (or IPv4-mapped) or IPv6 destination, with these ECN bits
    /// over theirs and this segment size in place of theirs. Returns the length in bytes.
    #[inline(always)]
    pub(crate) fn encode(
        &self,
        ecn: Option<Ecn>,
        segment_size: Option<u16>,
        v4: bool,
        space: &mut [u8],
    ) -> Result<usize, Unencodable> {
        let mut writer = ControlWriter { space, len: 0, v4 };
        // First, so that the datagrams of a rejected GSO batch can use the bytes after it.
        if let Some(size) = segment_size {
            writer.append_segment_size(size)?;
        }
        let tos = match ecn {
            Some(ecn) => Some(ecn.in_tos(self.tos)),
            None => self.tos,
        };
        if v4 { self.encode_v4(tos, writer) } else { self.encode_v6(tos, writer) }
    }

    #[inline(always)]
    fn encode_v4(
        &self,
        tos: Option<u8>,
        mut writer: ControlWriter<'_>,
    ) -> Result<usize, Unencodable> {
        if let Some(tos) = tos {
            writer.append_tos_v4(tos)?;
        }
        if self.has_rare_option() {
            return self.encode_after_tos(writer);
        }
        if let Some(source) = &self.source {
            writer.append_pktinfo_v4(Some(source), None)?;
        }
        Ok(writer.len)
    }

    #[inline(always)]
    fn encode_v6(
        &self,
        tos: Option<u8>,
        mut writer: ControlWriter<'_>,
    ) -> Result<usize, Unencodable> {
        if let Some(tos) = tos {
            writer.append_tos_v6(tos)?;
        }
        if self.has_rare_option() {
            return self.encode_after_tos(writer);
        }
        if let Some(source) = &self.source {
            writer.append_pktinfo_v6(Some(source), None)?;
        }
        Ok(writer.len)
    }

    /// Whether there is an option that is neither TOS nor source address nor segment size.
    #[inline(always)]
    fn has_rare_option(&self) -> bool {
        // Not `||`, of which the compiler makes more branches.
        self.hop_limit.is_some()
            | self.interface.is_some()
            | self.transmit_time.is_some()
            | self.timestamp_id.is_some()
    }

    /// Writes what follows the TOS.
    #[cold]
    fn encode_after_tos(&self, mut writer: ControlWriter<'_>) -> Result<usize, Unencodable> {
        if let Some(hops) = self.hop_limit {
            writer.append_hop_limit(hops)?;
        }
        if self.source.is_some() || self.interface.is_some() {
            let (source, interface) = (self.source.as_ref(), self.interface);
            match writer.v4 {
                true => writer.append_pktinfo_v4(source, interface)?,
                false => writer.append_pktinfo_v6(source, interface)?,
            }
        }
        if let Some(time) = self.transmit_time {
            writer.append("transmit_time", numbers::TXTIME, &time.to_ne_bytes())?;
        }
        if let Some(id) = self.timestamp_id {
            writer.append("timestamp_id", numbers::STAMP_NUMBER, &id.to_ne_bytes())?;
        }
        Ok(writer.len)
    }
}

/// Appends control messages to a buffer, for an IPv4 (or IPv4-mapped) or IPv6 destination.
struct ControlWriter<'a> {
    space: &'a mut [u8],
    /// Bytes written.
    len: usize,
    v4: bool,
}

impl ControlWriter<'_> {
    #[inline]
    fn append_segment_size(&mut self, size: u16) -> Result<(), Unencodable> {
        if size == 0 && !numbers::SEGMENT_MAY_BE_ZERO {
            return Ok(());
        }
        let (size, long) = (size.to_ne_bytes(), u32::from(size).to_ne_bytes());
        let payload = if numbers::SEGMENT_LEN == 2 { &size[..] } else { &long };
        self.append("segment_size", numbers::SEGMENT, payload)
    }

    #[inline]
    fn append_tos_v4(&mut self, tos: u8) -> Result<(), Unencodable> {
        if numbers::SEND_ECN_V4.is_some() && is_ecn_alone(tos) {
            self.append_int("tos", numbers::SEND_ECN_V4, tos)
        } else if numbers::SEND_TOS_IS_A_BYTE {
            // An int everywhere but on FreeBSD (ip_cmsg_send in net/ipv4/ip_sockglue.c takes both).
            self.append("tos", numbers::SEND_TOS, &[tos])
        } else {
            self.append_int("tos", numbers::SEND_TOS, tos)
        }
    }

    #[inline]
    fn append_tos_v6(&mut self, tos: u8) -> Result<(), Unencodable> {
        if numbers::SEND_ECN_V6.is_some() && is_ecn_alone(tos) {
            self.append_int("tos", numbers::SEND_ECN_V6, tos)
        } else {
            self.append_int("tos", numbers::SEND_TCLASS, tos)
        }
    }

    fn append_hop_limit(&mut self, hops: u8) -> Result<(), Unencodable> {
        match (self.v4, hops) {
            (true, 0) => Err(Unencodable::NoHops),
            (true, ttl) => self.append_int("hop_limit", numbers::SEND_TTL, ttl),
            (false, hops) => self.append_int("hop_limit", numbers::SEND_HOP_LIMIT, hops),
        }
    }

    /// Appends source address and interface, of which one may be missing.
    #[inline]
    fn append_pktinfo_v4(
        &mut self,
        source: Option<&IpAddr>,
        interface: Option<u32>,
    ) -> Result<(), Unencodable> {
        let ip = match source {
            Some(IpAddr::V4(ip)) => *ip,
            Some(IpAddr::V6(source)) => source
                .to_ipv4_mapped()
                .ok_or(Unencodable::SourceFamily { source: IpAddr::V6(*source), v4: true })?,
            None => Ipv4Addr::UNSPECIFIED,
        };
        let ip = ip.octets();
        if numbers::SEND_PKTINFO_V4.is_none() && interface.is_none() {
            return self.append("source", numbers::SEND_SRCADDR_V4, &ip);
        }
        let index = interface.unwrap_or(0).to_ne_bytes();
        if numbers::SEND_PKTINFO_V4_IS_SHORT {
            return self.append("source", numbers::SEND_PKTINFO_V4, [ip, index].as_flattened());
        }
        // struct in_pktinfo (ip(7)): interface, source (ipi_spec_dst), and a field that the kernel
        // ignores on send.
        let info = [index, ip, [0; 4]];
        // A platform without this control message still has source addresses, so it is the interface that fails.
        self.append("interface", numbers::SEND_PKTINFO_V4, info.as_flattened())
    }

    /// Appends source address and interface, of which one may be missing.
    #[inline]
    fn append_pktinfo_v6(
        &mut self,
        source: Option<&IpAddr>,
        interface: Option<u32>,
    ) -> Result<(), Unencodable> {
        let ip = match source {
            Some(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_none() => *ip,
            Some(source) => {
                return Err(Unencodable::SourceFamily { source: *source, v4: false });
            }
            None => Ipv6Addr::UNSPECIFIED,
        };
        // struct in6_pktinfo (RFC 3542, section 6.1).
        let mut info = [0; 20];
        info[..16].copy_from_slice(&ip.octets());
        info[16..].copy_from_slice(&interface.unwrap_or(0).to_ne_bytes());
        let option = if source.is_some() { "source" } else { "interface" };
        self.append(option, numbers::SEND_PKTINFO_V6, &info)
    }

    #[inline]
    fn append_int(
        &mut self,
        option: &'static str,
        ty: Option<CmsgType>,
        value: u8,
    ) -> Result<(), Unencodable> {
        self.append(option, ty, &i32::from(value).to_ne_bytes())
    }

    /// Appends the control message of an option, a field of `SendMeta`.
    #[inline]
    fn append(
        &mut self,
        option: &'static str,
        ty: Option<CmsgType>,
        payload: &[u8],
    ) -> Result<(), Unencodable> {
        let ty = ty.ok_or(Unencodable::Unsupported { option, v4: self.v4 })?;
        let end = control_message::append(Layout::NATIVE, self.space, self.len, ty, payload);
        let needed = self.len + Layout::NATIVE.space(payload.len());
        self.len = end.ok_or(Unencodable::TooLong { needed })?;
        Ok(())
    }
}

/// Whether a TOS byte has no other bits than those of ECN.
fn is_ecn_alone(tos: u8) -> bool {
    tos & !0b11 == 0
}

/// Copies encoded control messages to `space`, after the `len` bytes written there. Returns the length of all.
pub(crate) fn append_raw(raw: &[u8], len: usize, space: &mut [u8]) -> Result<usize, Unencodable> {
    let end = len + raw.len();
    let space = space.get_mut(len..end);
    space.ok_or(Unencodable::TooLong { needed: end })?.copy_from_slice(raw);
    Ok(end)
}
