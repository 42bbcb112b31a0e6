//! What an operator does: checks a zone, loads it again, listens on several addresses, looks at what was lost.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::Command;

use crate::program::{Program, Server, client, serve, zone};
use crate::raw::query;
use crate::running::{has_ipv6, receive};

/// A zone file with this address of www.example.test, removed by the test.
fn zone_file(name: &str, addr: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("mmsg-dns-{name}-{}.zone", std::process::id()));
    let head = "$ORIGIN example.test.\n$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS ns\n";
    fs::write(&path, format!("{head}ns A 192.0.2.1\nwww A {addr}\n")).expect("a file");
    path
}

/// The last byte of the address in the answer.
fn ask(server: &Server) -> u8 {
    let (client, mut back) = (client(server.addr), [0; 512]);
    client.send_to(&query(1), server.addr).expect("sent");
    let len = receive(&client, &mut back).expect("it is answered");
    back[len - 1]
}

#[test]
fn a_hangup_loads_the_zone_again_and_keeps_it_if_the_file_is_wrong() {
    for mode in crate::MODES {
        let path = zone_file(&format!("hangup-{mode}"), "192.0.2.7");
        let file = path.to_str().expect("a plain path");
        let args = ["--listen", "127.0.0.1:0", "--zone", file, "--mode", mode];
        let server = Server::start(env!("CARGO_BIN_EXE_dns"), args);
        assert_eq!(ask(&server), 7);
        fs::rename(zone_file(&format!("new-{mode}"), "192.0.2.8"), &path).expect("one folder");
        server.program.signal(libc::SIGHUP);
        let said = server.program.line();
        assert_eq!(said, format!("loaded {file}: zone example.test., 3 names, 4 records"));
        assert_eq!(ask(&server), 8);
        fs::write(&path, "nonsense\n").expect("a file");
        server.program.signal(libc::SIGHUP);
        let said = server.program.err_line();
        assert!(said.starts_with(&format!("error: {file}:1: ")), "{said}");
        assert!(said.ends_with("; the zone stays as it was"), "{said}");
        assert_eq!(ask(&server), 8);
        fs::remove_file(path).expect("it is there");
        server.stop();
    }
}

/// The zone is a pipe: the server reads until this test closes it.
#[test]
fn a_hangup_while_the_zone_loads_waits_until_it_can_be_served() {
    let path = zone_file("pipe", "192.0.2.7");
    let [first, second] = ["192.0.2.7", "192.0.2.8"]
        .map(|addr| fs::read(zone_file("pipe", addr)).expect("the test wrote it"));
    fs::remove_file(&path).expect("it is there");
    let made = Command::new("mkfifo").arg(&path).status().expect("coreutils");
    assert!(made.success());
    let file = path.to_str().expect("a plain path");
    let args = ["--listen", "127.0.0.1:0", "--zone", file];
    let program = Program::start(env!("CARGO_BIN_EXE_dns"), args);
    // Opens as soon as the server reads.
    let open = || fs::File::options().write(true).open(&path).expect("a pipe");
    let mut pipe = open();
    program.signal(libc::SIGHUP);
    pipe.write_all(&first).expect("the server reads");
    drop(pipe);
    let mut listening = program.line();
    open().write_all(&second).expect("the server reads again");
    // Two threads print the lines.
    if listening.starts_with("loaded ") {
        listening = program.line();
    } else {
        assert!(program.line().starts_with("loaded "));
    }
    let addr = listening.strip_prefix("listening on ").expect("it serves").parse();
    let server = Server { program, addr: addr.expect("an address") };
    assert_eq!(ask(&server), 8);
    fs::remove_file(path).expect("it is there");
    server.stop();
}

