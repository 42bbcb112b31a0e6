//! Which client gets which upstream and which replies.

#[cfg(target_os = "linux")]
use std::net::{Ipv4Addr, SocketAddrV4};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use mmsg::{BatchSocket, Offload, SendMsg};

#[cfg(target_os = "linux")]
use crate::common::raw::RawSender;
use crate::common::skip;
use crate::kit::{
    Upstream, ask, assert_all_forwarded, client, client_from, forward, forward_with_limit, number,
    on_one_cpu, stop,
};
use crate::running::{self, PATIENCE, Program, Server, has_ipv6, loopbacks, receive};

#[test]
fn replies_come_back_to_who_asked_and_upstreams_take_turns() {
    let upstreams: Vec<_> = (0..3).map(Upstream::start).collect();
    let addrs: Vec<_> = upstreams.iter().map(|upstream| upstream.addr).collect();
    for listen in loopbacks() {
        let forward = forward(listen, &addrs, &[]);
        let clients: Vec<_> = (0..30).map(|_| client(forward.addr)).collect();
        let mut ports = Vec::new();
        for round in 0..3u8 {
            for (i, client) in clients.iter().enumerate() {
                let back = ask(client, &[i as u8, round]);
                let [mark, port @ .., echo_i, echo_round] = &back[..] else { panic!("{back:?}") };
                assert_eq!((*echo_i, *echo_round), (i as u8, round));
                // Clients take the upstreams in turn and stay with theirs.
                assert_eq!(usize::from(*mark), i % 3);
                if round == 0 { ports.push(port.to_vec()) } else { assert_eq!(ports[i], port) }
            }
        }
        ports.sort();
        ports.dedup();
        assert!(ports.len() >= 10, "each client has a socket of its own: {ports:?}");
        let totals = stop(forward);
        assert_all_forwarded(&totals.to_upstreams, 90);
        assert_all_forwarded(&totals.to_clients, 90);
        assert_eq!(
            totals.sessions,
            "sessions: begun 30, most at once 30, ended idle 0, evicted 0, refused 0"
        );
    }
}

#[test]
fn every_length_goes_through() {
    let upstream = Upstream::start(7);
    let forward = forward("127.0.0.1:0", &[upstream.addr], &[]);
    let client = client(forward.addr);
    // The upstream adds three bytes.
    for len in [0, 1, 1472, 65_504, 0, 9000] {
        let data: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
        assert!(ask(&client, &data)[3..] == data, "the {len} bytes are the same");
    }
    assert_all_forwarded(&stop(forward).to_clients, 6);
}

#[test]
fn a_coalesced_message_is_forwarded_as_its_datagrams() {
    let upstream = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    upstream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
    let to = upstream.local_addr().expect("it is bound");
    let forward = forward("127.0.0.1:0", &[to], &[]);
    let client = Offload::new(client(forward.addr)).expect("a loopback socket");
    let data: Vec<Vec<u8>> = (0..50).map(|i| vec![i; if i == 49 { 3 } else { 900 }]).collect();
    let msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data)).collect();
    assert_eq!(client.send_batch(&msgs).expect("loopback takes it"), 50);
    let mut back = [0; 2000];
    for datagram in &data {
        let n = receive(&upstream, &mut back).expect("it arrives");
        assert!(back[..n] == datagram[..], "in order, and whole");
    }
    assert_all_forwarded(&stop(forward).to_upstreams, 50);
}

#[test]
fn a_wildcard_listener_answers_from_the_address_that_was_asked() {
    let upstream = Upstream::start(1);
    for listen in ["0.0.0.0:0", "[::]:0"] {
        if listen == "[::]:0" && !has_ipv6() {
            continue;
        }
        let forward = forward(listen, &[upstream.addr], &[]);
        for ip in [[127, 0, 0, 1], [127, 0, 0, 2]] {
            // Other systems have one loopback address.
            if ip[3] == 2 && !cfg!(target_os = "linux") {
                continue;
            }
            // A connected socket receives from that address only.
            let client = client(SocketAddr::from((ip, forward.addr.port())));
            assert_eq!(ask(&client, b"hello")[3..], *b"hello");
        }
    }
}

