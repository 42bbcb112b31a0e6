//! The attack, step by step. After each step the server must still answer. CPU time, descriptors and memory are from proc(5).

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use mmsg::{BatchSocket, BatchSocketExt, SendMsg};

use crate::common::payload;
use crate::running::PATIENCE;
use crate::target::{Server, Target};

/// How strong the attack is.
pub struct Strength {
    pub icmp_errors: u64,
    /// How long to send at full speed, and how many datagrams at most.
    pub flood: Duration,
    pub most: u64,
}

/// Growth of resident memory that is no leak: parts of batches used for the first time, and memory that the allocator
/// keeps. Leaking one datagram of ten would exceed it.
const SLACK_KIB: u64 = 8 << 10;

/// Attacks a server twice and compares its resources after the second time with those after the first.
pub fn run(server: &Server, strength: &Strength) {
    let Some(mut target) = Target::start(server) else { return };
    if !server.listen.starts_with("127.") {
        let other = target.client_of(Ipv4Addr::new(127, 0, 0, 2));
        target.assert_answers(&other, "a request to another address of this host");
    }
    let warm_up = Strength { flood: strength.flood / 5, ..*strength };
    let (descriptors, memory) = attack(&mut target, &warm_up, None);
    let (_, after) = attack(&mut target, strength, Some(descriptors));
    let name = target.name;
    assert!(after <= memory + SLACK_KIB, "{name}: {after} KiB of memory, {memory} before");
    target.program.signal(libc::SIGTERM);
    let end = Instant::now() + PATIENCE;
    flood(&mut target, |target, _| {
        assert!(Instant::now() < end, "{name}: SIGTERM does not end it in a flood");
        matches!(target.program.child.try_wait(), Ok(None))
    });
}

/// Attacks once. Waits until the server has no more descriptors than `before`, and returns its descriptors and
/// memory.
fn attack(target: &mut Target, strength: &Strength, before: Option<usize>) -> (usize, u64) {
    let client = target.client();
    target.assert_answers(&client, "its start");
    unanswerable(target, &client);
    sizes(target, &client);
    signals(target, &client);
    icmp_errors(target, &client, strength.icmp_errors);
    let end = Instant::now() + strength.flood;
    flood(target, |_, sent| sent < strength.most && Instant::now() < end);
    target.assert_answers(&client, "a flood");
    drop(client);

    let (name, pid) = (target.name, target.pid());
    wait_for_rest(name, pid);
    if let Some(before) = before {
        wait_for_descriptors(name, pid, before);
    }
    (descriptors(pid), memory(pid))
}

/// First only datagrams from port 0; then these and empty ones among good ones in one batch. The good ones must be
/// answered.
fn unanswerable(target: &mut Target, client: &UdpSocket) {
    let raw = target.raw();
    let requests = [1, 2, 3].map(|number| target.request(number));
    if let Some(raw) = &raw {
        raw.send_from(0, &requests[0]).expect("loopback takes it");
        target.assert_answers(client, "a datagram from port 0");
    }
    target.answers_each(client, &requests, || {
        client.send(&requests[0]).expect("loopback takes it");
        if let Some(raw) = &raw {
            raw.send_from(0, &requests[1]).expect("loopback takes it");
            raw.send_from(0, b"").expect("loopback takes it");
        }
        client.send(&requests[1]).expect("loopback takes it");
        client.send(b"").expect("loopback takes it");
        client.send(&requests[2]).expect("loopback takes it");
    });
}

/// Datagrams longer than a slot, up to the longest possible.
fn sizes(target: &mut Target, client: &UdpSocket) {
    for len in [1_501, 2_049, 9_000, 65_507] {
        client.send(&payload(len, len)).expect("loopback takes it");
        target.assert_answers(client, &format!("a datagram of {len} bytes"));
    }
}

/// Signals interrupt the server's calls.
fn signals(target: &mut Target, client: &UdpSocket) {
    for _ in 0..10 {
        target.program.signal(libc::SIGSTOP);
        target.program.signal(libc::SIGCONT);
    }
    target.assert_answers(client, "signals");
}

