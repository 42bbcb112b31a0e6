//! The load generator, against good and bad servers.

use std::net::{SocketAddr, UdpSocket};
use std::thread::{self, JoinHandle};

use crate::running::{Ended, Server, client, has_ipv6, loopbacks};
use crate::{run, serve};

/// The number after `name` at the start of a line.
fn figure(ended: &Ended, name: &str) -> u64 {
    let line = ended.out.iter().find(|line| line.starts_with(name));
    let words = line.and_then(|line| line.split_whitespace().nth(1));
    let digits = words.unwrap_or_else(|| panic!("no {name} in {ended:#?}")).replace(',', "");
    digits.parse().unwrap_or_else(|_| panic!("no number of {name} in {ended:#?}"))
}

fn load(addr: SocketAddr, args: &[&str]) -> Option<Ended> {
    let time: &[&str] = if args.contains(&"--seconds") { &[] } else { &["--seconds", "0.3"] };
    run(&[&["load", &addr.to_string()], time, args].concat())
}

#[test]
fn a_good_server_changes_nothing() {
    for addr in loopbacks() {
        let Some(server) = serve(addr, &[]) else { return };
        let sizes = ["8", "9", "1200", "1472", "65507"];
        for size in sizes {
            let ended = load(server.addr, &["--size", size, "--window", "8"]).expect("it is there");
            assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{size}: {ended:#?}");
            assert!(figure(&ended, "received") > 0);
            assert_eq!(figure(&ended, "changed"), 0);
            assert_eq!(
                figure(&ended, "sent"),
                figure(&ended, "received") + figure(&ended, "lost"),
                "{size}: {ended:#?}",
            );
        }
    }
}

#[test]
fn every_mode_gets_all_back_from_every_mode() {
    let off = ["--mode", "offload", "--no-gso", "--no-gro"];
    let ways = [&off[..2], &off[..3], &[off[0], off[1], off[3]], &off];
    for (at, way) in ways.iter().enumerate() {
        // Each way is tried with itself, with plain batches and with the next way.
        let Some(server) = serve("127.0.0.1:0", way) else { return };
        for other in [way, &["--mode", "batch"][..], ways[(at + 1) % ways.len()]] {
            all_comes_back(&server, other);
        }
    }
    for mode in ["std", "batch"] {
        if !has_ipv6() {
            return;
        }
        let Some(server) = serve("[::1]:0", &["--mode", mode]) else { return };
        for other in [&["--mode", "std"][..], &off[..2]] {
            all_comes_back(&server, other);
        }
    }
}

/// Loads the server with no more than the sockets' buffers hold, so that nothing is lost.
fn all_comes_back(server: &Server, way: &[&str]) {
    for (size, window) in [("8", "64"), ("9", "64"), ("1200", "64"), ("65507", "1")] {
        let args = [&["--size", size, "--window", window], way].concat();
        // A busy machine may be late once, and late datagrams count as lost.
        let in_time = (0..20).any(|_| {
            let ended = load(server.addr, &args).expect("it is there");
            assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{args:?}: {ended:#?}");
            assert_eq!(figure(&ended, "changed"), 0);
            (figure(&ended, "lost"), figure(&ended, "repeated")) == (0, 0)
        });
        assert!(in_time, "{args:?}: datagrams are lost");
    }
}

#[test]
fn any_window_will_do() {
    let Some(server) = serve("127.0.0.1:0", &["--mode", "std"]) else { return };
    for (window, size) in [("1", "8"), ("1", "16"), ("3", "1200"), ("200", "8"), ("5000", "16")] {
        let ended = load(server.addr, &["--size", size, "--window", window]).expect("it is there");
        assert_eq!(ended.status, Some(0), "{window}: {ended:#?}");
        assert!(ended.out.iter().any(|line| line.starts_with("round trip  p50 ")), "{ended:#?}");
    }
}

/// A server that answers each datagram as `answer` says, until it receives `STOP`.
struct Bad {
    addr: SocketAddr,
    thread: JoinHandle<()>,
}

const STOP: &[u8] = b"enough";

impl Bad {
    fn start(mut answer: impl FnMut(&UdpSocket, &mut [u8], SocketAddr) + Send + 'static) -> Self {
        let socket = client("127.0.0.1:0".parse().expect("an address"));
        let addr = socket.local_addr().expect("it is bound");
        let thread = thread::spawn(move || {
            let mut buffer = vec![0; 65_535];
            while let Ok((n, from)) = socket.recv_from(&mut buffer) {
                if &buffer[..n] == STOP {
                    return;
                }
                answer(&socket, &mut buffer[..n], from);
            }
        });
        Self { addr, thread }
    }

    fn stop(self) {
        // The load has ended by now, so the socket soon has space for this.
        while !self.thread.is_finished() {
            client(self.addr).send_to(STOP, self.addr).expect("loopback takes it");
            thread::yield_now();
        }
        self.thread.join().expect("it has not panicked");
    }
}

fn reply(socket: &UdpSocket, data: &[u8], to: SocketAddr) {
    // A load that has ended has closed its socket, which the last replies then miss.
    let _ = socket.send_to(data, to);
}

#[test]
fn a_changed_byte_is_found_and_is_status_1() {
    for (size, at) in
        [("1200", 0), ("1200", 7), ("1200", 8), ("1200", 1199), ("8", 3), ("65507", 40_000)]
    {
        let mut count = 0u64;
        let server = Bad::start(move |socket, data, from| {
            count += 1;
            if count % 10 == 0 {
                data[at] ^= 0x10;
            }
            reply(socket, data, from);
        });
        let Some(ended) = load(server.addr, &["--size", size, "--window", "16"]) else { return };
        assert_eq!((ended.status, ended.err.len()), (Some(1), 1), "{size} {at}: {ended:#?}");
        assert!(ended.err[0].ends_with(" came back changed"), "{ended:#?}");
        assert!(figure(&ended, "changed") > 0 && figure(&ended, "received") > 0, "{ended:#?}");
        server.stop();
    }
}

#[test]
fn another_length_is_a_change() {
    for (size, missing) in
        [("8", 8), ("9", 1), ("1200", 0), ("1200", 1), ("1200", 1200), ("65507", 7)]
    {
        let server = Bad::start(move |socket, data, from| {
            if missing > 0 {
                reply(socket, &data[..data.len() - missing], from);
            } else {
                reply(socket, &[&*data, b"more"].concat(), from);
            }
        });
        let Some(ended) = load(server.addr, &["--size", size]) else { return };
        assert_eq!((ended.status, ended.err.len()), (Some(1), 1), "{size} {missing}: {ended:#?}");
        assert_eq!(figure(&ended, "received"), 0);
        server.stop();
    }
}

#[test]
fn lost_datagrams_are_counted_and_give_up_their_places() {
    let mut count = 0u64;
    let server = Bad::start(move |socket, data, from| {
        count += 1;
        // The whole first window is lost: without freed places nothing more would be sent.
        if count > 16 && count % 10 != 0 {
            reply(socket, data, from);
        }
    });
    let Some(ended) = load(server.addr, &["--window", "16", "--seconds", "1.5"]) else { return };
    assert_eq!(ended.status, Some(0), "{ended:#?}");
    assert!(figure(&ended, "received") > 0);
    assert!(figure(&ended, "lost") > 16, "{ended:#?}");
    assert_eq!(figure(&ended, "sent"), figure(&ended, "received") + figure(&ended, "lost"));
    server.stop();
}

#[test]
fn duplicates_and_another_order_are_no_fault() {
    let mut held: Option<Vec<u8>> = None;
    let server = Bad::start(move |socket, data, from| {
        // Sends each reply twice, and swaps every second one with the next.
        match held.take() {
            None => held = Some(data.to_vec()),
            Some(held) => {
                [&*data, &held, &*data, &held].iter().for_each(|data| reply(socket, data, from))
            }
        }
    });
    let Some(ended) = load(server.addr, &["--window", "16", "--size", "100"]) else { return };
    assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:#?}");
    assert!(figure(&ended, "repeated") > 0, "{ended:#?}");
    assert!(figure(&ended, "received") <= figure(&ended, "sent"));
    server.stop();
}

#[test]
fn silence_is_status_1() {
    let silent = client("127.0.0.1:0".parse().expect("an address"));
    let silent_addr = silent.local_addr().expect("it is bound");
    // Connected to itself, so that it rejects all others. (Another test could get the port of a closed socket.)
    let refusing = client(silent_addr);
    let refusing_addr = refusing.local_addr().expect("it is bound");
    refusing.connect(refusing_addr).expect("connecting only stores the peer");
    for addr in [silent_addr, refusing_addr] {
        for size in ["8", "1200"] {
            let Some(ended) = load(addr, &["--size", size]) else { return };
            assert_eq!((ended.status, ended.err.len()), (Some(1), 1), "{ended:#?}");
            assert!(ended.err[0].starts_with("error: nothing came back"), "{ended:#?}");
            assert_eq!(figure(&ended, "received"), 0);
        }
    }
}
