//! The counters over HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Instant;

use socket2::{Domain, Socket, Type};

use crate::program::{Server, client, serve, skip};
use crate::running::PATIENCE;
use crate::seccomp;

/// Starts a server and returns the address of its counters.
pub fn start(args: &[&str]) -> (Server, String) {
    // Each process has loopback addresses of its own, so nobody takes the port.
    static COUNT: AtomicU8 = AtomicU8::new(1);
    let [_, a, b, c] = std::process::id().to_be_bytes();
    let host = COUNT.fetch_add(1, Ordering::Relaxed);
    let metrics = format!("127.{}.{c}.{host}:{}", 64 + b % 128, 9_000 + u16::from(a));
    (serve("127.0.0.1:0", &[args, &["--metrics", &metrics]].concat()), metrics)
}

/// The response to a request with these header lines.
pub fn get(metrics: &str, headers: &str) -> String {
    let mut http = TcpStream::connect(metrics).expect("it listens");
    let request = format!("GET /metrics HTTP/1.1\r\nhost: here\r\n{headers}\r\n");
    http.write_all(request.as_bytes()).expect("sent");
    read(http)
}

fn read(mut http: TcpStream) -> String {
    http.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut page = String::new();
    http.read_to_string(&mut page).expect("a page");
    page
}

#[test]
fn the_counters_are_served_for_prometheus() {
    for mode in ["batch", "offload"] {
        let (server, metrics) = start(&["--mode", mode]);
        let client = client(server.addr);
        let mut query = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(b"\x03www\x07example\x04test\0\0\x01\0\x01");
        client.send_to(&query, server.addr).expect("sent");
        client.recv(&mut [0; 512]).expect("an answer");
        // Too short for an answer.
        client.send_to(&query[..11], server.addr).expect("sent");
        client.send_to(&query, server.addr).expect("sent");
        client.recv(&mut [0; 512]).expect("an answer");

        let page = get(&metrics, "");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("\ndns_limited_dropped_total 0\n"), "{page}");
        assert!(page.contains("\ndns_ignored_total 1\n"), "{page}");
        assert!(page.contains("dns_received_total{socket=\"0\"} 3\n"), "{page}");
        server.stop();
    }
}

/// Every receive of the server fails: it inherits this thread's filter.
#[test]
fn a_lasting_receive_error_is_counted_and_said_once_a_second() {
    let test = || {
        if let Err(error) = seccomp::deny(&[seccomp::RECVMMSG], libc::ENOMEM) {
            return skip("a_lasting_receive_error", error);
        }
        let begin = Instant::now();
        let (server, metrics) = start(&["--threads", "2"]);
        let count = || {
            let page = get(&metrics, "");
            let line = page.lines().find_map(|line| line.strip_prefix("dns_receive_errors_total "));
            line.and_then(|count| count.parse().ok()).unwrap_or(0)
        };
        while count() < 500 {
            assert!(begin.elapsed() < PATIENCE);
        }
        server.program.signal(libc::SIGTERM);
        let ended = server.program.wait();
        assert_eq!(ended.status, Some(0));
        let seconds = begin.elapsed().as_secs() as usize + 2;
        assert!((1..=seconds).contains(&ended.err.len()), "{seconds} seconds: {:?}", ended.err);
        assert!(ended.err[0].starts_with("error: cannot receive: "), "{:?}", ended.err);
    };
    thread::spawn(test).join().expect("no panic");
}

/// Connections that send nothing, that read nothing, and that send much.
#[test]
fn no_client_keeps_the_counters_from_another() {
    let (server, metrics) = start(&[]);
    let idle: Vec<_> =
        (0..200).map(|_| TcpStream::connect(&metrics).expect("it listens")).collect();
    assert!(get(&metrics, "").contains("dns_received_total"));
    let slow: Vec<_> = (0..200)
        .map(|_| {
            let mut http = TcpStream::connect(&metrics).expect("it listens");
            let _ = http.write_all(&b"GET / HTTP/1.1\r\nhost: here\r\n\r\n".repeat(100));
            http
        })
        .collect();
    assert!(get(&metrics, "").contains("dns_received_total"));
    let long = format!("x-long: {}\r\n", "x".repeat(8192));
    let page = get(&metrics, &long);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    drop((idle, slow));
    server.stop();
}

/// The server is stopped until all connections wait, so that it accepts them one after the other.
#[test]
fn a_flood_of_connections_ends_none_whose_request_is_there() {
    let (server, metrics) = start(&[]);
    // Another network's connection is there before its request.
    let from = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let other: SocketAddr = "127.9.0.1:0".parse().expect("an address");
    from.bind(&other.into()).expect("an address of loopback");
    let to: SocketAddr = metrics.parse().expect("an address");
    from.connect(&to.into()).expect("it listens");
    let mut early = TcpStream::from(from);

    server.program.signal(libc::SIGSTOP);
    let mut honest = TcpStream::connect(&metrics).expect("it listens");
    honest.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").expect("sent");
    let flood: Vec<_> =
        (0..40).map(|_| TcpStream::connect(&metrics).expect("it listens")).collect();
    server.program.signal(libc::SIGCONT);
    assert!(read(honest).contains("dns_received_total"));
    assert!(get(&metrics, "").contains("dns_received_total"));
    early.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").expect("sent");
    assert!(read(early).contains("dns_received_total"));
    drop(flood);
    server.stop();
}