/// With musl the C library gives it back by itself.
#[cfg(target_env = "gnu")]
#[test]
fn the_memory_of_an_old_zone_is_given_back() {
    let path = zone_file("large", "192.0.2.7");
    let names: String = (0..40_000).map(|i| format!("name-{i} A 192.0.2.1\n")).collect();
    let text = fs::read_to_string(&path).expect("the test wrote it") + &names;
    fs::write(&path, text).expect("a file");
    let file = path.to_str().expect("a plain path");
    let args = ["--listen", "127.0.0.1:0", "--zone", file];
    let server = Server::start(env!("CARGO_BIN_EXE_dns"), args);
    let memory = || {
        let status = fs::read_to_string(format!("/proc/{}/status", server.program.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number")
    };
    let first = memory();
    for _ in 0..3 {
        server.program.signal(libc::SIGHUP);
        assert!(server.program.line().starts_with("loaded "));
    }
    let last = memory();
    assert!(last <= 1.3 * first, "{last} KiB, {first} at first");
    fs::remove_file(path).expect("it is there");
    server.stop();
}

#[test]
fn a_zone_can_be_checked_without_a_server() {
    let zone = zone();
    let zone = zone.to_str().expect("a plain path");
    let ended = Program::start(env!("CARGO_BIN_EXE_dns"), ["--check", "--zone", zone]).wait();
    assert_eq!((ended.status, ended.err.len(), ended.out.len()), (Some(0), 0, 1), "{ended:?}");
    assert!(ended.out[0].starts_with(&format!("{zone}: zone example.test., ")), "{ended:?}");
    let args = ["--check", "--zone", "no-such-file"];
    let ended = Program::start(env!("CARGO_BIN_EXE_dns"), args).wait();
    assert_eq!((ended.status, ended.err.len()), (Some(1), 1), "{ended:?}");
}

#[test]
fn one_server_listens_on_several_addresses() {
    for mode in crate::MODES {
        let more = ["--listen", "127.0.0.2:0", "--threads", "2", "--mode", mode];
        let server = serve("127.0.0.1:0", &more);
        let second = server.program.line();
        let second = second.strip_prefix("listening on ").expect("a line for each address");
        let client = client(server.addr);
        for addr in [server.addr, second.parse().expect("an address")] {
            client.send_to(&query(1), addr).expect("sent");
            let (_, from) = client.recv_from(&mut [0; 512]).expect("it is answered");
            assert_eq!(from, addr);
        }
        server.stop();
    }
}

/// As `--listen 0.0.0.0:53 --listen [::]:53` needs it. The test's own sockets have the port of IPv4 meanwhile.
#[test]
fn the_wildcard_of_ipv6_leaves_ipv4_to_others() {
    if !has_ipv6() {
        return;
    }
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let addr = udp.local_addr().expect("it is bound");
        if let Ok(tcp) = TcpListener::bind(addr) {
            break (udp, tcp);
        }
    };
    for mode in crate::MODES {
        let addr = udp.local_addr().expect("it is bound");
        let server = serve(&format!("[::]:{}", addr.port()), &["--mode", mode]);
        assert_eq!(server.stop().len(), 1);
    }
    drop(tcp);
}

/// The kernel counts what finds no place in the socket's buffer while the server is stopped.
#[test]
fn datagrams_that_the_system_drops_are_counted() {
    let server = serve("127.0.0.1:0", &["--mode", "batch"]);
    let client = client(server.addr);
    server.program.signal(libc::SIGSTOP);
    // More than any buffer that the server asks for has space for.
    for _ in 0..60_000 {
        let _ = client.send_to(&query(1), server.addr);
    }
    server.program.signal(libc::SIGCONT);
    let ended = server.stop();
    assert!(!ended[0].contains("dropped by the system 0,"), "{ended:?}");
}

/// An attacker on the link may send from `::`; Linux would deliver the answer to a service on `::1`.
#[test]
fn a_query_from_the_unspecified_address_gets_no_answer() {
    use socket2::{Domain, SockAddr, Socket, Type};
    use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

    if !has_ipv6() {
        return;
    }
    // Packets with the whole header.
    let raw = Socket::new(Domain::IPV6, Type::RAW, Some(libc::IPPROTO_RAW.into()));
    let raw = match raw {
        Ok(raw) => raw,
        Err(error) => return crate::program::skip("a_query_from_the_unspecified_address", error),
    };
    for mode in crate::MODES {
        let server = serve("[::1]:0", &["--mode", mode]);
        let victim = UdpSocket::bind("[::1]:0").expect("a loopback socket");
        let port = victim.local_addr().expect("it is bound").port();
        let payload = query(7);
        let len = (8 + payload.len() as u16).to_be_bytes();
        let ports = [port, server.addr.port()].map(u16::to_be_bytes).concat();
        let mut udp = [&ports[..], &len, &[0, 0], &payload].concat();
        // RFC 8200, section 8.1: the sum over both addresses, the length, the protocol and the datagram.
        let to = Ipv6Addr::LOCALHOST.octets();
        let summed =
            [&[0; 16], &to[..], &[0, 0], &len, &[0, 0, 0, 17], &udp, &[0][..udp.len() % 2]];
        let sum: u32 =
            summed.concat().chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        let packet = [&[0x60, 0, 0, 0], &len[..], &[17, 64], &[0; 16], &to, &udp].concat();
        let addr = SockAddr::from(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 0, 0, 0));
        raw.send_to(&packet, &addr).expect("loopback takes it");
        // The server answers in order.
        let client = client(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 0, 0, 0)));
        client.send_to(&query(8), server.addr).expect("sent");
        receive(&client, &mut [0; 512]).expect("it is answered");
        victim.set_nonblocking(true).expect("a socket can be");
        assert!(victim.recv(&mut [0; 512]).is_err(), "{mode}: the answer went to ::1");
        let ended = server.stop();
        assert!(ended[0].starts_with("total: received 2, answered 1,"), "{mode}: {ended:?}");
    }
}
