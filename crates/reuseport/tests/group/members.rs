//! What Linux alone has: spreads by a program, and members that join and leave.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mmsg::RecvBatch;
use mmsg_reuseport::{Field, ReusePortGroup, Spread};
use socket2::{Domain, SockFilter, Socket, Type};

use crate::common::{self, TIME_LIMIT};
use crate::{MEMBERS, builder, client, counts, drain, localhost, receive, running, seccomp, send};

#[test]
fn by_cpu_datagrams_go_to_the_member_of_their_cpu() {
    let group = builder(localhost(), Spread::CPU).bind().expect("a group");
    let to = group.local_addr();
    for cpu in common::linux::cpus() {
        let counts = thread::scope(|scope| {
            let on_cpu = || {
                common::linux::run_on(cpu);
                let client = client();
                counts(&group, 64, |_| send(&client, b"x", to))
            };
            scope.spawn(on_cpu).join().expect("no panic")
        });
        let mut expected = [0; MEMBERS];
        expected[cpu % MEMBERS] = 64;
        assert_eq!(counts, expected, "sent on CPU {cpu}");
    }
    // `run` binds each thread to the CPUs whose datagrams it gets.
    let cpus = group.run(|_, _| common::linux::cpus()).expect("threads");
    let all = common::linux::cpus();
    for (index, cpus) in cpus.into_iter().enumerate() {
        let own: Vec<_> = all.iter().copied().filter(|cpu| cpu % MEMBERS == index).collect();
        assert_eq!(cpus, if own.is_empty() { all.clone() } else { own }, "member {index}");
    }
}

#[test]
fn at_random_one_heavy_source_is_spread_evenly() {
    let group = builder(localhost(), Spread::RANDOM).bind().expect("a group");
    let (client, to) = (client(), group.local_addr());
    let total = 40_000;
    let counts = counts(&group, total, |_| send(&client, b"x", to));
    assert_eq!(counts.iter().sum::<usize>(), total);
    // 5 % of 10,000 is 500, more than five standard deviations of 87.
    let (min, max) = (total / MEMBERS * 95 / 100, total / MEMBERS * 105 / 100);
    assert!(counts.iter().all(|count| (min..=max).contains(count)), "{counts:?}");
}

#[test]
fn by_a_number_in_the_payload_members_take_exact_turns() {
    let group = builder(localhost(), Spread::by(Field::u32(2))).bind().expect("a group");
    let (client, to) = (client(), group.local_addr());
    let counts = counts(&group, 4000, |i| {
        let sequence = u32::MAX - 1999 + i as u32 % 2000;
        let payload = [&[0xff, 0xff][..], &sequence.to_be_bytes(), b"more"].concat();
        send(&client, &payload, to);
    });
    assert_eq!(counts, [1000; MEMBERS]);
}

#[test]
fn by_connection_ids_every_datagram_of_a_connection_goes_to_its_member() {
    let long_header = Field::u8(0).masked(0x80);
    let (after_long, after_short) = (Spread::by(Field::u8(6)), Spread::by(Field::u8(1)));
    let spread = Spread::when(long_header, after_long, after_short);
    let group = builder(localhost(), spread).bind().expect("a group");
    let to = group.local_addr();
    for id in 0..=255u8 {
        // Each datagram has a new source address, as after a migration.
        let long = [0xc3, 0, 0, 0, 1, 8, id, 7, 7, 7, 7, 7, 7, 7];
        let short = [0x43, id, 7, 7, 7, 7, 7, 7, 7];
        send(&client(), &long, to);
        send(&client(), &short, to);
        receive(&group, 2, |index, _, _| assert_eq!(index, usize::from(id) % MEMBERS, "{id}"));
    }
    // Datagrams too short for an ID, empty ones too, go by flow: all of one peer to one member.
    let client = client();
    let counts = counts(&group, 40, |i| {
        send(&client, &[0x80, 0, 0, 0, 1, 8][..i % 7], to);
    });
    let one_byte = (0..40).filter(|i| i % 7 == 1).count();
    assert_eq!(counts.iter().sum::<usize>(), 40, "{one_byte} of one byte");
    assert_eq!(counts.iter().filter(|count| **count > 0).count(), 1, "{counts:?}");
}

