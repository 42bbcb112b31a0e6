//! GSO that is off for one destination, for the socket, or on a kernel release that damages it.

use std::net::Ipv4Addr;

use super::offload_kit::bytes;
use super::*;
use crate::Offload;
use crate::offload::{GsoStatus, OffloadState};

/// Datagrams of each batch.
const COUNT: usize = 4;

/// A sender, and receivers at addresses of their own.
struct Hosts {
    near: Offload<UdpSocket>,
    far: Vec<UdpSocket>,
    data: Vec<Vec<u8>>,
}

impl Hosts {
    fn new(count: u8) -> Option<Self> {
        let near = Offload::builder().gro(false).build(socket()).expect("a UDP socket");
        let far = (1..=count).map(|i| {
            let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, i), 0))?;
            socket.set_read_timeout(Some(NET)).map(|()| socket)
        });
        // Other systems have one loopback address.
        let far: Vec<_> = far.collect::<io::Result<_>>().ok()?;
        let data = (0..COUNT).map(|i| bytes(i, 40)).collect();
        near.gso().then_some(Self { near, far, data })
    }

    /// Sends a batch to receiver `i`, which gets all of it. Returns the number of messages of each system call.
    fn send(&self, i: usize, fates: &[(Call, Fate)]) -> Vec<(Call, usize)> {
        let to = addr(&self.far[i]);
        let msgs: Vec<_> = self.data.iter().map(|data| SendMsg::to(to, data)).collect();
        fault::script(fates.iter().copied());
        assert_eq!(self.near.send_batch(&msgs).unwrap(), COUNT);
        let calls = calls();
        let mut buffer = [0; 100];
        for data in &self.data {
            let len = self.far[i].recv(&mut buffer).expect("it was sent");
            assert_eq!(buffer[..len], data[..]);
        }
        calls
    }
}

const REJECTED: [(Call, Fate); 1] = [(Call::SendMsg, Fate::Fail(errno::EIO))];
const BATCH: [(Call, usize); 1] = [(Call::SendMsg, 1)];
const SINGLES: [(Call, usize); 1] = [(Call::SendMmsg, COUNT)];

#[test]
fn n2_a_destination_that_rejects_gets_single_datagrams_and_the_others_batches() {
    let Some(hosts) = Hosts::new(2) else { return };
    Backend::Mmsg.make_process_default().unwrap();
    for _ in 0..2 {
        assert_eq!(hosts.send(0, &REJECTED), [BATCH, SINGLES].concat());
        for _ in 0..3 {
            assert_eq!(hosts.send(0, &[]), SINGLES);
            assert_eq!(hosts.send(1, &[]), BATCH);
        }
        assert_eq!(hosts.near.gso_status(), GsoStatus::On);
        // Forgets what was rejected.
        assert!(hosts.near.set_gso(true));
        assert_eq!(hosts.send(0, &[]), BATCH);
    }
    let counters = hosts.near.counters();
    assert_eq!((counters.rejected_unsupported, counters.rejected_socket), (2, 0));
    assert_eq!((counters.not_offered, counters.sent_batches), (6, 8));
    assert_eq!(counters.sent, 16 * COUNT as u64);
}

/// Three in four destinations reject, a hundred and more of them, and each is sent to again and again.
#[test]
fn n2_a_hundred_destinations_that_reject_cost_a_rejected_call_each_and_no_more() {
    let Some(hosts) = Hosts::new(160) else { return };
    Backend::Mmsg.make_process_default().unwrap();
    for round in 0..3 {
        for i in 0..160 {
            let (fates, calls) = match (i % 4, round) {
                (0, _) => (&[][..], BATCH.to_vec()),
                (_, 0) => (&REJECTED[..], [BATCH, SINGLES].concat()),
                _ => (&[][..], SINGLES.to_vec()),
            };
            assert_eq!(hosts.send(i, fates), calls, "destination {i}, round {round}");
        }
    }
    assert_eq!(hosts.near.gso_status(), GsoStatus::On);
    let counters = hosts.near.counters();
    assert_eq!((counters.rejected_unsupported, counters.not_offered), (120, 240));
}

