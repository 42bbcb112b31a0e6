//! Datagrams that no well-behaved client sends.

use std::fs;
use std::net::{Ipv6Addr, UdpSocket};
use std::thread;

use crate::program::{client, serve, skip};
use crate::running::{PATIENCE, receive};
use crate::{MODES, seccomp};

/// A query for www.example.test A IN.
pub fn query(id: u8) -> Vec<u8> {
    let mut bytes = vec![0, id, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend(b"\x03www\x07example\x04test\0\0\x01\0\x01");
    bytes
}

/// An OPT record of this EDNS version.
fn opt(version: u8) -> [u8; 11] {
    [0, 0, 41, 4, 208, 0, version, 0, 0, 0, 0]
}

/// A query with changed or added bytes.
fn changed(id: u8, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = query(id);
    change(&mut bytes);
    bytes
}

#[test]
fn silence_and_refusals_follow_the_rfcs() {
    let silent = [
        vec![],
        vec![0; 11],
        // A response: a server that answered responses would answer itself for ever.
        changed(1, |bytes| bytes[2] = 0x80),
        changed(2, |bytes| bytes[2] = 0xa8),
    ];
    let (form, not_implemented, refused, bad_version) = (1, 4, 5, 0);
    let wrong = [
        (changed(10, |bytes| bytes.truncate(12)), form),
        (changed(11, |bytes| bytes.truncate(20)), form),
        (changed(12, |bytes| bytes[5] = 0), form),
        (changed(13, |bytes| bytes[5] = 2), form),
        // A name that points to itself, one with an undefined label type, and one that is too long.
        (changed(14, |bytes| bytes[12..14].copy_from_slice(&[0xc0, 12])), form),
        (changed(15, |bytes| bytes[12] = 0x40), form),
        (
            changed(16, |bytes| {
                bytes.splice(12..12, [1, b'a'].repeat(120));
            }),
            form,
        ),
        // Two questions or OPT records where one is allowed, and a truncated record.
        (
            changed(17, |bytes| {
                bytes[11] = 2;
                bytes.extend(opt(0));
                bytes.extend(opt(0));
            }),
            form,
        ),
        (
            changed(18, |bytes| {
                bytes[11] = 1;
                bytes.extend(&opt(0)[..10]);
            }),
            form,
        ),
        (
            changed(19, |bytes| {
                bytes[11] = 1;
                bytes.extend(opt(1));
            }),
            bad_version,
        ),
        (changed(20, |bytes| bytes[2] = 0x28), not_implemented),
        // A zone transfer, which needs TCP.
        (
            changed(22, |bytes| {
                let ty = bytes.len() - 3;
                bytes[ty] = 251;
            }),
            refused,
        ),
        (changed(21, |bytes| bytes[2] = 0x78), not_implemented),
        // Longer than most, by padding (RFC 7830).
        (
            changed(23, |bytes| {
                bytes[11] = 1;
                bytes.extend(&opt(0)[..9]);
                bytes.extend([0x10, 4, 0, 12, 0x10, 0]);
                bytes.extend([0; 4096]);
            }),
            0,
        ),
    ];
    for mode in MODES {
        let server = serve("127.0.0.1:0", &["--mode", mode]);
        let client = client(server.addr);
        client.connect(server.addr).expect("loopback has a route");
        let mut back = [0; 4096];
        // These get no answer, so the next answer must be to the query that follows.
        for bytes in &silent {
            client.send(bytes).expect("loopback takes it");
        }
        for (bytes, code) in &wrong {
            client.send(bytes).expect("loopback takes it");
            let len = receive(&client, &mut back).expect("it is answered");
            assert_eq!(back[1], bytes[1], "{mode}: the answer to {bytes:?}");
            assert_eq!(back[2] & 0x80, 0x80, "{mode}: {bytes:?}");
            assert_eq!(back[3] & 0xf, *code, "{mode}: {bytes:?}");
            assert!(len >= 12);
        }
        client.send(&query(99)).expect("loopback takes it");
        let len = receive(&client, &mut back).expect("it is answered");
        assert_eq!((back[1], back[3], back[7]), (99, 0, 2), "{mode}");
        assert_eq!(len, query(0).len() + 2 * 16);
        server.stop();
    }
}

/// An address that is valid only with its interface.
#[test]
fn a_listening_address_may_name_its_interface() {
    let all = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let found = all.lines().find_map(|line| {
        let ip = u128::from_str_radix(line.split_whitespace().next()?, 16).ok()?;
        let interface = line.split_whitespace().last()?;
        (ip >> 112 == 0xfe80).then(|| format!("[{}%{interface}]:0", Ipv6Addr::from_bits(ip)))
    });
    let Some(addr) = found else { return skip("a listening address", "no link-local address") };
    for mode in MODES {
        let server = serve(&addr, &["--mode", mode]);
        let client = UdpSocket::bind("[::]:0").expect("a socket");
        client.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        client.connect(server.addr).expect("it is this machine's");
        client.send(&query(7)).expect("sent");
        let mut back = [0; 512];
        receive(&client, &mut back).expect("it is answered");
        assert_eq!((back[1], back[3], back[7]), (7, 0, 2), "{mode}");
        server.stop();
    }
}

#[test]
fn one_thread_starts_where_sharing_is_refused() {
    let test = || {
        if let Err(error) = seccomp::deny_option(libc::SO_REUSEPORT, libc::ENOPROTOOPT) {
            return skip("one_thread_starts_where_sharing_is_refused", error);
        }
        let server = serve("127.0.0.1:0", &[]);
        let client = client(server.addr);
        client.send_to(&query(7), server.addr).expect("sent");
        receive(&client, &mut [0; 512]).expect("it is answered");
        server.stop();
    };
    thread::spawn(test).join().expect("no panic");
}