/// Requests from a port that rejects the answers, because its socket is connected to itself. Each answer causes "port
/// unreachable".
fn icmp_errors(target: &mut Target, client: &UdpSocket, count: u64) {
    let refusing = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a loopback socket");
    let own = refusing.local_addr().expect("it is bound");
    refusing.connect(own).expect("connecting only stores the peer");
    let requests: Vec<_> = (0..50).map(|number| target.request(number)).collect();
    let to = target.addr().into();
    let before = port_unreachable();
    let end = Instant::now() + 2 * PATIENCE;
    while port_unreachable() - before < count {
        let msgs = requests.iter().map(|request| SendMsg::to(to, request));
        // If the server is gone, this socket gets ICMP errors itself.
        let _ = refusing.send_each(msgs, |_, _| {});
        target.assert_answers(client, "ICMP errors");
        assert!(Instant::now() < end, "{}: no ICMP errors", target.name);
    }
}

/// "Port unreachable" messages sent by this host, for all running tests.
fn port_unreachable() -> u64 {
    let snmp = fs::read_to_string("/proc/self/net/snmp").expect("the host's counts");
    let mut rows = snmp.lines().filter_map(|line| line.strip_prefix("Icmp: "));
    let (names, numbers) = (rows.next().expect("the names"), rows.next().expect("the counts"));
    let mut pairs = names.split(' ').zip(numbers.split(' '));
    let (_, number) = pairs.find(|(name, _)| *name == "OutDestUnreachs").expect("it is counted");
    number.parse().expect("a number")
}

/// As many requests, random and empty datagrams as possible, from four clients that read no answers.
fn flood(target: &mut Target, mut goes_on: impl FnMut(&mut Target, u64) -> bool) {
    let clients: Vec<_> = (0..4).map(|_| target.client()).collect();
    let noise: Vec<_> = (0..32).map(|seed| payload(seed, 45 * seed)).collect();
    let requests: Vec<_> = (0..32).map(|number| target.request(number)).collect();
    let msgs: Vec<_> = noise.iter().chain(&requests).map(|data| SendMsg::new(data)).collect();
    let mut sent = 0;
    for client in clients.iter().cycle() {
        if !goes_on(target, sent) {
            return;
        }
        // Errors mean that the server has ended, which a later check finds.
        sent += client.send_batch(&msgs).unwrap_or(1) as u64;
    }
}

/// Resident memory in KiB.
fn memory(pid: u32) -> u64 {
    let status = read(pid, "status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("VmRSS of a process that runs")
}

/// Open descriptors.
fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the descriptors of a child").count()
}

/// Waits until the process has at most `most` descriptors.
fn wait_for_descriptors(name: &str, pid: u32, most: usize) {
    let end = Instant::now() + PATIENCE;
    while descriptors(pid) > most {
        assert!(Instant::now() < end, "{name}: {} descriptors, {most} before", descriptors(pid));
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for a quarter of a second in which the process uses less than 4 % of a CPU. A spinning process never has one,
/// however busy the machine is.
fn wait_for_rest(name: &str, pid: u32) {
    let window = Duration::from_millis(250);
    let end = Instant::now() + PATIENCE;
    loop {
        let before = processor_time(pid);
        thread::sleep(window);
        let taken = processor_time(pid) - before;
        if taken < window / 25 {
            return;
        }
        assert!(Instant::now() < end, "{name}: takes {taken:?} of {window:?} with nothing to do");
    }
}

/// User and system time so far.
fn processor_time(pid: u32) -> Duration {
    let stat = read(pid, "stat");
    // The second field, the program's name in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
    let fields = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(|ticks| ticks.parse::<u64>().expect("a number of ticks")).sum();
    // SAFETY: it takes no pointers.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let a_second = u64::try_from(a_second).expect("ticks are counted");
    Duration::from_millis(1_000 * ticks / a_second)
}

fn read(pid: u32, name: &str) -> String {
    let path = format!("/proc/{pid}/{name}");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: the server ended? {error}"))
}
