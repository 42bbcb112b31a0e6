//! GSO that is off for one destination, for the socket, or on a kernel release that damages it.

use std::net::Ipv4Addr;

use super::offload_kit::bytes;
use super::*;
use crate::Offload;
use crate::offload::GsoStatus;

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

    /// Sends a batch to receiver `i`, which gets all of it. Gives the messages of each system call.
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
