//! Attackers who try to make the server flood others.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::MODES;
use crate::program::serve;
use crate::raw::query;
use crate::running::{PATIENCE, receive};

/// A client with this loopback address.
fn client(from: &str, server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).expect("an address of loopback");
    socket.connect(server).expect("loopback has a route");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// A query with EDNS, which allows answers of `size` bytes, and a cookie.
fn with_edns(id: u8, size: u16, cookie: &[u8]) -> Vec<u8> {
    let mut bytes = query(id);
    bytes[11] = 1;
    bytes.extend([0, 0, 41]);
    bytes.extend(size.to_be_bytes());
    let option = if cookie.is_empty() { 0 } else { 4 + cookie.len() as u8 };
    bytes.extend([0, 0, 0, 0, 0, option]);
    if option > 0 {
        bytes.extend([0, 10, 0, cookie.len() as u8]);
        bytes.extend(cookie);
    }
    bytes
}

/// Receives until 200 ms pass without a datagram.
fn drain(socket: &UdpSocket, mut each: impl FnMut(&[u8])) {
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let mut back = [0; 4096];
    while let Ok(len) = receive(socket, &mut back) {
        each(&back[..len]);
    }
}

/// One network floods, and a client of another network loses nothing.
#[test]
fn a_flooding_network_gets_few_answers_and_others_all() {
    for mode in MODES {
        let server = serve("127.0.0.1:0", &["--mode", mode, "--rate-limit", "50"]);
        let (flood, honest) = (client("127.3.0.1", server.addr), client("127.4.0.1", server.addr));
        let start = Instant::now();
        let (mut whole, mut truncated, mut longest) = (0, 0, 0);
        let mut count = |back: &[u8]| {
            if back[2] & 2 == 0 {
                whole += 1
            } else {
                truncated += 1
            }
            if back[2] & 2 != 0 {
                longest = longest.max(back.len());
            }
        };
        for round in 0..20 {
            for id in 0..100 {
                let _ = flood.send(&with_edns(id, 4096, &[]));
            }
            honest.send(&query(round)).expect("sent");
            let mut back = [0; 512];
            let len = receive(&honest, &mut back).expect("an answer");
            assert_eq!(
                (back[1], back[2] & 2, back[7]),
                (round, 0, 2),
                "{mode}: {:?}",
                &back[..len]
            );
        }
        drain(&flood, &mut count);
        let seconds = start.elapsed().as_secs() + 2;
        assert!(whole <= 50 * seconds, "{mode}: {whole} answers within {seconds} s");
        // Half of the queries over the limit.
        assert!(truncated <= 1000, "{mode}: {truncated} truncated answers of 2000");
        assert!(whole > 0 && truncated > 0, "{mode}: {whole} and {truncated}");
        assert!(longest <= with_edns(0, 0, &[]).len(), "{mode}: an answer of {longest} bytes");
        server.stop();
    }
}

#[test]
fn a_client_with_our_cookie_is_not_limited_and_nobody_else_can_use_it() {
    let server = serve("127.0.0.1:0", &["--rate-limit", "1"]);
    let client_cookie = b"\x01\x02\x03\x04\x05\x06\x07\x08";
    let known = client("127.5.0.1", server.addr);
    known.send(&with_edns(0, 1232, client_cookie)).expect("sent");
    let mut back = [0; 512];
    let len = receive(&known, &mut back).expect("an answer");
    // The cookie is in the last 24 bytes.
    let cookie = back[len - 24..len].to_vec();
    assert_eq!(
        (&back[len - 28..len - 24], &cookie[..8]),
        (&[0, 10, 0, 24][..], &client_cookie[..])
    );
    for id in 0..100 {
        known.send(&with_edns(id, 1232, &cookie)).expect("sent");
        let len = receive(&known, &mut back).expect("an answer");
        assert_eq!((back[1], back[2] & 2, back[7]), (id, 0, 2), "{:?}", &back[..len]);
    }
    // The same cookie from another address, and a changed one.
    for (from, change) in [("127.6.0.1", 0), ("127.5.0.1", 1)] {
        let begin = Instant::now();
        let mut cookie = cookie.clone();
        cookie[23] ^= change;
        let other = client(from, server.addr);
        (0..100).for_each(|id| drop(other.send(&with_edns(id, 1232, &cookie))));
        let mut whole = 0;
        drain(&other, |back| whole += u64::from(back[2] & 2 == 0));
        let most = 10 + begin.elapsed().as_secs();
        assert!(whole <= most, "{from}: {whole} whole answers at a limit of one a second");
    }
    server.stop();
}

#[test]
fn answers_are_at_most_as_long_as_the_client_and_the_network_can_take() {
    // Without this limit, the longest answer to an ANY query was 14.8 times as long as the query.
    for (limit, sizes) in [
        ("1232", [(0, 512), (700, 700), (4096, 1232)]),
        ("600", [(0, 512), (700, 600), (4096, 600)]),
    ] {
        let server = serve("127.0.0.1:0", &["--max-udp", limit]);
        let client = client("127.0.0.1", server.addr);
        for (announced, most) in sizes {
            for ty in [16, 255] {
                let mut query = with_edns(1, announced, &[]);
                query.splice(12..16, *b"\x03big");
                let at = query.len() - 11 - 3;
                query[at] = ty;
                client.send(&query).expect("sent");
                let len = receive(&client, &mut [0; 4096]).expect("an answer");
                assert!(
                    len <= most,
                    "{len} bytes to a client that takes {announced}, limit {limit}"
                );
            }
        }
        server.stop();
    }
}
