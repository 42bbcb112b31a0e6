//! Nodes, and traffic through them.

// Each test binary uses only a part.
#![allow(dead_code)]

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use gotatun::x25519::{PublicKey, StaticSecret};

use crate::common::skip;
use crate::running::{PATIENCE, Program};
use crate::veth::{Far, with_far_end};

pub const WIREGUARD: &str = env!("CARGO_BIN_EXE_wireguard");

/// Addresses within the tunnel.
pub const NEAR_INSIDE: [&str; 2] = ["10.78.0.1", "fd78::1"];
pub const FAR_INSIDE: [&str; 2] = ["10.78.0.2", "fd78::2"];

/// Runs `test` between two namespaces. Without these or a TUN device, prints why and skips it.
pub fn with_nodes(test: impl FnOnce(Far) + Send) {
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/net/tun") {
        return skip(format_args!("no TUN device: /dev/net/tun: {error}"));
    }
    with_far_end(test);
}

/// A key made of a node's number.
fn private(node: u8) -> StaticSecret {
    StaticSecret::from([node; 32])
}

/// Its key as a file has it.
pub fn private_key(node: u8) -> String {
    STANDARD.encode(private(node))
}

pub fn public(node: u8) -> String {
    STANDARD.encode(PublicKey::from(&private(node)))
}

/// A configuration, in wg-quick's form.
pub struct Config(String);

impl Config {
    pub fn new(node: u8, addresses: &[&str], port: u16) -> Self {
        let key = private_key(node);
        let addresses = addresses.join(", ");
        Self(format!(
            "[Interface]\nPrivateKey = {key}\nAddress = {addresses}\nListenPort = {port}\n"
        ))
    }

    /// Adds a line to the newest section.
    pub fn line(mut self, line: &str) -> Self {
        writeln!(self.0, "{line}").expect("memory");
        self
    }

    pub fn peer(mut self, node: u8, allowed: &[&str], endpoint: Option<SocketAddr>) -> Self {
        let (key, allowed) = (public(node), allowed.join(", "));
        write!(self.0, "[Peer]\nPublicKey = {key}\nAllowedIPs = {allowed}\n").expect("memory");
        if let Some(endpoint) = endpoint {
            writeln!(self.0, "Endpoint = {endpoint}").expect("memory");
        }
        self
    }

    /// Writes it to a file named after the device.
    pub fn write(&self, test: &str, device: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        fs::create_dir_all(&folder).expect("a folder for this test");
        let path = folder.join(device).with_extension("conf");
        fs::write(&path, &self.0).expect("a file");
        path
    }
}

/// A running node, in the namespace of the thread that started it.
pub struct Node {
    pub program: Program,
    pub port: u16,
}

impl Node {
    #[track_caller]
    pub fn start(config: &Path, args: &[&str]) -> Self {
        let config = config.to_str().expect("cargo's folders have names in UTF-8");
        Self::started(Program::start(WIREGUARD, [config].iter().chain(args)))
    }

    /// Waits for the program's first line.
    #[track_caller]
    pub fn started(program: Program) -> Self {
        let line = program.line();
        let rest = line.strip_prefix("listening on port ").expect("the first line says where");
        let port = rest.split(',').next().and_then(|port| port.parse().ok()).expect("a port");
        Self { program, port }
    }

    /// Ends it with SIGTERM, checks that it reports no error, and returns its output.
    #[track_caller]
    pub fn stop(self) -> String {
        self.program.signal(libc::SIGTERM);
        let ended = self.program.wait();
        assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:?}");
        ended.out.join("\n")
    }
}

/// The number that follows these words.
#[track_caller]
pub fn number(text: &str, words: &str) -> u64 {
    let at = text.find(words).unwrap_or_else(|| panic!("no {words:?} in {text}"));
    let digits = text[at + words.len()..].trim_start();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or_else(|_| panic!("no number after {words:?} in {text}"))
}

/// Asserts that the node itself lost nothing.
#[track_caller]
pub fn assert_nothing_lost(counters: &str) {
    assert_eq!(number(counters, "unfit"), 0, "{counters}");
    assert_eq!(number(counters, "rejected"), 0, "{counters}");
    if counters.contains("udp sent") {
        assert_eq!(number(counters, "failed"), 0, "{counters}");
        assert_eq!(number(counters, "errors"), 0, "{counters}");
    }
}

/// A socket within the tunnel, in the namespace of the thread.
pub fn inside(address: &str) -> UdpSocket {
    let address: IpAddr = address.parse().expect("an address");
    let socket = UdpSocket::bind((address, 0)).expect("an address of the TUN device");
    socket.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
    socket
}

/// Bytes that differ from those of another seed, and do not repeat.
pub fn bytes(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Opens a TCP connection to an address in the far namespace, and sends `len` bytes each way at the same time.
#[track_caller]
pub fn exchange(far: &Far, address: &str, len: usize) {
    use std::io::{Read as _, Write as _};
    let address: IpAddr = address.parse().expect("an address");
    let listener = far.enter(|| TcpListener::bind((address, 0)).expect("the far TUN device's"));
    let addr = listener.local_addr().expect("it is bound");
    let run = |stream: io::Result<std::net::TcpStream>, ours: u32, theirs: u32| {
        let mut stream = stream.expect("a connection through the tunnel");
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        let mut writer = stream.try_clone().expect("a descriptor");
        thread::scope(|scope| {
            scope.spawn(move || {
                writer.write_all(&bytes(ours, len)).expect("the peer receives");
                writer.shutdown(std::net::Shutdown::Write).expect("it is connected");
            });
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("the peer sends");
            assert!(received == bytes(theirs, len), "other bytes, {} of {len}", received.len());
        });
    };
    thread::scope(|scope| {
        scope.spawn(|| run(listener.accept().map(|(stream, _)| stream), 1, 2));
        run(std::net::TcpStream::connect_timeout(&addr, PATIENCE), 2, 1);
    });
}