#[test]
fn members_join_and_leave_and_the_others_share_evenly() {
    let mut group = builder(localhost(), Spread::by(Field::u8(0))).bind().expect("a group");
    let (client, to) = (client(), group.local_addr());
    let mut batch = RecvBatch::new(64, 64);
    let one = |i: usize| send(&client, &[i as u8], to);
    assert_eq!(group.join().expect("a fifth"), 4);
    assert_eq!(counts(&group, 100, one), [20; 5]);
    (0..25).for_each(one);
    let left = group.leave(1).expect("it leaves");
    left.set_read_timeout(Some(TIME_LIMIT)).expect("an option");
    let mut kept = [0; 5];
    for payload in kept.chunks_mut(1) {
        assert_eq!(left.recv(payload).expect("it keeps what it has"), 1);
    }
    assert_eq!(kept, [1, 6, 11, 16, 21]);
    // All later datagrams go to the other members.
    let others = counts(&group, 100, one);
    assert_eq!(others, [30; 4]);
    drain(&left, &mut batch, |_, _| panic!("it has left"));
    while group.members().len() > 1 {
        group.leave(0).expect("it leaves");
    }
    assert_eq!(counts(&group, 10, one), [10]);
    group.leave(0).expect("the last leaves");
    assert_eq!(group.run(|_, _| ()).expect("no threads"), []);
    assert_eq!(group.join().expect("a new one"), 0);
    assert_eq!(counts(&group, 10, one), [10]);
}

/// The old group leaves by a call, ends, or its sockets are closed one by one.
#[test]
fn after_a_restart_the_new_members_have_the_indices() {
    let leave = |mut old: ReusePortGroup| drop(old.leave_all().expect("they leave"));
    let close = |old: ReusePortGroup| old.into_iter().rev().for_each(drop);
    for end in [leave, drop, close] {
        let by = || Spread::by(Field::u8(0));
        let old = builder(localhost(), by()).bind().expect("a group");
        let new = builder(old.local_addr(), by()).bind().expect("another");
        end(old);
        assert_turns(&new);
    }
}

/// Sends a hundred numbers, and checks that each socket gets those of its index.
fn assert_turns(group: &ReusePortGroup) {
    let (client, to, members) = (client(), group.local_addr(), group.members().len());
    (0..100u8).for_each(|i| send(&client, &[i], to));
    receive(group, 100, |index, _, payload| {
        assert_eq!(usize::from(payload[0]) % members, index, "of {members}");
    });
}

#[test]
fn passed_sockets_are_a_group_with_their_indices() {
    let old = builder(localhost(), Spread::FLOW).bind().expect("a group");
    let passed = |index: usize| old.members()[index].try_clone().expect("a descriptor");
    let by = || Spread::by(Field::u8(0));
    let sockets = (0..MEMBERS).map(passed).collect();
    let group = ReusePortGroup::from_sockets(sockets, by()).expect("a group");
    drop(old);
    assert_turns(&group);
    // The last member takes the number of one that was closed.
    let mut sockets: Vec<_> = group.into_iter().collect();
    drop(sockets.swap_remove(1));
    let mut group = ReusePortGroup::from_sockets(sockets, by()).expect("a group");
    assert_turns(&group);
    group.join().expect("another");
    assert_turns(&group);
}

