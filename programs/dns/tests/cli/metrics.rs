//! The counters over HTTP.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::program::{Server, client, serve};
use crate::running::PATIENCE;

/// Starts a server and returns the address of its counters.
fn start(args: &[&str]) -> (Server, String) {
    // The listener is dropped, so the port is free when the server binds it.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let metrics = free.expect("a port").to_string();
    (serve("127.0.0.1:0", &[args, &["--metrics", &metrics]].concat()), metrics)
}

/// The response to a request with these header lines.
fn get(metrics: &str, headers: &str) -> String {
    let mut http = TcpStream::connect(metrics).expect("it listens");
    http.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let request = format!("GET /metrics HTTP/1.1\r\nhost: here\r\n{headers}\r\n");
    http.write_all(request.as_bytes()).expect("sent");
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

        let page = get(&metrics, "");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("\ndns_limited_dropped_total 0\n"), "{page}");
        assert!(page.contains("dns_received_total{socket=\"0\"} 1\n"), "{page}");
        server.stop();
    }
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
