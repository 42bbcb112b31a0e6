//! A kernel that rejects the control message for the TOS byte, as some Android kernels do.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::offload::GsoStatus;
use crate::{Ancillary, Ecn, Offload, SendMeta};

/// The errors of these kernels.
const ERRORS: [i32; 2] = [errno::EINVAL, errno::EIO];

/// The source of the messages: another one than the system would choose.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

/// A sender that is bound to all addresses, and a receiver that reads the TOS.
struct Pair {
    near: UdpSocket,
    far: UdpSocket,
}

impl Pair {
    /// `None` where loopback has one address, or sockets have no cookies.
    fn new() -> Option<Self> {
        UdpSocket::bind((SOURCE, 0)).ok()?;
        let near = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a UDP socket");
        crate::sys::socket_cookie(crate::sys::borrow(&near))?;
        let far = socket();
        let taken = Ancillary::TOS.enable(&far).expect("a UDP socket");
        taken.contains(Ancillary::TOS).then_some(Self { near, far })
    }

    fn msgs<'a>(&self, numbers: &'a [Number]) -> Vec<SendMsg<'a>> {
        const META: SendMeta = SendMeta::new().with_ecn(Ecn::Ect0).with_source(IpAddr::V4(SOURCE));
        let to = addr(&self.far);
        numbers.iter().map(|number| SendMsg::to(to, number).with_meta(&META)).collect()
    }

    /// The number and the ECN bits of the next `count` datagrams, which come from [`SOURCE`].
    fn received(&self, count: usize) -> Vec<(u32, Ecn)> {
        let mut received = Vec::new();
        let mut batch = RecvBatch::new(8, 16);
        while received.len() < count {
            self.far.recv_into(&mut batch).expect("it was sent");
            for datagram in batch.iter() {
                assert_eq!(datagram.addr().map(|addr| addr.ip()), Some(SOURCE.into()));
                let tos = datagram.meta().tos.expect("the socket asks for it");
                received.push((number(datagram.data()), Ecn::from_tos(tos)));
            }
        }
        received
    }
}

fn all(range: Range<u32>, ecn: Ecn) -> Vec<(u32, Ecn)> {
    range.map(|number| (number, ecn)).collect()
}

#[test]
fn n3_a_message_whose_tos_is_rejected_is_sent_without_it_in_the_same_call() {
    let numbers = numbers(0..6);
    for (backend, error) in BACKENDS.into_iter().flat_map(|b| ERRORS.map(|error| (b, error))) {
        for way in Sending::each(backend) {
            let Some(pair) = Pair::new() else { return };
            let msgs = pair.msgs(&numbers);
            fault::script([]);
            assert_eq!(way.send(&pair.near, &msgs).unwrap(), 6);
            assert_eq!(pair.received(6), all(0..6, Ecn::Ect0));
            assert!(Ecn::is_sent(&pair.near));

            let mut fates = vec![(send_call(backend, 6), Fate::Fail(error))];
            // First with the TOS, then without.
            fates.extend((backend == Backend::Mmsg).then_some((Call::SendMsg, Fate::Fail(error))));
            fault::script(fates);
            assert_eq!(way.send(&pair.near, &msgs).unwrap(), 6, "{backend:?} {way:?} {error}");
            fault::finish();
            assert_eq!(pair.received(6), all(0..6, Ecn::NotEct));
            assert!(!Ecn::is_sent(&pair.near));

            // Known from now on, by every descriptor of the socket and by no other socket.
            let again = pair.near.try_clone().expect("a descriptor");
            fault::script([]);
            assert_eq!(way.send(&again, &msgs).unwrap(), 6);
            assert_eq!(calls().len(), 6);
            assert_eq!(pair.received(6), all(0..6, Ecn::NotEct));
            assert!(!Ecn::is_sent(&again));
            let other = Pair::new().expect("as before");
            assert_eq!(way.send(&other.near, &other.msgs(&numbers)).unwrap(), 6);
            assert_eq!(other.received(6), all(0..6, Ecn::Ect0));
        }
    }
}

