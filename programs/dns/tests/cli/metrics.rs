//! The counters over HTTP.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::program::{client, serve};

#[test]
fn the_counters_are_served_for_prometheus() {
    for mode in ["batch", "offload"] {
        // The port is free again when the server takes it.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let metrics = free.expect("a port").to_string();
        let server = serve("127.0.0.1:0", &["--mode", mode, "--metrics", &metrics]);
        let client = client(server.addr);
        let mut query = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend(b"\x03www\x07example\x04test\0\0\x01\0\x01");
        client.send_to(&query, server.addr).expect("sent");
        client.recv(&mut [0; 512]).expect("an answer");

        let mut http = TcpStream::connect(metrics).expect("it listens");
        http.write_all(b"GET /metrics HTTP/1.1\r\nhost: here\r\n\r\n").expect("sent");
        let mut page = String::new();
        http.read_to_string(&mut page).expect("a page");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("\ndns_received_total{socket=\"0\"} 1\n"), "{page}");
        server.stop();
    }
}
