//! The server, with plain clients.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};

use mmsg::{BatchSocket, Offload, RecvBatch, SendMsg};

use crate::running::{PATIENCE, Program, Server, client, example, has_ipv6, loopbacks, skip};
use crate::serve;

/// Sends a datagram of each length and checks what comes back.
fn exchange(client: &UdpSocket, server: &Server, lengths: &[usize]) {
    let mut back = vec![0; 65_535];
    for &len in lengths {
        let data: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
        client.send_to(&data, server.addr).expect("loopback takes it");
        let (n, from) = client.recv_from(&mut back).expect("it comes back");
        assert_eq!((n, from), (len, server.addr));
        assert!(back[..n] == data, "the {len} bytes are the same");
    }
}

/// Stops the server and returns its line of totals.
fn stop(server: Server) -> String {
    server.stop().pop().expect("the totals are printed")
}

#[test]
fn every_length_comes_back_in_every_mode() {
    let ways: [&[&str]; 8] = [
        &[],
        &["--mode", "std"],
        &["--mode", "offload"],
        &["--mode", "offload", "--no-gso"],
        &["--mode", "offload", "--no-gro"],
        &["--mode", "offload", "--no-gso", "--no-gro"],
        &["--batch", "1"],
        &["--batch", "1024", "--threads", "2"],
    ];
    for way in ways {
        for addr in loopbacks() {
            let Some(server) = serve(addr, way) else { return };
            assert_ne!(server.addr.port(), 0);
            let largest = if server.addr.is_ipv4() { 65_507 } else { 65_527 };
            let lengths = [0, 1, 1472, largest, 0, largest, 2];
            exchange(&client(server.addr), &server, &lengths);
            let totals = stop(server);
            assert!(totals.starts_with("total: received 7, sent 7, "), "{way:?}: {totals}");
            assert!(totals.contains("errors 0, ignored 0"), "{way:?}: {totals}");
        }
    }
}

/// A connected client takes only what leaves from the address that it asked.
#[test]
fn a_wildcard_server_answers_from_the_address_that_was_asked() {
    for addr in ["0.0.0.0:0", "[::]:0"] {
        if addr.starts_with('[') && !has_ipv6() {
            return;
        }
        let Some(server) = serve(addr, &[]) else { return };
        // Other systems have one loopback address.
        let hosts = if cfg!(target_os = "linux") { 2 } else { 1 };
        for host in 1..=hosts {
            let client = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
            client.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
            client
                .connect(SocketAddr::from(([127, 0, 0, host], server.addr.port())))
                .expect("loopback has a route");
            client.send(b"mapped").expect("loopback takes it");
            let mut back = [0; 16];
            let n = client.recv(&mut back).expect("it comes back");
            assert_eq!(&back[..n], b"mapped");
        }
    }
}

#[test]
fn threads_share_the_clients() {
    for mode in ["std", "batch", "offload"] {
        let Some(server) = serve("127.0.0.1:0", &["--threads", "3", "--mode", mode]) else {
            return;
        };
        let clients: Vec<_> = (0..64).map(|_| client(server.addr)).collect();
        for client in &clients {
            exchange(client, &server, &[3]);
        }
        let totals = stop(server);
        assert!(totals.starts_with("total: received 64, sent 64, "), "{totals}");
    }
}

/// Sends a GSO batch with a shorter last datagram, and checks that the same datagrams come back in order.
fn exchange_gso_batch(client: &Offload<UdpSocket>, server: &Server) {
    let data: Vec<[u8; 100]> = (0..10).map(|i| [i; 100]).collect();
    let mut msgs: Vec<_> = data.iter().map(|data| SendMsg::to(server.addr, data)).collect();
    msgs.push(SendMsg::to(server.addr, b"end"));
    assert_eq!(client.send_batch(&msgs).expect("loopback takes it"), msgs.len());
    let (mut batch, mut back) = (RecvBatch::for_gro(16), Vec::new());
    while back.len() < msgs.len() {
        client.recv_into(&mut batch).expect("it comes back");
        back.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
    }
    let sent: Vec<_> = data.iter().map(|data| &data[..]).chain([&b"end"[..]]).collect();
    assert_eq!(back, sent);
}

#[test]
fn gso_and_gro_are_used_unless_switched_off() {
    for (gso, gro) in [(true, true), (false, true), (true, false), (false, false)] {
        let mut way = vec!["--mode", "offload"];
        way.extend((!gso).then_some("--no-gso"));
        way.extend((!gro).then_some("--no-gro"));
        let Some(server) = serve("127.0.0.1:0", &way) else { return };
        let client = Offload::new(client(server.addr)).expect("a loopback socket");
        exchange_gso_batch(&client, &server);
        let out = server.stop();
        let [.., offload, totals] = &out[..] else { panic!("no totals: {out:#?}") };
        assert!(totals.starts_with("total: received 11, sent 11, "), "{totals}");
        if !client.state().gso() || !client.state().gro() {
            return skip("GSO of the echo server", "this system has no offload");
        }
        let sent = match (gso, gro) {
            (true, true) => "GSO on, batches sent 1 (11 segments)",
            // How replies are grouped into batches depends on what had arrived by then.
            (true, false) => "GSO on, batches sent ",
            (false, _) => "GSO off, batches sent 0 (0 segments)",
        };
        let received = match gro {
            true => "GRO on, coalesced messages received 1 (11 segments)",
            false => "GRO off, coalesced messages received 0 (0 segments)",
        };
        assert!(offload.contains(sent) && offload.ends_with(received), "{way:?}: {offload}");
        assert!(offload.contains(", rejected 0; "), "{way:?}: {offload}");
        assert!(gso || client.state().counters().received_coalesced == 0, "{way:?}: {client:?}");
    }
}