#[test]
fn n3_a_rejected_tos_midway_costs_no_other_message_anything() {
    let numbers = numbers(0..6);
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        let Some(pair) = Pair::new() else { return };
        fault::script(stopped_send(backend, 6, 3, errno::EINVAL));
        assert_eq!(pair.near.send_batch(&pair.msgs(&numbers)).unwrap(), 6);
        fault::finish();
        let expected = [all(0..3, Ecn::Ect0), all(3..6, Ecn::NotEct)].concat();
        assert_eq!(pair.received(6), expected);
    }
}

/// `EINVAL` has other causes: then it is the message's own, and the TOS stays.
#[test]
fn n3_an_error_that_is_not_about_the_tos_is_reported() {
    let Some(pair) = Pair::new() else { return };
    let numbers = numbers(0..1);
    Backend::Msg.make_process_default().unwrap();
    for error in ERRORS {
        fault::script([(Call::SendMsg, Fate::Fail(error)); 2]);
        assert_eq!(errno(pair.near.send_batch(&pair.msgs(&numbers))), error);
        fault::finish();
        assert!(Ecn::is_sent(&pair.near));
        fault::script([]);
        assert_eq!(pair.near.send_batch(&pair.msgs(&numbers)).unwrap(), 1);
        assert_eq!(pair.received(1), all(0..1, Ecn::Ect0));
    }
    // Without a TOS nothing is tried again, and other errors say nothing about it.
    for (error, meta) in [
        (errno::EINVAL, SendMeta::new().with_source(SOURCE.into())),
        (errno::EPERM, { SendMeta::new().with_ecn(Ecn::Ect0) }),
    ] {
        let msg = SendMsg::to(addr(&pair.far), b"once").with_meta(&meta);
        fault::script([(Call::SendMsg, Fate::Fail(error))]);
        assert_eq!(errno(pair.near.send_batch(&[msg])), error);
        assert_eq!(calls().len(), 1);
    }
    // An address that is not of this host: the message is not sent from another one.
    let meta = SendMeta::new().with_ecn(Ecn::Ect0).with_source([192, 0, 2, 1].into());
    fault::script([]);
    let result = pair.near.send_batch(&[SendMsg::to(addr(&pair.far), b"never").with_meta(&meta)]);
    assert!(result.is_err());
    assert!(Ecn::is_sent(&pair.near));
}

/// A rejected TOS is not taken for missing GSO: the batch goes as one.
#[test]
fn n3_a_gso_batch_whose_tos_is_rejected_stays_a_batch() {
    let numbers = numbers(0..6);
    for (backend, error) in BACKENDS.into_iter().flat_map(|b| ERRORS.map(|error| (b, error))) {
        backend.make_process_default().unwrap();
        let Some(pair) = Pair::new() else { return };
        let near = pair.near.try_clone().expect("a descriptor");
        let near = Offload::builder().gro(false).build(near).expect("a UDP socket");
        if !near.gso() {
            return;
        }
        let msgs = pair.msgs(&numbers);
        fault::script([(Call::SendMsg, Fate::Fail(error))]);
        for calls_made in [2, 1] {
            assert_eq!(near.send_batch(&msgs).unwrap(), 6);
            assert_eq!(calls(), vec![(Call::SendMsg, 1); calls_made]);
            assert_eq!(pair.received(6), all(0..6, Ecn::NotEct));
            fault::script([]);
        }
        let counters = near.counters();
        assert_eq!((counters.sent_batches, counters.sent_segments), (2, 12));
        assert_eq!((counters.rejected_size, counters.rejected_unsupported), (0, 0));
        assert_eq!(near.gso_status(), GsoStatus::On);
        assert!(!Ecn::is_sent(near.get_ref()));
    }
}