#[test]
fn sockets_that_make_no_group_are_invalid_and_the_error_says_which() {
    let group = |addr| builder(addr, Spread::FLOW).bind().expect("a group").into_iter();
    let shared = || group(localhost()).take(1);
    let two_groups = shared().chain(shared()).collect();
    // All have the address 0.0.0.0:0, and each would be bound to a port of its own.
    let unbound = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.set_reuse_port(true)?;
        io::Result::Ok(socket.into())
    };
    let unbound = [(); 2].map(|()| unbound().expect("a socket")).into();
    let twice: Vec<_> = shared().flat_map(|one| [one.try_clone().expect("one"), one]).collect();
    // A socket of another kind on the address of the first.
    let beside = |domain, ty, prepare: fn(&Socket) -> io::Result<()>| {
        let any = if domain == Domain::IPV6 { "[::]:0" } else { "127.0.0.1:0" };
        let first: Vec<_> = group(any.parse().expect("an address")).take(1).collect();
        let second = || {
            let socket = Socket::new(domain, ty, None)?;
            socket.set_reuse_port(true)?;
            prepare(&socket)?;
            socket.bind(&first[0].local_addr()?.into())?;
            io::Result::Ok(UdpSocket::from(OwnedFd::from(socket)))
        };
        let second = second().expect("a socket");
        first.into_iter().chain([second]).collect()
    };
    let tcp = beside(Domain::IPV4, Type::STREAM, |_| Ok(()));
    let ipv6 = UdpSocket::bind("[::]:0").is_ok();
    let v6_only = ipv6.then(|| beside(Domain::IPV6, Type::DGRAM, |s| s.set_only_v6(true)));
    let mut left = builder(localhost(), Spread::FLOW).bind().expect("a group");
    let gone = left.leave(1).expect("it leaves");
    let left = left.into_iter().chain([gone]).collect();
    for (what, sockets) in [
        ("a group has a member", Some(Vec::new())),
        ("socket 1 has another address than socket 0", Some(two_groups)),
        ("socket 0 does not share its address (SO_REUSEPORT)", Some(vec![client()])),
        ("socket 0 is not bound", Some(unbound)),
        ("socket 1 is there twice: it has a duplicate before it", Some(twice)),
        ("socket 1 is not a UDP socket", Some(tcp)),
        ("socket 1 differs from socket 0 in IPV6_V6ONLY or device", v6_only),
        ("socket 3 differs from socket 0 in IPV6_V6ONLY or device", Some(left)),
    ] {
        let Some(sockets) = sockets else { continue };
        let error = ReusePortGroup::from_sockets(sockets, Spread::FLOW).expect_err(what);
        assert_eq!((error.kind(), &*error.to_string()), (io::ErrorKind::InvalidInput, what));
    }
}

/// Sends from 120 sockets, twice each, and checks that the datagrams are spread so.
fn assert_spread(group: &ReusePortGroup, spread: &Spread, clients: &[UdpSocket], what: &str) {
    let members = group.members().len();
    let (mut counts, mut member_of) = (vec![0; members], HashMap::new());
    for turn in 0..2 {
        for (i, client) in clients.iter().enumerate() {
            send(client, &[i as u8], group.local_addr());
            if i % 40 == 39 {
                receive(group, 40, |index, from, payload| {
                    counts[index] += 1;
                    let first = *member_of.entry(from).or_insert(index);
                    if *spread == Spread::FLOW {
                        assert_eq!(first, index, "{what}: turn {turn}, {from}");
                    } else if *spread != Spread::RANDOM && *spread != Spread::CPU {
                        assert_eq!(index, usize::from(payload[0]) % members, "{what}");
                    }
                });
            }
        }
    }
    let cpus = common::linux::cpus();
    for (index, count) in counts.iter().enumerate() {
        let has_share = match *spread {
            Spread::CPU => *count == 0 || cpus.iter().any(|cpu| cpu % members == index),
            // By flow, 120 peers miss one of five members once in 10^11 runs.
            _ => *count > 0,
        };
        assert!(has_share, "{what}: member {index} of {counts:?}");
    }
}

/// The kernel keeps the program of a group until another one is attached.
#[test]
fn a_spread_replaces_every_other_one() {
    let by = Spread::by(Field::u8(0));
    let spreads = [Spread::FLOW, Spread::CPU, Spread::RANDOM, by];
    for addr in running::loopbacks().map(|addr| addr.parse::<SocketAddr>().expect("an address")) {
        let clients: Vec<_> = (0..120).map(|_| UdpSocket::bind(addr).expect("a socket")).collect();
        for (old, new) in spreads.iter().flat_map(|old| spreads.iter().map(move |new| (old, new))) {
            for members in 2..=5 {
                let what = format!("{old:?}, then {new:?} by {members} on {addr}");
                let bind = |addr, spread: &Spread, members| {
                    builder(addr, spread.clone()).members(members).bind().expect("a group")
                };
                // A restart. Indices agree again if the number is the same.
                let has_indices = ![Spread::FLOW, Spread::RANDOM].contains(new);
                let before = bind(addr, old, if has_indices { members } else { 2 });
                let mut after = bind(before.local_addr(), new, members);
                drop(before);
                assert_spread(&after, new, &clients, &what);
                after.join().expect("another");
                assert_spread(&after, new, &clients, &format!("{what}, and another"));
                // The same sockets.
                let sockets = bind(addr, old, members).into_iter().collect();
                let passed = ReusePortGroup::from_sockets(sockets, new.clone());
                assert_spread(&passed.expect("a group"), new, &clients, &format!("{what}: passed"));
            }
        }
    }
}