#[test]
fn a_source_that_is_no_destination_harms_nobody() {
    // A datagram from port 0 cannot be answered, and only a raw socket can send one.
    let raw = match socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::RAW,
        Some(socket2::Protocol::UDP),
    ) {
        Ok(raw) => raw,
        Err(error) => {
            return skip("a source that is no destination", format_args!("no raw socket: {error}"));
        }
    };
    for mode in ["std", "batch", "offload"] {
        let Some(server) = serve("127.0.0.1:0", &["--mode", mode]) else { return };
        // A UDP header (source port 0, destination port, length 9, no checksum) and one byte.
        let [high, low] = server.addr.port().to_be_bytes();
        let packet = [0, 0, high, low, 0, 9, 0, 0, b'x'];
        let to = std::net::SocketAddr::from((server.addr.ip(), 0));
        let client = client(server.addr);
        for _ in 0..3 {
            raw.send_to(&packet, &to.into()).expect("loopback takes it");
            exchange(&client, &server, &[10, 20]);
        }
        let totals = stop(server);
        assert!(totals.starts_with("total: received 9, sent 6, "), "{mode}: {totals}");
        assert!(totals.contains("errors 0, ignored 3"), "{mode}: {totals}");
    }
}

#[test]
fn a_client_that_is_gone_harms_nobody() {
    for mode in ["std", "batch", "offload"] {
        let Some(server) = serve("127.0.0.1:0", &["--mode", mode]) else { return };
        let stays = client(server.addr);
        for _ in 0..3 {
            client(server.addr).send_to(b"gone", server.addr).expect("loopback takes it");
            exchange(&stays, &server, &[10, 20]);
        }
        let totals = stop(server);
        assert!(totals.starts_with("total: received 9, "), "{totals}");
    }
}

#[test]
fn both_signals_end_it() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let modes = ["std", "batch", "offload"].map(|mode| ["--mode", mode]);
        for way in modes.iter().chain([&["--threads", "2"]]) {
            let Some(server) = serve("127.0.0.1:0", way) else { return };
            exchange(&client(server.addr), &server, &[5]);
            server.program.signal(signal);
            let ended = server.program.wait();
            assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:?}");
            let totals = ended.out.last().expect("the totals are printed");
            assert!(totals.starts_with("total: received 1, sent 1, "), "{totals}");
        }
    }
}

#[test]
fn figures_are_printed_while_there_is_traffic() {
    let Some(server) = serve("127.0.0.1:0", &[]) else { return };
    exchange(&client(server.addr), &server, &[5, 6, 7]);
    let line = server.program.line();
    assert!(line.contains("received") && line.contains("/s  sent"), "{line}");
    assert!(line.ends_with("errors 0  ignored 0"), "{line}");
}

#[test]
fn a_closed_output_does_not_end_the_server() {
    let Some(path) = example("echo") else { return };
    let mut child = Command::new(path)
        .args(["serve", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    out.read_line(&mut line).expect("a line is printed");
    drop(out);
    let addr = line.trim_end().trim_start_matches("listening on ").parse().expect("an address");
    let pid = child.id().try_into().expect("a pid is a pid_t");
    let client = client(addr);
    client.send_to(b"still there?", addr).expect("loopback takes it");
    let mut back = [0; 16];
    client.recv(&mut back).expect("it comes back");
    // SAFETY: kill takes no pointers; the pid is of a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    let ended = child.wait_with_output().expect("a child can be waited for");
    assert_eq!((ended.status.code(), &ended.stderr[..]), (Some(0), &b""[..]));
}

#[test]
fn a_port_in_use_is_reported() {
    let Some(path) = example("echo") else { return };
    let shared = serve("127.0.0.1:0", &["--threads", "2"]).expect("the example is there");
    let alone = client(shared.addr);
    for addr in [shared.addr, alone.local_addr().expect("it is bound")] {
        for threads in ["1", "2"] {
            let args = ["serve", &addr.to_string(), "--threads", threads];
            let ended = Program::start(path, args).wait();
            assert_eq!((ended.status, ended.err.len(), ended.out.len()), (Some(1), 1, 0));
            assert!(ended.err[0].starts_with("error: cannot listen on "), "{ended:?}");
        }
    }
}
