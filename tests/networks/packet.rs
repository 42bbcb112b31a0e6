//! What the link reads in packets, and the ICMP errors that it answers with. No I/O.

use std::net::Ipv4Addr;

/// The datagrams of a packet, by their numbers: the first two bytes of each payload. A GSO batch that was not
/// segmented has several. Empty if none goes to or comes from `port`.
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

/// The UDP header and what follows; `None` for other packets and for all but the first fragment.
fn udp(packet: &[u8]) -> Option<&[u8]> {
    // RFC 791, section 3.1.
    let is_v4 = packet.first()? >> 4 == 4;
    let is_first = u16::from_be_bytes([*packet.get(6)?, packet[7]]) & 0x1fff == 0;
    let is_udp = i32::from(*packet.get(9)?) == libc::IPPROTO_UDP;
    let header = usize::from(packet[0] & 0xf) * 4;
    if is_v4 && is_first && is_udp { packet.get(header..) } else { None }
}

/// "Destination unreachable" (RFC 792) with this code, about `packet`, from a router.
pub fn unreachable(packet: &[u8], code: u8, router: Ipv4Addr) -> Vec<u8> {
    let about = &packet[..packet.len().min(28)];
    let mut icmp = vec![3, code, 0, 0, 0, 0, 0, 0];
    icmp.extend(about);
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

/// RFC 1071; `bytes` are even in number.
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

#[test]
fn an_icmp_error_has_the_checksums_of_its_rfc() {
    // 192.0.2.1 to 192.0.2.2, UDP, ports 1 and 2, no checksum.
    let ip = [0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let packet = [&ip[..], &[0, 1, 0, 2, 0, 10, 0, 0, 1, 2]].concat();
    assert_eq!(numbers(0, &packet, 2), [0x0102]);
    assert!(numbers(0, &packet, 3).is_empty());
    let reply = unreachable(&packet, 3, Ipv4Addr::new(192, 0, 2, 9));
    assert_eq!((reply.len(), &reply[16..20]), (56, &[192, 0, 2, 1][..]));
    // A sum with its own checksum is all ones, of which the complement is 0.
    assert_eq!((checksum(&reply[..20]), checksum(&reply[20..])), ([0, 0], [0, 0]));
}