#[test]
fn one_passed_socket_is_a_group() {
    for spread in [Spread::FLOW, Spread::RANDOM] {
        let one = ReusePortGroup::bind(localhost(), 1).expect("one").into_iter().collect();
        let mut group = ReusePortGroup::from_sockets(one, spread.clone()).expect("a group");
        group.join().expect("a second");
        let (client, to) = (client(), group.local_addr());
        let counts = counts(&group, 100, |_| send(&client, b"x", to));
        assert_eq!(counts.contains(&0), spread == Spread::FLOW, "{counts:?}");
    }
}

/// As on Linux before 4.5, and in gVisor.
#[test]
fn by_flow_a_group_needs_no_programs() {
    let test = || {
        const ATTACH: libc::c_int = libc::SO_ATTACH_REUSEPORT_CBPF;
        if let Err(error) = seccomp::deny_option(ATTACH, libc::ENOPROTOOPT) {
            return common::skip(error);
        }
        builder(localhost(), Spread::FLOW).bind().expect("a group").join().expect("another");
        let error = builder(localhost(), Spread::RANDOM).bind().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT));
    };
    thread::spawn(test).join().expect("no panic");
}

#[test]
fn a_group_of_one_needs_no_permission_to_share() {
    let test = || {
        if let Err(error) = seccomp::deny_option(libc::SO_REUSEPORT, libc::ENOPROTOOPT) {
            return common::skip(error);
        }
        let error = builder(localhost(), Spread::FLOW).bind().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT));
        // No other test uses this address, so nobody takes the port.
        let free = UdpSocket::bind("127.8.8.8:0").and_then(|socket| socket.local_addr());
        let free = free.expect("an address of loopback");
        for (addr, exclusive) in [(localhost(), false), (localhost(), true), (free, false)] {
            let group = builder(addr, Spread::RANDOM).members(1).exclusive(exclusive);
            let group = group.bind().expect("one socket");
            let (client, to) = (client(), group.local_addr());
            assert_eq!(counts(&group, 10, |_| send(&client, b"x", to)), [10]);
        }
    };
    thread::spawn(test).join().expect("no panic");
}

#[test]
fn an_exclusive_group_is_alone_when_it_is_bound() {
    let first = builder(localhost(), Spread::FLOW).exclusive(true).bind().expect("a group");
    let second = builder(first.local_addr(), Spread::FLOW).exclusive(true).bind();
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    builder(first.local_addr(), Spread::FLOW).bind().expect("this one shares it");
    let alone = UdpSocket::bind(localhost()).expect("a socket");
    let error = builder(alone.local_addr().expect("bound"), Spread::FLOW).bind().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn a_group_of_one_is_a_group() {
    for spread in [Spread::FLOW, Spread::RANDOM, Spread::CPU] {
        let mut group =
            ReusePortGroup::builder(localhost()).members(1).spread(spread).bind().expect("one");
        let (client, to) = (client(), group.local_addr());
        assert_eq!(counts(&group, 10, |_| send(&client, b"x", to)), [10]);
        group.join().expect("a second");
        let counts = counts(&group, 10, |_| send(&client, b"x", to));
        assert_eq!(counts.iter().sum::<usize>(), 10);
        assert_eq!(group.run(|index, _| index).expect("threads"), [0, 1]);
        assert_eq!(group.into_iter().count(), 2);
    }
}

#[test]
fn ipv6_groups_spread_as_well() {
    let addr = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
    let group = match builder(addr, Spread::by(Field::u8(0))).bind() {
        Ok(group) => group,
        Err(error) => return common::skip(format_args!("no IPv6: {error}")),
    };
    let (client, to) = (UdpSocket::bind(addr).expect("a socket"), group.local_addr());
    let one = |i: usize| send(&client, &[i as u8], to);
    assert_eq!(counts(&group, 100, one), [25; MEMBERS]);
}

/// Receives until `WouldBlock`, as the documentation of `leave` says, and counts the datagrams.
fn receive_the_rest(socket: &UdpSocket) -> usize {
    let begin = Instant::now();
    let mut received = 0;
    loop {
        match socket.recv(&mut [0; 64]) {
            Ok(_) => received += 1,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                // The call must not have waited for the read timeout.
                assert!(begin.elapsed() < LONG, "the receive has blocked");
                return received;
            }
        }
    }
}

