//! Upstreams that do not keep up.
//!
//! Loopback never holds up a sender: it silently drops what a receiver has no space for. A socket accepts no more
//! only while its own send buffer is full of datagrams that the device has not sent. So these tests use a cable
//! between two namespaces, slowed down by a token bucket (`tc`, tbf).

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use mmsg::SendQueue;

use crate::common::linux::set_option;
use crate::common::{TIME_LIMIT, skip};
use crate::kit::{Upstream, ask, client, client_from, forward, number, on_one_cpu, stop};
use crate::running::Server;
use crate::veth::{DEVICE, FAR, Far, NEAR, ip, with_far_end};

const LEN: usize = 1000;
/// What one of these datagrams counts in a queue.
const COUNTS: usize = LEN + SendQueue::OVERHEAD;

/// Limits the near end of the cable to `rate`; excess datagrams wait. The far end is not limited.
fn cable(action: &str, rate: &str) -> Result<(), String> {
    let args = format!("qdisc {action} dev {DEVICE} root tbf rate {rate} burst 32kb limit 100mb");
    let output = Command::new("tc").args(args.split(' ')).output();
    let output = output.map_err(|error| format!("no tc: {error}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("tc {args}: {}", message.trim())) }
}

/// At this rate a datagram takes eight seconds: nothing moves while a test sends, even on a slow machine.
const STANDS_STILL: &str = "1kbit";

/// Lets the waiting datagrams and all later ones pass at full speed.
fn release(to: SocketAddr) {
    cable("change", "1gbit").expect("the cable can be changed");
    // The device sends what it holds only when another datagram arrives. The upstream ignores this one.
    let kick = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("any port");
    kick.send_to(&datagram(NOTHING), to).expect("the device takes it");
}

/// Runs `test` with a slow cable to the far end, or prints why it cannot.
fn with_slow_cable(name: &str, rate: &str, test: impl FnOnce(Far) + Send) {
    with_far_end(name, |far| {
        on_one_cpu();
        match cable("add", rate) {
            Ok(()) => test(far),
            Err(error) => skip(name, error),
        }
    });
}

/// The far end's upstream, which reports the numbers of the datagrams that arrive.
struct SlowUpstream {
    addr: SocketAddr,
    arrived: Receiver<u32>,
}

fn slow_upstream(far: &Far) -> SlowUpstream {
    let socket = far.enter(|| UdpSocket::bind((FAR, 0)).expect("an address of this namespace"));
    let addr = socket.local_addr().expect("it is bound");
    // Whoever may make a namespace may force this size. Datagrams must be lost in the forwarder's queue, not in this
    // buffer.
    set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 16 << 20).expect("root may");
    let (sender, arrived) = mpsc::channel();
    // The thread ends when the test has ended and a datagram or a timeout follows.
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

/// Sent by `release`, and reported by an upstream that receives nothing.
const NOTHING: u32 = u32::MAX;

impl SlowUpstream {
    fn next(&self) -> u32 {
        loop {
            let number = self.arrived.recv_timeout(TIME_LIMIT).expect("the upstream goes on");
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

/// A forwarder with two clients, one with the slow upstream and one with an upstream that answers at once. The
/// forwarder receives in order, so the second client's answer shows that everything sent before its question was
/// received.
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

    /// Sends these datagrams towards the slow upstream, and returns once the forwarder has received them.
    fn send(&mut self, numbers: std::ops::Range<u32>) {
        self.send_by(50, numbers);
    }

    /// Like `send`, in bursts.
    fn send_by(&mut self, burst: u32, numbers: std::ops::Range<u32>) {
        for first in numbers.clone().step_by(burst as usize) {
            for number in first..numbers.end.min(first + burst) {
                self.sender.send(&datagram(number)).expect("loopback takes it");
            }
            self.questions += 1;
            assert_eq!(ask(&self.asker, b"and?")[3..], *b"and?");
        }
    }

    /// The forwarder's peak memory.
    fn memory(&self) -> usize {
        memory(&self.forward, "VmHWM:")
    }

    /// Stops the forwarder. Returns its line about datagrams to upstreams, and the numbers received, forwarded and
    /// dropped for a full queue. Checks that none was dropped for another reason.
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

/// Bytes of memory, by their name in /proc.
fn memory(forward: &Server, what: &str) -> usize {
    let path = format!("/proc/{}/status", forward.program.child.id());
    let status = fs::read_to_string(path).expect("the program runs");
    number(&status, what) as usize * 1024
}

#[test]
fn a_full_socket_delays_datagrams_and_keeps_their_order() {
    let name = "a_full_socket_delays_datagrams_and_keeps_their_order";
    with_slow_cable(name, STANDS_STILL, |far| {
        let slow = slow_upstream(&far);
        let count = 5_000;
        // The queue has space for all of them.
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
    loses_only_beyond(name, "--queue");
}

#[test]
fn all_queues_together_have_a_bound() {
    loses_only_beyond("all_queues_together_have_a_bound", "--queues");
}

fn loses_only_beyond(name: &str, bound: &str) {
    with_slow_cable(name, STANDS_STILL, |far| {
        let slow = slow_upstream(&far);
        let (count, queue) = (40_000, 200_000);
        let args = [bound, &queue.to_string()];
        let mut setting = Setting::new(slow.addr, &args);
        let before = setting.memory();
        setting.send(1..count);
        // Room for the queue twice and for the receive batch, far below the 40 MB that were sent.
        let grown = setting.memory() - before;
        assert!(grown < 8 << 20, "{grown} bytes more");

        release(slow.addr);
        let mut arrived = vec![slow.next()];
        // Goes on until a datagram that was sent after the release arrives.
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
        // The first datagrams, as many as fit the queue, are all there.
        let capacity = (queue / COUNTS) as u32;
        let whole = arrived.iter().zip(0..).take_while(|(number, i)| **number == *i).count();
        assert!(whole as u32 >= capacity && (whole as u32) < count, "{whole} of {capacity}");

        let (line, [received, forwarded, dropped]) = setting.end();
        assert_eq!((received, forwarded), (sent.into(), arrived.len() as u64), "{line}");
        assert!(dropped > 0 && number(&line, "blocked") > 0, "{line}");
    });
}

/// The kernel returns an ICMP error about one datagram from the send of a later, unrelated one.
#[test]
fn an_upstream_that_cannot_be_reached_costs_no_other_datagram() {
    let name = "an_upstream_that_cannot_be_reached_costs_no_other_datagram";
    with_far_end(name, |far| {
        on_one_cpu();
        let routed = ip(&format!("route add 10.77.9.0/24 via {FAR}"));
        let prohibited = far.enter(|| {
            ip("route add prohibit 10.77.9.0/24")?;
            ip(&format!("route add {NEAR}/32 dev far0"))?;
            // The kernel sends the first few ICMP errors at once, and then one a second.
            fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0")?;
            fs::write("/proc/sys/net/ipv4/ip_forward", "1")
        });
        if let Err(error) = routed.and(prohibited) {
            return skip(name, error);
        }
        let upstream = "10.77.9.1:9".parse().expect("an address");
        let mut setting = Setting::new(upstream, &[]);
        // Two batches at a time, so that sends of the second return the errors of the first.
        setting.send_by(130, 1..1000);
        let (line, counted) = setting.end();
        assert_eq!(counted, [1000, 1000, 0], "{line}");
        assert!(number(&line, "errors") > 0, "no error was reported: {line}");
    });
}

/// On loopback, an upstream that does not receive delays no client.
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
    // First the datagrams that fitted the socket's buffer, in order, then those sent from now on.
    let mut data = [0; 2 * LEN];
    let mut receive = || idle.recv(&mut data).map(|n| number_of(&data[..n]));
    idle.set_nonblocking(true).expect("a socket can be");
    let mut arrived: Vec<_> = std::iter::from_fn(|| receive().ok()).collect();
    setting.send(20_000..20_010);
    idle.set_nonblocking(false).expect("a socket can be");
    idle.set_read_timeout(Some(TIME_LIMIT)).expect("a read timeout");
    while arrived.last() != Some(&20_009) {
        arrived.push(receive().expect("it arrives"));
    }
    assert!(arrived[0] == 0 && arrived.is_sorted_by(|a, b| a < b), "in order, each once");
    assert!(arrived.ends_with(&Vec::from_iter(20_000..20_010)), "and none of these is missing");
    let (line, counted) = setting.end();
    assert_eq!(counted, [20_010, 20_010, 0], "{line}");
}

#[test]
fn memory_follows_what_waits() {
    on_one_cpu();
    let upstream = Upstream::start(1);
    let forward = forward("127.0.0.1:0", &[upstream.addr], &[]);
    let asker = client(forward.addr);
    for number in 0..200 {
        let burst = client_from([127, 0, 1, number], forward.addr);
        // So that all of it waits in the socket, and passes in one turn.
        forward.program.signal(libc::SIGSTOP);
        for _ in 0..16 {
            burst.send(&[number; 16_000]).expect("loopback takes it");
        }
        forward.program.signal(libc::SIGCONT);
        assert_eq!(ask(&asker, b"and?")[3..], *b"and?");
    }
    let memory = memory(&forward, "VmRSS:");
    assert!(memory <= 10 << 20, "{memory} bytes");
    let line = stop(forward).to_upstreams;
    assert!(number(&line, "forwarded") > 1000, "{line}");
}
