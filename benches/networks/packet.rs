//! Parses packets for the link and builds its ICMP errors, without I/O.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The numbers of a packet's datagrams: the first two bytes of each payload. An unsegmented GSO batch has several; a
/// packet of another port has none.
pub fn numbers(gso_size: u16, packet: &[u8], port: u16) -> Vec<u16> {
    let Some(udp) = udp(packet) else { return Vec::new() };
    let is_port = |at: usize| udp.get(at..at + 2) == Some(&port.to_be_bytes());
    if !is_port(0) && !is_port(2) {
        return Vec::new();
    }
    let payload = udp.get(8..).unwrap_or_default();
    let each = if gso_size == 0 { payload.len().max(1) } else { gso_size.into() };
    let number = |payload: &[u8]| Some(u16::from_be_bytes(payload.get(..2)?.try_into().ok()?));
    payload.chunks(each).filter_map(number).collect()
}

/// The UDP header and payload; `None` for other packets and all but the first fragment.
fn udp(packet: &[u8]) -> Option<&[u8]> {
    const FRAGMENT: u8 = libc::IPPROTO_FRAGMENT as u8;
    let number = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
    let (protocol, header, is_first) = match (packet.first()? >> 4, packet.get(6)?) {
        // RFC 791, section 3.1.
        (4, _) => (packet.get(9)?, usize::from(packet[0] & 0xf) * 4, number(6)? & 0x1fff == 0),
        // RFC 8200, section 4.5.
        (6, &FRAGMENT) => (packet.get(40)?, 48, number(42)? >> 3 == 0),
        // Section 3.
        (6, next) => (next, 40, true),
        _ => return None,
    };
    let is_udp = i32::from(*protocol) == libc::IPPROTO_UDP;
    if is_first && is_udp { packet.get(header..) } else { None }
}

/// A "port unreachable" message about `packet` from a router.
pub fn unreachable(packet: &[u8], router: IpAddr) -> Vec<u8> {
    match router {
        IpAddr::V4(router) => unreachable_v4(packet, router),
        IpAddr::V6(router) => unreachable_v6(packet, router),
    }
}

fn unreachable_v4(packet: &[u8], router: Ipv4Addr) -> Vec<u8> {
    // RFC 792.
    let mut icmp = vec![3, 3, 0, 0, 0, 0, 0, 0];
    icmp.extend(&packet[..packet.len().min(28)]);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum);

    let len = (20 + icmp.len()) as u16;
    let mut reply = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, libc::IPPROTO_ICMP as u8, 0, 0];
    reply[2..4].copy_from_slice(&len.to_be_bytes());
    reply.extend(router.octets());
    reply.extend(&packet[12..16]);
    let sum = checksum(&reply);
    reply[10..12].copy_from_slice(&sum);
    reply.extend(icmp);
    reply
}

fn unreachable_v6(packet: &[u8], router: Ipv6Addr) -> Vec<u8> {
    // RFC 4443, section 3.1.
    let mut icmp = vec![1, 4, 0, 0, 0, 0, 0, 0];
    icmp.extend(&packet[..packet.len().min(48)]);
    let len = (icmp.len() as u16).to_be_bytes();
    let (next, to) = (libc::IPPROTO_ICMPV6 as u8, &packet[8..24]);
    // RFC 8200, section 8.1.
    let pseudo = [&router.octets()[..], to, &[0, 0, len[0], len[1], 0, 0, 0, next]].concat();
    let sum = checksum(&[&pseudo[..], &icmp].concat());
    icmp[2..4].copy_from_slice(&sum);
    [&[0x60, 0, 0, 0, len[0], len[1], next, 64], &router.octets()[..], to, &icmp].concat()
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}