/// Its answers come after both questions.
#[test]
#[cfg(target_os = "linux")]
fn a_client_that_asks_two_addresses_is_answered_by_each() {
    let upstream = running::client("127.0.0.1:0".parse().expect("an address"));
    let to = upstream.local_addr().expect("it is bound");
    let forward = forward("0.0.0.0:0", &[SocketAddr::from(([127, 0, 0, 1], to.port()))], &[]);
    let client = running::client(forward.addr);
    let (mut data, mut from) = ([0; 8], Vec::new());
    for last in [1, 2] {
        let asked = SocketAddr::from(([127, 0, 0, last], forward.addr.port()));
        client.send_to(&[last], asked).expect("loopback takes it");
        from.push(upstream.recv_from(&mut data).expect("it arrives").1);
    }
    for (last, from) in [1, 2].into_iter().zip(from) {
        upstream.send_to(&[last], from).expect("loopback takes it");
        let (_, asked) = client.recv_from(&mut data).expect("it is answered");
        assert_eq!(asked.ip(), Ipv4Addr::new(127, 0, 0, last));
    }
    assert_all_forwarded(&stop(forward).to_clients, 2);
}

#[test]
fn an_idle_session_ends_and_one_in_use_does_not() {
    if !cfg!(target_os = "linux") {
        return skip("idle sessions", "their descriptors are counted in /proc");
    }
    let upstream = Upstream::start(1);
    // A busy machine may be late, which makes a session idle.
    let in_time = (0..10).any(|_| {
        let args = ["--idle", &IDLE.as_secs().to_string()];
        one_of_two_ends(forward("127.0.0.1:0", &[upstream.addr], &args))
    });
    assert!(in_time, "no session is in use every {IDLE:?}");
}

const IDLE: Duration = Duration::from_secs(2);

/// Uses one of two sessions until the other has ended. Returns false if the machine was too slow to keep the first
/// one in use.
fn one_of_two_ends(forward: Server) -> bool {
    let descriptors = || {
        let path = format!("/proc/{}/fd", forward.program.child.id());
        std::fs::read_dir(path).expect("the program runs").count()
    };
    let before = descriptors();
    let (used, idle) = (client(forward.addr), client(forward.addr));
    let mut used_at = Instant::now();
    let port = ask(&used, b"")[1..3].to_vec();
    ask(&idle, b"");
    let both = descriptors();
    if used_at.elapsed() >= IDLE {
        return false;
    }
    assert_eq!(both, before + 2);
    let mut one_has_ended = false;
    while !one_has_ended {
        std::thread::sleep(Duration::from_millis(20));
        // The other session is used once more after that.
        one_has_ended = descriptors() <= before + 1;
        let now = Instant::now();
        let same = ask(&used, b"")[1..3] == port;
        if used_at.elapsed() >= IDLE {
            return false;
        }
        assert!(same, "the same session");
        used_at = now;
    }
    // The client of an ended session gets a new one.
    ask(&idle, b"");
    let totals = stop(forward);
    if used_at.elapsed() >= IDLE {
        return false;
    }
    assert_eq!(
        totals.sessions,
        "sessions: begun 3, most at once 2, ended idle 1, evicted 0, refused 0"
    );
    true
}

#[test]
fn a_new_client_takes_the_place_of_the_one_that_was_idle_longest() {
    on_one_cpu();
    let upstream = Upstream::start(1);
    let forward = forward("127.0.0.1:0", &[upstream.addr], &["--sessions", "4"]);
    // A source gets one of four sessions, so each of these has its own address.
    let clients: Vec<_> =
        (1..=6).map(|host| client_from([127, 9, 0, host], forward.addr)).collect();
    let ports: Vec<_> =
        clients.iter().take(4).map(|client| ask(client, b"early")[1..3].to_vec()).collect();
    assert_eq!(ask(&clients[0], b"in use")[1..3], ports[0]);
    for client in &clients[4..] {
        ask(client, b"late");
    }
    // The second and third have been idle longest.
    for client in [0, 3] {
        assert_eq!(ask(&clients[client], b"as before")[1..3], ports[client]);
    }
    ask(&clients[1], b"again");
    let totals = stop(forward);
    assert_all_forwarded(&totals.to_upstreams, 10);
    assert_eq!(
        totals.sessions,
        "sessions: begun 7, most at once 4, ended idle 0, evicted 3, refused 0"
    );
}

