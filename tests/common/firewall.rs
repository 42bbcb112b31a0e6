//! A firewall rule made without any tool: nftables over netlink.
//!
//! A transaction of five messages: begin, table, chain on the output hook, rule, end. The rule is `udp dport PORT
//! drop` or `udp length > LENGTH drop`, which makes the kernel reject the send with `EPERM`.
//! (include/uapi/linux/netfilter/nfnetlink.h and nf_tables.h.)

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const BEGIN: u16 = 0x10;
const END: u16 = 0x11;
/// NFNL_SUBSYS_NFTABLES.
const NFTABLES: u16 = 10;
const NEW_TABLE: u16 = NFTABLES << 8;
const NEW_CHAIN: u16 = NFTABLES << 8 | 3;
const NEW_RULE: u16 = NFTABLES << 8 | 6;
const REQUEST: u16 = 1;
const CREATE: u16 = 0x400;
const ACK: u16 = 4;
/// NLA_F_NESTED.
const NESTED: u16 = 1 << 15;

/// Rejects UDP datagrams to `port` in this thread's network namespace.
pub fn reject_port(port: u16) -> io::Result<()> {
    reject(&expressions(2, EQUAL, port))
}

/// Rejects datagrams whose UDP header and payload exceed `len` bytes. The kernel checks a GSO batch as a whole.
pub fn reject_longer(len: u16) -> io::Result<()> {
    reject(&expressions(4, GREATER, len))
}

fn reject(expressions: &[Vec<u8>]) -> io::Result<()> {
    let table = text(1, "mmsg-test");
    let hook = nested(4, &[number(1, libc::NF_INET_LOCAL_OUT as u32), number(2, 0)]);
    let chain = [text(1, "mmsg-test"), text(3, "output"), hook, text(7, "filter")].concat();
    let rule = [text(1, "mmsg-test"), text(2, "output"), nested(4, expressions)].concat();

    let mut transaction = Vec::new();
    transaction.extend(message(BEGIN, REQUEST, 0, NFTABLES, &[]));
    transaction.extend(message(NEW_TABLE, REQUEST | CREATE, 1, 0, &table));
    transaction.extend(message(NEW_CHAIN, REQUEST | CREATE, 2, 0, &chain));
    transaction.extend(message(NEW_RULE, REQUEST | CREATE | ACK, 3, 0, &rule));
    transaction.extend(message(END, REQUEST, 4, NFTABLES, &[]));
    exchange(&transaction)
}

/// NFT_CMP_EQ and NFT_CMP_GT.
const EQUAL: u32 = 0;
const GREATER: u32 = 4;

/// Drops a UDP packet if the header field at `offset` compares to `value` as given.
fn expressions(offset: u32, comparison: u32, value: u16) -> Vec<Vec<u8>> {
    let expression = |name: &str, parts: &[Vec<u8>]| nested(1, &[text(1, name), nested(2, parts)]);
    let data = |ty, bytes: &[u8]| nested(ty, &[attribute(1, bytes)]);
    // Register 1 takes 16 bytes; NFT_META_L4PROTO is 16; the transport header is base 2.
    let protocol = [number(2, 16), number(1, 1)];
    let field = [number(1, 1), number(2, 2), number(3, offset), number(4, 2)];
    let compare = |how, bytes: &[u8]| [number(1, 1), number(2, how), data(3, bytes)];
    let drop = nested(2, &[nested(2, &[number(1, libc::NF_DROP as u32)])]);
    vec![
        expression("meta", &protocol),
        expression("cmp", &compare(EQUAL, &[libc::IPPROTO_UDP as u8])),
        expression("payload", &field),
        expression("cmp", &compare(comparison, &value.to_be_bytes())),
        expression("immediate", &[number(1, 0), drop]),
    ]
}

/// A netlink message. Its headers are in this machine's byte order, except nfnetlink's resource.
fn message(ty: u16, flags: u16, sequence: u32, resource: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = (20 + body.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(ty.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    let family = if resource == 0 { libc::NFPROTO_INET as u8 } else { 0 };
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn attribute(ty: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + data.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(ty.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn nested(ty: u16, parts: &[Vec<u8>]) -> Vec<u8> {
    attribute(ty | NESTED, &parts.concat())
}

/// nftables' numbers are in network byte order.
fn number(ty: u16, value: u32) -> Vec<u8> {
    attribute(ty, &value.to_be_bytes())
}

fn text(ty: u16, value: &str) -> Vec<u8> {
    attribute(ty, &[value.as_bytes(), &[0]].concat())
}

/// Sends the transaction and reads the kernel's answer: a negative errno or zero.
fn exchange(transaction: &[u8]) -> io::Result<()> {
    let failed = |result: isize| result < 0;
    // SAFETY: no pointers.
    let fd = unsafe {
        libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_NETFILTER)
    };
    if failed(fd as isize) {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, without another owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an all-zero sockaddr_nl is valid.
    let mut kernel: libc::sockaddr_nl = unsafe { mem::zeroed() };
    kernel.nl_family = libc::AF_NETLINK as _;
    // SAFETY: pointers and lengths are those of the slice and the address.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            transaction.as_ptr().cast(),
            transaction.len(),
            0,
            (&raw const kernel).cast(),
            mem::size_of_val(&kernel) as _,
        )
    };
    if failed(sent) {
        return Err(io::Error::last_os_error());
    }
    let mut answer = [0; 4096];
    // SAFETY: as above.
    let len = unsafe {
        libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT)
    };
    if failed(len) {
        return Err(io::Error::last_os_error());
    }
    match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
