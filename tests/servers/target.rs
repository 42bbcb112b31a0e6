//! A running server, the clients that ask it, and their requests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::linux::RawSender;
use crate::common::{payload, skip};
use crate::running::{PATIENCE, Program, find, has_ipv6};

/// A type of request.
#[derive(Clone, Copy)]
pub struct Request {
    /// The request with this number.
    pub make: fn(u32) -> Vec<u8>,
    /// Whether the second slice answers the first, and no other request.
    pub is_answer: fn(&[u8], &[u8]) -> bool,
}

pub const ECHO: Request = Request {
    make: |number| payload(number as usize, 64),
    is_answer: |request, answer| answer == request,
};

/// www.example.test A IN, with the last 16 bits of the number as ID.
pub const DNS: Request = Request {
    make: |number| {
        let mut bytes = number.to_be_bytes()[2..].to_vec();
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        bytes.extend(b"\x03www\x07example\x04test\0\0\x01\0\x01");
        bytes
    },
    is_answer: |request, answer| answer.len() > 12 && answer[..2] == request[..2],
};

/// An NTP request. The answer repeats its send timestamp as origin (RFC 5905, section 7.3).
pub const NTP: Request = Request {
    make: |number| {
        let mut bytes = vec![0; 48];
        bytes[0] = 0o43;
        bytes[40..44].copy_from_slice(&number.to_be_bytes());
        bytes
    },
    is_answer: |request, answer| answer.len() == 48 && answer[24..32] == request[40..48],
};

/// A row of the table.
pub struct Server {
    /// The program's name. It first prints "listening on ADDRESS".
    pub program: &'static str,
    /// Its arguments, with the address to listen on.
    pub args: fn(String) -> Vec<String>,
    /// The address to listen on. A server on all addresses must answer from the one that was asked.
    pub listen: &'static str,
    pub request: Request,
}

/// A file of the source.
pub fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    path.to_str().expect("a plain path").to_owned()
}

pub struct Target {
    pub name: &'static str,
    pub program: Program,
    request: Request,
    port: u16,
}

impl Target {
    /// Starts the server; `None` if its program was not built.
    pub fn start(server: &Server) -> Option<Self> {
        let path = find(server.program)?;
        let mut listen = server.listen.to_owned();
        if !has_ipv6() {
            listen = listen.replace("[::]", "0.0.0.0");
        }
        let args = (server.args)(listen);
        let program = Program::start(&path, args);
        let line = program.line();
        let said = line.strip_prefix("listening on ").expect("the first line says where");
        let addr: SocketAddr = said.parse().expect("an address and a port");
        let (name, request, port) = (server.program, server.request, addr.port());
        Some(Self { name, program, request, port })
    }

    pub fn pid(&self) -> u32 {
        self.program.child.id()
    }

    /// The server's address; for a wildcard address, the loopback one.
    pub fn addr(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)
    }

    pub fn request(&self, number: u32) -> Vec<u8> {
        (self.request.make)(number)
    }

    /// A socket connected to this address of the server.
    pub fn client_of(&self, host: Ipv4Addr) -> UdpSocket {
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a loopback socket");
        client.connect((host, self.port)).expect("loopback has a route");
        client.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        client
    }

    pub fn client(&self) -> UdpSocket {
        self.client_of(Ipv4Addr::LOCALHOST)
    }

    /// A sender of datagrams from port 0; prints why and returns `None` without permission for raw sockets.
    pub fn raw(&self) -> Option<RawSender> {
        RawSender::to(self.addr())
            .inspect_err(|error| skip(format_args!("datagrams from port 0: {error}")))
            .ok()
    }

    /// The requests that stay unanswered until 200 ms pass without a datagram. Answers may come in any order.
    pub fn unheard<'r>(&self, client: &UdpSocket, requests: &'r [Vec<u8>]) -> Vec<&'r [u8]> {
        let mut unheard: Vec<_> = requests.iter().map(Vec::as_slice).collect();
        let mut buffer = [0; 65_535];
        while !unheard.is_empty() {
            match client.recv(&mut buffer) {
                Ok(len) => {
                    unheard.retain(|request| !(self.request.is_answer)(request, &buffer[..len]))
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // An interrupted call, or an ICMP error from the time when the server did not listen.
                Err(_) => {}
            }
        }
        unheard
    }

    /// Sends while the server is stopped, so that it receives all in one batch. Then repeats these requests until each is
    /// answered.
    pub fn answers_each(&mut self, client: &UdpSocket, requests: &[Vec<u8>], send: impl FnOnce()) {
        self.program.signal(libc::SIGSTOP);
        send();
        self.program.signal(libc::SIGCONT);
        let (end, name) = (Instant::now() + PATIENCE, self.name);
        let mut unheard = requests.to_vec();
        while !unheard.is_empty() {
            unheard = self.unheard(client, &unheard).into_iter().map(<[u8]>::to_vec).collect();
            let status = self.program.child.try_wait().expect("a child can be asked");
            assert_eq!(status, None, "{name}: ended by what has no answer");
            assert!(Instant::now() < end, "{name}: {} innocents are not answered", unheard.len());
        }
    }

    /// Asks until the server answers: a server busy with earlier datagrams may lose requests.
    #[track_caller]
    pub fn assert_answers(&mut self, client: &UdpSocket, after: &str) {
        let end = Instant::now() + PATIENCE;
        for number in 0x5eed_0000.. {
            let request = self.request(number);
            // A send may also return an ICMP error.
            let sent = client.send(&request).is_ok();
            if sent && self.unheard(client, &[request]).is_empty() {
                return;
            }
            let status = self.program.child.try_wait().expect("a child can be asked");
            assert!(status.is_none(), "{}: ended after {after}: {status:?}", self.name);
            assert!(Instant::now() < end, "{}: no answer after {after}", self.name);
        }
    }
}