/// The read timeout of a member that is expected not to block.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_loop_on_a_member_that_has_left_ends() {
    let prepare = |socket: &Socket| socket.set_read_timeout(Some(LONG));
    let group = builder(localhost(), Spread::by(Field::u8(0))).prepare(prepare);
    let mut group = group.bind().expect("a group");
    let client = client();
    (0..40u8).for_each(|i| send(&client, &[i], group.local_addr()));
    assert_eq!(receive_the_rest(&group.leave(1).expect("it leaves")), 10);
    for socket in group.leave_all().expect("they leave") {
        assert_eq!(receive_the_rest(&socket), 10);
    }
}

/// A filter delays each datagram after the kernel has looked up its socket. A datagram on its way to a leaving member
/// arrives before `leave` returns, or not at all.
#[test]
fn a_member_that_has_left_gets_no_datagram_that_was_under_way() {
    // SAFETY: the call takes numbers alone, and returns the set of its commands.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_QUERY, 0, 0) };
    if commands < 0 || commands & libc::c_long::from(libc::MEMBARRIER_CMD_GLOBAL) == 0 {
        return common::skip("the call membarrier is denied");
    }
    let [sends, leaves, ..] = common::linux::cpus()[..] else {
        return common::skip("one CPU delivers no datagram while a member leaves");
    };
    let slow = |socket: &Socket| {
        // 2,000 divisions take about 10 us; then the filter passes the datagram.
        let (divide, pass) = (0x34, 0x06);
        let divisions = (0..2000).map(|_| SockFilter::new(divide, 0, 0, 3));
        let program: Vec<_> = divisions.chain([SockFilter::new(pass, 0, 0, 64)]).collect();
        socket.attach_filter(&program)?;
        socket.set_nonblocking(true)
    };
    let group = ReusePortGroup::builder(localhost()).members(1).prepare(slow);
    let mut group = group.bind().expect("a group");
    let (client, to, stop) = (client(), group.local_addr(), AtomicBool::new(false));
    let late: usize = thread::scope(|scope| {
        scope.spawn(|| {
            common::linux::run_on(sends);
            let begin = Instant::now();
            while !stop.load(Ordering::Relaxed) && begin.elapsed() < TIME_LIMIT {
                send(&client, b"x", to);
            }
        });
        let late = scope.spawn(|| {
            common::linux::run_on(leaves);
            let round = |_| {
                receive(&group, 10, |_, _, _| {});
                let left = group.leave(0).expect("it leaves");
                receive_the_rest(&left);
                thread::sleep(Duration::from_millis(1));
                group.join().expect("another one");
                receive_the_rest(&left)
            };
            let late = (0..common::repetitions(100, 5)).map(round).sum();
            stop.store(true, Ordering::Relaxed);
            late
        });
        late.join().expect("no panic")
    });
    assert_eq!(late, 0);
}

#[test]
fn a_group_of_too_many_is_an_error() {
    let too_many = usize::try_from(1u64 << 40).unwrap_or(usize::MAX);
    for count in [0, 1 << 16, too_many, usize::MAX] {
        let error = ReusePortGroup::bind(localhost(), count).expect_err("no kernel has space");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{count}");
    }
}

#[test]
fn what_cannot_be_bound_is_an_error() {
    let none = ReusePortGroup::bind(localhost(), 0).unwrap_err();
    assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
    let prepare = |_: &Socket| Err(io::ErrorKind::OutOfMemory.into());
    let error = builder(localhost(), Spread::FLOW).prepare(prepare).bind().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
}

#[test]
fn a_panic_of_one_member_shows_when_the_others_have_ended() {
    let group =
        builder(localhost(), Spread::FLOW).prepare(|s| s.set_read_timeout(Some(TIME_LIMIT)));
    let group = group.bind().expect("a group");
    let ended = AtomicUsize::new(0);
    let run = || {
        group.run(|index, _| {
            assert_ne!(index, 1, "as it should");
            ended.fetch_add(1, Ordering::Relaxed);
        })
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    assert!(outcome.is_err());
    assert_eq!(ended.into_inner(), MEMBERS - 1);
}