/// What one descriptor of a socket has learned, another one knows.
#[test]
fn n2_a_rejection_is_known_by_every_descriptor_and_form_of_address() {
    let far = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    far.set_read_timeout(Some(NET)).expect("a timeout");
    let near = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::DGRAM, None);
    let Ok(near) = near.and_then(|near| near.set_only_v6(false).map(|()| near)) else { return };
    near.bind(&"[::]:0".parse::<SocketAddr>().unwrap().into()).expect("any address");
    let state = OffloadState::new(&near).expect("a UDP socket");
    if !state.gso() {
        return;
    }
    let (clone, port) = (near.try_clone().expect("a descriptor"), addr(&far).port());
    Backend::Mmsg.make_process_default().unwrap();
    let send = |socket: &socket2::Socket, to: &str, fates: &[(Call, Fate)]| {
        let to = SocketAddr::new(to.parse().unwrap(), port);
        fault::script(fates.iter().copied());
        let msgs = [[7; 40]; COUNT];
        let msgs: Vec<_> = msgs.iter().map(|data| SendMsg::to(to, data)).collect();
        assert_eq!(state.on(socket).send_batch(&msgs).unwrap(), COUNT);
        let calls = calls();
        for _ in 0..COUNT {
            assert_eq!(far.recv(&mut [0; 100]).expect("it was sent"), 40);
        }
        calls
    };
    assert_eq!(send(&near, "::ffff:127.0.0.1", &REJECTED), [BATCH, SINGLES].concat());
    assert_eq!(send(&clone, "::ffff:127.0.0.1", &[]), SINGLES);
    assert_eq!(send(&clone, "::ffff:127.0.0.1", &[]), SINGLES);
}

/// Threads share an `Offload` whose kernel rejects at random: each message is delivered once, or its
/// error is reported.
#[test]
fn n2_threads_meet_rejections_of_many_destinations_and_lose_and_double_nothing() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 60;
    let Some(hosts) = Hosts::new(48) else { return };
    Backend::Mmsg.make_process_default().unwrap();
    let Hosts { near, far, .. } = &hosts;
    let run = |thread: usize| {
        let mut random = Random(0x5eed + thread as u64);
        let mut errnos = Random(thread as u64 + 1);
        fault::decide_by(move |call, offered| match (errnos.below(4), call) {
            (0, Call::SendMmsg | Call::SendMsg) => Fate::Fail(errno::EIO),
            (1, Call::SendMmsg) => Fate::AtMost(1 + errnos.below(offered)),
            _ => Fate::Kernel,
        });
        let own: Vec<_> = far.iter().skip(thread).step_by(THREADS).collect();
        for round in 0..ROUNDS {
            // Batches to a few destinations in one call.
            let dests: Vec<usize> = (0..3).map(|_| random.below(own.len())).collect();
            let data: Vec<_> = (0..3 * COUNT).map(|i| [round as u8, i as u8, 0, 0]).collect();
            let to = |i: usize| dests[i / COUNT];
            let msgs: Vec<_> = data
                .iter()
                .enumerate()
                .map(|(i, data)| SendMsg::to(addr(own[to(i)]), data))
                .collect();
            let mut failed = Vec::new();
            let handled = near.send_each(&msgs, |index, error| {
                assert_eq!(error.raw_os_error(), Some(errno::EIO));
                failed.push(index);
            });
            assert_eq!(handled.unwrap(), msgs.len());
            for (i, expected) in data.iter().enumerate() {
                if !failed.contains(&i) {
                    let mut buffer = [0; 100];
                    let len = own[to(i)].recv(&mut buffer).expect("it was sent");
                    assert_eq!(buffer[..len], expected[..], "round {round}, number {i}");
                }
            }
            if round % 16 == 15 {
                near.set_gso(true);
            }
        }
        fault::script([]);
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || run(thread));
        }
    });
    for far in far {
        far.set_nonblocking(true).expect("a mode");
        let more = far.recv(&mut [0; 100]).map_err(|error| error.kind());
        assert_eq!(more, Err(io::ErrorKind::WouldBlock), "doubled");
    }
    assert!(near.counters().rejected_unsupported > 0);
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as usize % limit
    }
}