/// 5,000 sources, with descriptors for 1,000.
#[test]
#[cfg(target_os = "linux")]
fn a_flood_of_sources_locks_nobody_out() {
    let upstream = Upstream::start(1);
    let forward = forward_with_limit(1024, &[upstream.addr]);
    let honest = client_from([127, 8, 0, 1], forward.addr);
    let port = ask(&honest, b"before")[1..3].to_vec();
    for round in 0..50u8 {
        for source in 0..100 {
            let flood = client_from([127, 10 + source, round, 1], forward.addr);
            flood.send(b"flood").expect("loopback takes it");
        }
        // A session in use stays, and a new client is served.
        assert_eq!(ask(&honest, b"during")[1..3], port, "round {round}");
        ask(&client_from([127, 8, 1, round], forward.addr), b"new");
    }
    // 2,000 ports of one source only end sessions of that source.
    let sockets: Vec<_> = (0..500).map(|_| client_from([127, 7, 0, 1], forward.addr)).collect();
    for _ in 0..4 {
        sockets.iter().for_each(|socket| drop(socket.send(b"flood")));
        assert_eq!(ask(&honest, b"during")[1..3], port);
    }
    assert_eq!(ask(&honest, b"after")[1..3], port);
    let totals = stop(forward);
    assert!(number(&totals.sessions, "evicted") > 4000, "{}", totals.sessions);
    assert_eq!(number(&totals.to_upstreams, "no session"), 0, "{}", totals.to_upstreams);
}

/// The replies would come back as a client's datagrams, for ever.
#[test]
#[cfg(target_os = "linux")]
fn datagrams_forged_from_its_own_or_an_upstreams_address_do_not_circle() {
    on_one_cpu();
    let upstream = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    let addr = upstream.local_addr().expect("it is bound");
    upstream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
        let forward = forward(listen, &[addr], &[]);
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, forward.addr.port());
        upstream.send_to(b"forged", to).expect("loopback takes it");
        let raw = RawSender::to(to).and_then(|raw| raw.send_from(to.port(), b"forged"));
        let forged = if raw.is_ok() { 2 } else { 1 };
        client(to.into()).send(b"true").expect("loopback takes it");
        // The forwarder receives in order.
        let mut data = [0; 16];
        let len = receive(&upstream, &mut data).expect("a client's datagram");
        assert_eq!(&data[..len], b"true", "{listen}");
        let totals = stop(forward);
        assert_eq!(number(&totals.to_upstreams, "unfit"), forged, "{}", totals.to_upstreams);
        assert_eq!(number(&totals.sessions, "begun"), 1, "{}", totals.sessions);
    }
}

