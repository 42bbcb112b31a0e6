//! Starts the forwarder, its clients and its upstreams.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::running::{self, PATIENCE, Server, receive};

/// Starts `forward LISTEN UPSTREAMS ARGS`.
pub fn forward(listen: &str, upstreams: &[SocketAddr], args: &[&str]) -> Server {
    let upstreams = upstreams.iter().map(SocketAddr::to_string);
    let args = args.iter().map(|arg| (*arg).to_owned());
    let all = [listen.to_owned()].into_iter().chain(upstreams).chain(args);
    Server::start(env!("CARGO_BIN_EXE_forward"), all)
}

/// Starts it with a limit on descriptors.
pub fn forward_with_limit(descriptors: u32, upstreams: &[SocketAddr]) -> Server {
    let upstreams = upstreams.iter().map(SocketAddr::to_string);
    let script = format!("ulimit -n {descriptors}; exec \"$0\" 127.0.0.1:0 \"$@\"");
    let args = ["-c".to_owned(), script, env!("CARGO_BIN_EXE_forward").to_owned()];
    Server::start("sh", args.into_iter().chain(upstreams))
}

/// The forwarder's last output: a line for each direction, and one about sessions.
#[derive(Debug)]
pub struct Totals {
    pub to_upstreams: String,
    pub to_clients: String,
    pub sessions: String,
}

/// Stops the forwarder with SIGTERM.
#[track_caller]
pub fn stop(forward: Server) -> Totals {
    let [to_upstreams, to_clients, sessions] =
        forward.stop().try_into().unwrap_or_else(|out| panic!("not three lines: {out:?}"));
    Totals { to_upstreams, to_clients, sessions }
}

/// The number after these words in a line.
#[track_caller]
pub fn number(line: &str, words: &str) -> u64 {
    let at = line.find(words).unwrap_or_else(|| panic!("no {words:?} in {line:?}"));
    let rest = line[at + words.len()..].trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().unwrap_or_else(|_| panic!("no number after {words:?} in {line:?}"))
}

/// Checks that `count` datagrams were received and all of them forwarded.
#[track_caller]
pub fn assert_all_forwarded(line: &str, count: u64) {
    let expected = format!(": received {count}, forwarded {count}, dropped 0 (");
    assert_eq!(number(line, "errors"), 0, "{line}");
    assert!(line.contains(&expected) && line.contains(", missed 0, "), "{line}");
}

/// A socket on loopback that is connected to `addr`.
pub fn client(addr: SocketAddr) -> UdpSocket {
    let socket = running::client(addr);
    socket.connect(addr).expect("loopback has a route");
    socket
}

/// The same, from this address of loopback.
pub fn client_from(host: [u8; 4], addr: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::from((host, 0))).expect("an address of loopback");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket.connect(addr).expect("loopback has a route");
    socket
}

/// Sends a datagram and returns the reply.
pub fn ask(client: &UdpSocket, data: &[u8]) -> Vec<u8> {
    client.send(data).expect("loopback takes it");
    let mut back = vec![0; 65_535];
    let n = receive(client, &mut back).expect("it comes back");
    back.truncate(n);
    back
}

/// Keeps this thread, and programs that it starts, on one CPU: datagrams sent from different CPUs may overtake each
/// other, even those of one thread, and some tests check the order.
#[cfg(target_os = "linux")]
pub fn on_one_cpu() {
    // SAFETY: all-zero bits are a valid cpu_set_t.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the function takes no pointers.
    let cpu = unsafe { libc::sched_getcpu() };
    // SAFETY: the kernel returned a valid CPU number, which the set has space for.
    unsafe { libc::CPU_SET(cpu.try_into().expect("this runs on a CPU"), &mut set) };
    // SAFETY: it reads a set of the given size; 0 stands for this thread.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[cfg(not(target_os = "linux"))]
pub fn on_one_cpu() {}

/// An upstream that answers each datagram with its mark, the source port and the same bytes.
pub struct Upstream {
    pub addr: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Upstream {
    pub fn start(mark: u8) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
        let addr = socket.local_addr().expect("it is bound");
        let ends = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&ends);
        let serve = move || {
            let mut data = vec![0; 65_535];
            data[0] = mark;
            while !theirs.load(Ordering::Relaxed) {
                let Ok((n, from)) = socket.recv_from(&mut data[3..]) else { continue };
                data[1..3].copy_from_slice(&from.port().to_be_bytes());
                let _ = socket.send_to(&data[..n + 3], from);
            }
        };
        Self { addr, ends, thread: Some(thread::spawn(serve)) }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // A datagram wakes the thread, which then checks whether to stop.
        let _ = client(self.addr).send(b"");
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