/// A message with a segment size of the caller's is segmented in user space there.
#[test]
fn n2_a_segment_size_to_a_destination_that_rejects_is_segmented_in_user_space() {
    let Some(hosts) = Hosts::new(1) else { return };
    Backend::Mmsg.make_process_default().unwrap();
    let data = hosts.data.concat();
    let meta = crate::SendMeta::new().with_segment_size(40);
    let msg = SendMsg::to(addr(&hosts.far[0]), &data).with_meta(&meta);
    for calls_made in [&[BATCH, SINGLES].concat()[..], &SINGLES] {
        fault::script(REJECTED.into_iter().take(calls_made.len() - 1));
        assert_eq!(hosts.near.send_batch(&[msg]).unwrap(), 1);
        assert_eq!(calls(), calls_made);
        for data in &hosts.data {
            let mut buffer = [0; 100];
            let len = hosts.far[0].recv(&mut buffer).expect("it was sent");
            assert_eq!(buffer[..len], data[..]);
        }
    }
}

/// A device without checksum offload rejects everything: after a few tries it is no longer asked.
#[test]
fn n2_several_destinations_that_reject_turn_gso_off_for_the_socket() {
    let Some(hosts) = Hosts::new(5) else { return };
    Backend::Mmsg.make_process_default().unwrap();
    // A batch that is accepted in between shows that it is not the device.
    for i in [0, 1, 2] {
        hosts.send(i, &REJECTED);
    }
    assert_eq!(hosts.send(4, &[]), BATCH);
    hosts.send(3, &REJECTED);
    assert_eq!(hosts.near.gso_status(), GsoStatus::On);

    hosts.near.set_gso(true);
    for i in 0..4 {
        assert_eq!(hosts.near.gso_status(), GsoStatus::On);
        hosts.send(i, &REJECTED);
    }
    assert_eq!(hosts.near.gso_status(), GsoStatus::Rejected);
    assert!(!hosts.near.gso());
    assert_eq!(hosts.send(4, &[]), SINGLES);
    assert_eq!(hosts.near.counters().rejected_socket, 1);
    assert!(hosts.near.set_gso(true));
    assert_eq!(hosts.send(0, &[]), BATCH);
}

#[test]
fn n2_the_one_destination_of_a_connected_socket_is_the_whole_of_it() {
    let Some(hosts) = Hosts::new(1) else { return };
    Backend::Mmsg.make_process_default().unwrap();
    hosts.near.get_ref().connect(addr(&hosts.far[0])).expect("loopback");
    let msgs: Vec<_> = hosts.data.iter().map(|data| SendMsg::new(data)).collect();
    fault::script(REJECTED);
    assert_eq!(hosts.near.send_batch(&msgs).unwrap(), COUNT);
    assert_eq!(calls(), [BATCH, SINGLES].concat());
    assert_eq!(hosts.near.gso_status(), GsoStatus::Rejected);
    fault::script([]);
    assert_eq!(hosts.near.send_batch(&msgs).unwrap(), COUNT);
    assert_eq!(calls(), SINGLES);
}

#[test]
fn n1_gso_is_off_by_itself_on_a_release_that_damages_batches() {
    let Some(mut hosts) = Hosts::new(1) else { return };
    Backend::Mmsg.make_process_default().unwrap();
    for (release, status, calls) in [
        ("6.19.12-amd64", GsoStatus::On, BATCH),
        ("7.0.0", GsoStatus::OffByKernelRelease, SINGLES),
        ("7.1.4-200.fc44.x86_64", GsoStatus::OffByKernelRelease, SINGLES),
        ("7.1.5", GsoStatus::On, BATCH),
        ("unreadable", GsoStatus::On, BATCH),
    ] {
        fault::set_release(Some(release));
        hosts.near = Offload::builder().gro(false).build(socket()).expect("a UDP socket");
        assert_eq!(hosts.near.gso_status(), status, "{release}");
        assert_eq!(hosts.send(0, &[]), calls, "{release}");
        assert_eq!(hosts.near.set_gso(true), status == GsoStatus::On);
        assert!(!hosts.near.set_gso(false));
        assert_eq!(hosts.near.gso_status(), GsoStatus::OffByChoice);

        let forced = Offload::builder().force_gso(true).gro(false).build(socket());
        hosts.near = forced.expect("a UDP socket");
        assert_eq!(hosts.near.gso_status(), GsoStatus::On, "{release}");
        assert_eq!(hosts.send(0, &[]), BATCH, "{release}");
    }
    fault::set_release(None);
}