/// Descriptors run out before the table is full, for example because the program inherited some.
#[test]
#[cfg(target_os = "linux")]
fn too_few_descriptors_lock_nobody_out() {
    let upstream = Upstream::start(1);
    let forward = forward("127.0.0.1:0", &[upstream.addr], &["--sessions", "40"]);
    let pid = forward.program.child.id();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count() as u64;
    let limit = libc::rlimit { rlim_cur: open + 4, rlim_max: open + 4 };
    // SAFETY: the limit is read, nothing is written.
    let result =
        unsafe { libc::prlimit(pid as i32, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    for host in 1..=20 {
        ask(&client_from([127, 9, 2, host], forward.addr), b"new");
    }
    let totals = stop(forward);
    assert_eq!(number(&totals.sessions, "begun"), 20, "{}", totals.sessions);
    assert!(number(&totals.sessions, "evicted") >= 10, "{}", totals.sessions);
}

/// Without the option for broadcasts, `connect` fails, as it does without a route.
#[test]
fn an_upstream_without_a_route_costs_nobody_a_session() {
    let upstream = Upstream::start(1);
    let unreachable = "255.255.255.255:9".parse().expect("an address");
    let forward = forward("127.0.0.1:0", &[unreachable, upstream.addr], &["--sessions", "40"]);
    let clients: Vec<_> =
        (1..=20).map(|host| client_from([127, 9, 1, host], forward.addr)).collect();
    let ports = || clients.iter().map(|client| ask(client, b"")[1..3].to_vec()).collect::<Vec<_>>();
    assert_eq!(ports(), ports());
    let totals = stop(forward);
    assert_eq!(
        totals.sessions,
        "sessions: begun 20, most at once 20, ended idle 0, evicted 0, refused 0"
    );
}

#[test]
fn an_upstream_that_is_gone_harms_nobody_else() {
    on_one_cpu();
    let alive = Upstream::start(1);
    let gone = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    // Connected to itself, the socket rejects datagrams of others and keeps its port.
    let addr = gone.local_addr().expect("it is bound");
    gone.connect(addr).expect("loopback has a route");
    let forward = forward("127.0.0.1:0", &[addr, alive.addr], &[]);
    let (first, second) = (client(forward.addr), client(forward.addr));
    for i in 0..20u8 {
        first.send(&[i]).expect("loopback takes it");
        assert_eq!(ask(&second, &[i])[3..], [i]);
    }
    let totals = stop(forward);
    let line = &totals.to_upstreams;
    assert_eq!((number(line, "received"), number(line, "forwarded")), (40, 40), "{line}");
    assert!(number(line, "errors") > 0, "the closed port is reported: {line}");
}

#[test]
fn both_signals_end_it() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let upstream = "127.0.0.1:9".parse().expect("an address");
        let forward = forward("127.0.0.1:0", &[upstream], &[]);
        forward.program.signal(signal);
        let ended = forward.program.wait();
        assert_eq!((ended.status, ended.out.len(), ended.err.len()), (Some(0), 3, 0), "{ended:?}");
    }
}

#[test]
fn errors_are_one_line() {
    let wrong: [(&[&str], i32); 8] = [
        (&[], 2),
        (&["127.0.0.1:0"], 2),
        (&["nonsense", "127.0.0.1:9"], 2),
        (&["127.0.0.1:0", "127.0.0.1:9", "--idle", "0"], 2),
        (&["127.0.0.1:0", "127.0.0.1:9", "--sessions", "0"], 2),
        (&["127.0.0.1:0", "127.0.0.1:9", "--queue", "0"], 2),
        (&["127.0.0.1:0", "127.0.0.1:9", "--fast"], 2),
        // An address reserved for documentation (RFC 5737), which no machine has.
        (&["192.0.2.1:0", "127.0.0.1:9"], 1),
    ];
    for (args, status) in wrong {
        let path = env!("CARGO_BIN_EXE_forward");
        let ended = Program::start(path, args).wait();
        assert_eq!((ended.status, ended.out.len()), (Some(status), 0), "{args:?} {ended:#?}");
        let said = &ended.err[0];
        assert!(said.starts_with("error: ") && !said.contains("panicked"), "{args:?}: {said}");
    }
}

#[test]
fn an_upstream_that_refuses_is_left_alone() {
    let upstream = Upstream::start(1);
    let closed = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let forward = forward("127.0.0.1:0", &[closed.expect("a loopback socket"), upstream.addr], &[]);
    for number in 0..20 {
        let client = client(forward.addr);
        client.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        // The first client loses its first datagram. Its next one begins a session with the other upstream.
        let answer = (0..50).find_map(|_| {
            client.send(&[number]).expect("loopback takes it");
            let mut back = [0; 8];
            client.recv(&mut back).ok().map(|len| back[..len].to_vec())
        });
        assert_eq!(answer.expect("another upstream answers")[3..], [number]);
    }
    let totals = stop(forward);
    let expected = "sessions: begun 21, most at once 20, ended idle 0, evicted 0, refused 1";
    assert_eq!(totals.sessions, expected);
}
