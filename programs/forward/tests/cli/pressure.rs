//! Upstreams that do not keep up.
//!
//! On loopback a sender is never held up: what a receiver has no space for is dropped without a
//! word. A socket takes no more when its own send buffer is full of what the device has not sent
//! yet. So here is a cable between two namespaces, slow by a token bucket (`tc`, tbf).

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use mmsg::SendQueue;

use crate::common::linux::set_option;
use crate::common::{NET, skip};
use crate::kit::{Upstream, ask, client, forward, number, on_one_cpu, stop};
use crate::running::Server;
use crate::veth::{DEVICE, FAR, Far, NEAR, ip, with_far_end};

const LEN: usize = 1000;
/// Bytes that a queue counts for one of these datagrams.
const COUNTS: usize = LEN + SendQueue::OVERHEAD;

/// Has the cable carry no more than `rate`, and hold what has to wait for that. Not for the far
/// end: what it sends is not held up.
fn cable(action: &str, rate: &str) -> Result<(), String> {
    let args = format!("qdisc {action} dev {DEVICE} root tbf rate {rate} burst 32kb limit 100mb");
    let output = Command::new("tc").args(args.split(' ')).output();
    let output = output.map_err(|error| format!("no tc: {error}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("tc {args}: {}", message.trim())) }
}

/// A rate at which a datagram takes eight seconds: while a test sends, nothing moves, however slow
/// the machine is.
const STANDS_STILL: &str = "1kbit";

/// Has the cable carry what waits for it, and all that follows, as fast as it comes.
fn release(to: SocketAddr) {
    cable("change", "1gbit").expect("the cable can be changed");
    // The device sends what it holds when a datagram is added. The upstream ignores this one.
    let kick = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("any port");
    kick.send_to(&datagram(NOTHING), to).expect("the device takes it");
}

/// Runs `test` with a slow cable between here and the far end, or says why not.
fn with_slow_cable(name: &str, rate: &str, test: impl FnOnce(Far) + Send) {
    with_far_end(name, |far| {
        on_one_cpu();
        match cable("add", rate) {
            Ok(()) => test(far),
            Err(error) => skip(name, error),
        }
    });
}

/// The far end's upstream: the numbers of the datagrams that arrive.
struct SlowUpstream {
    addr: SocketAddr,
    arrived: Receiver<u32>,
}

fn slow_upstream(far: &Far) -> SlowUpstream {
    let socket = far.enter(|| UdpSocket::bind((FAR, 0)).expect("an address of this namespace"));
    let addr = socket.local_addr().expect("it is bound");
    // The right to make a namespace includes this. Datagrams are to be lost in the queue, not in this buffer.
    set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 16 << 20).expect("root may");
    let (sender, arrived) = mpsc::channel();
    // It ends when the test has ended and another datagram or none arrives.
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a read timeout");
    thread::spawn(move || {
        let mut data = [0; 2 * LEN];
        loop {
            let number = match socket.recv(&mut data) {
                Ok(n) => number_of(&data[..n]),
                Err(_) => NOTHING,
            };
            if sender.send(number).is_err() {
                return;
            }
        }
    });
    SlowUpstream { addr, arrived }
}

/// Reported by an upstream that receives nothing, and sent by `release`.
const NOTHING: u32 = u32::MAX;

impl SlowUpstream {
    fn next(&self) -> u32 {
        loop {
            let number = self.arrived.recv_timeout(NET).expect("the upstream goes on");
            if number != NOTHING {
                return number;
            }
        }
    }
}

fn datagram(number: u32) -> Vec<u8> {
    let mut data = vec![number as u8; LEN];
    data[..4].copy_from_slice(&number.to_be_bytes());
    data
}

fn number_of(data: &[u8]) -> u32 {
    let (number, rest) = data.split_first_chunk().expect("a number");
    let number = u32::from_be_bytes(*number);
    assert!(data.len() == LEN && rest.iter().all(|byte| *byte == number as u8), "whole");
    number
}

/// A forwarder with a client whose session is with the slow upstream, and one whose session is
/// with one that answers at once. Since datagrams are received in order, all that was sent before
/// a question of the second client has been received when that is answered.
struct Setting {
    forward: Server,
    sender: UdpSocket,
    asker: UdpSocket,
    questions: u64,
    _quick: Upstream,
}

impl Setting {
    fn new(slow: SocketAddr, args: &[&str]) -> Self {
        let quick = Upstream::start(1);
        let forward = forward("127.0.0.1:0", &[slow, quick.addr], args);
        let (sender, asker) = (client(forward.addr), client(forward.addr));
        let mut setting = Self { forward, sender, asker, questions: 0, _quick: quick };
        setting.send(0..1);
        setting
    }

    /// Sends these datagrams on their way to the slow upstream, and returns when the forwarder has
    /// received them.
    fn send(&mut self, numbers: std::ops::Range<u32>) {
        self.send_by(50, numbers);
    }

    /// Like `send`, `step` at a time.
    fn send_by(&mut self, burst: u32, numbers: std::ops::Range<u32>) {
        for first in numbers.clone().step_by(burst as usize) {
            for number in first..numbers.end.min(first + burst) {
                self.sender.send(&datagram(number)).expect("loopback takes it");
            }
            self.questions += 1;
            assert_eq!(ask(&self.asker, b"and?")[3..], *b"and?");
        }
    }

    /// The most memory that the forwarder has had, in bytes.
    fn memory(&self) -> usize {
        let path = format!("/proc/{}/status", self.forward.program.child.id());
        let status = fs::read_to_string(path).expect("the program runs");
        number(&status, "VmHWM:") as usize * 1024
    }

    /// Ends it, and returns its line about datagrams to upstreams, the numbers received and
    /// forwarded, and how many of them were dropped for a full queue: all that were dropped.
    fn end(self) -> (String, [u64; 3]) {
        let line = stop(self.forward).to_upstreams;
        let dropped = number(&line, "queue full");
        assert_eq!((number(&line, "dropped"), number(&line, "missed")), (dropped, 0), "{line}");
        let received = number(&line, "received") - self.questions;
        let forwarded = number(&line, "forwarded") - self.questions;
        assert_eq!(received, forwarded + dropped, "{line}");
        (line, [received, forwarded, dropped])
    }
}

#[test]
fn a_full_socket_delays_datagrams_and_keeps_their_order() {
    let name = "a_full_socket_delays_datagrams_and_keeps_their_order";
    with_slow_cable(name, STANDS_STILL, |far| {
        let slow = slow_upstream(&far);
        let count = 5_000;
        // Space for all of them.
        let queue = (count as usize * COUNTS).to_string();
        let mut setting = Setting::new(slow.addr, &["--queue", &queue]);
        setting.send(1..count);
        release(slow.addr);
        for number in 0..count {
            assert_eq!(slow.next(), number);
        }
        let (line, counted) = setting.end();
        assert_eq!(counted, [count.into(), count.into(), 0], "{line}");
        assert!(number(&line, "blocked") > 0, "the socket was never full: {line}");
    });
}

#[test]
fn a_stopped_upstream_loses_only_datagrams_beyond_the_bound() {
    let name = "a_stopped_upstream_loses_only_datagrams_beyond_the_bound";
    with_slow_cable(name, STANDS_STILL, |far| {
        let slow = slow_upstream(&far);
        let (count, queue) = (40_000, 200_000);
        let args = ["--queue", &queue.to_string()];
        let mut setting = Setting::new(slow.addr, &args);
        let before = setting.memory();
        setting.send(1..count);
        // Its queue, twice, and the batch that is received into: not the 40 MB that were sent.
        let grown = setting.memory() - before;
        assert!(grown < 8 << 20, "{grown} bytes more");

        release(slow.addr);
        let mut arrived = vec![slow.next()];
        // Until one arrives that was sent since, and there is no more to come.
        let mut sent = count;
        while arrived.last().is_none_or(|last| *last < count) {
            setting.send(sent..sent + 1);
            sent += 1;
            arrived.extend(slow.arrived.try_iter().filter(|number| *number != NOTHING));
        }
        while *arrived.last().expect("at least one") < sent - 1 {
            arrived.push(slow.next());
        }
        assert!(arrived.is_sorted(), "in order");
        // The first datagrams, as many as fit the queue, and none is missing.
        let capacity = (queue / COUNTS) as u32;
        let whole = arrived.iter().zip(0..).take_while(|(number, i)| **number == *i).count();
        assert!(whole as u32 >= capacity && (whole as u32) < count, "{whole} of {capacity}");

        let (line, [received, forwarded, dropped]) = setting.end();
        assert_eq!((received, forwarded), (sent.into(), arrived.len() as u64), "{line}");
        assert!(dropped > 0 && number(&line, "blocked") > 0, "{line}");
    });
}

/// An ICMP error about one datagram is returned by the send of a later, unrelated one.
#[test]
fn an_upstream_that_cannot_be_reached_costs_no_other_datagram() {
    let name = "an_upstream_that_cannot_be_reached_costs_no_other_datagram";
    with_far_end(name, |far| {
        on_one_cpu();
        let routed = ip(&format!("route add 10.77.9.0/24 via {FAR}"));
        let prohibited = far.enter(|| {
            ip("route add prohibit 10.77.9.0/24")?;
            ip(&format!("route add {NEAR}/32 dev far0"))?;
            // Says so as often as a kernel does: of the first few, and then once a second.
            fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0")?;
            fs::write("/proc/sys/net/ipv4/ip_forward", "1")
        });
        if let Err(error) = routed.and(prohibited) {
            return skip(name, error);
        }
        let upstream = "10.77.9.1:9".parse().expect("an address");
        let mut setting = Setting::new(upstream, &[]);
        // Two batches at a time: sends of the second return the errors of the first.
        setting.send_by(130, 1..1000);
        let (line, counted) = setting.end();
        assert_eq!(counted, [1000, 1000, 0], "{line}");
        assert!(number(&line, "errors") > 0, "no error was reported: {line}");
    });
}

/// On loopback an upstream that does not receive delays no client.
#[test]
fn an_upstream_that_does_not_receive_holds_up_nobody() {
    on_one_cpu();
    let idle = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    let addr = idle.local_addr().expect("it is bound");
    let mut setting = Setting::new(addr, &[]);
    let before = setting.memory();
    setting.send(1..20_000);
    let grown = setting.memory() - before;
    assert!(grown < 8 << 20, "{grown} bytes more");
    // The datagrams that its socket had space for are there, in order, and then those sent from now on.
    let mut data = [0; 2 * LEN];
    let mut receive = || idle.recv(&mut data).map(|n| number_of(&data[..n]));
    idle.set_nonblocking(true).expect("a socket can be");
    let mut arrived: Vec<_> = std::iter::from_fn(|| receive().ok()).collect();
    setting.send(20_000..20_010);
    idle.set_nonblocking(false).expect("a socket can be");
    idle.set_read_timeout(Some(NET)).expect("a read timeout");
    while arrived.last() != Some(&20_009) {
        arrived.push(receive().expect("it arrives"));
    }
    assert!(arrived[0] == 0 && arrived.is_sorted_by(|a, b| a < b), "in order, each once");
    assert!(arrived.ends_with(&Vec::from_iter(20_000..20_010)), "and none of these is missing");
    let (line, counted) = setting.end();
    assert_eq!(counted, [20_010, 20_010, 0], "{line}");
}
