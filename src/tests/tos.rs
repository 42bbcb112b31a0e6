//! A kernel that rejects the control message for the TOS byte, as some Android kernels do.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::offload::GsoStatus;
use crate::{Ancillary, Ecn, Offload, SendMeta};

/// The errors of these kernels.
const ERRORS: [i32; 2] = [errno::EINVAL, errno::EIO];

/// The source of the messages. The system would choose another.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

const META: SendMeta = SendMeta::new().with_tos(Ecn::Ect0 as u8).with_source(IpAddr::V4(SOURCE));

/// A sender bound to all addresses, and a receiver that reads the TOS.
struct Pair {
    near: Offload<UdpSocket>,
    far: UdpSocket,
}

impl Pair {
    /// `None` where loopback has one address, or there is no GSO.
    fn new(gso: bool) -> Option<Self> {
        UdpSocket::bind((SOURCE, 0)).ok()?;
        let near = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a UDP socket");
        let near = Offload::builder().gso(gso).gro(false).build(near).expect("a UDP socket");
        let far = socket();
        let taken = Ancillary::TOS.enable(&far).expect("a UDP socket");
        (taken.contains(Ancillary::TOS) && near.state().gso() == gso).then_some(Self { near, far })
    }

    fn msgs<'a>(&self, numbers: &'a [Number]) -> Vec<SendMsg<'a>> {
        let to = addr(&self.far);
        numbers.iter().map(|number| SendMsg::to(to, number).with_meta(&META)).collect()
    }

    /// Receives the datagrams that wait, with their ECN bits. All come from [`SOURCE`].
    fn expect(&self, expected: &[(u32, Ecn)]) {
        let (mut batch, mut came) = (RecvBatch::new(8, 16), Vec::new());
        while came.len() < expected.len() {
            self.far.recv_into(&mut batch).expect("it was sent");
            for datagram in batch.iter() {
                assert_eq!(datagram.addr().map(|addr| addr.ip()), Some(SOURCE.into()));
                let ecn = datagram.meta().ecn().expect("the socket asks for it");
                came.push((number(datagram.data()), ecn));
            }
        }
        assert_eq!(came, expected);
    }
}

fn all(range: Range<u32>, ecn: Ecn) -> Vec<(u32, Ecn)> {
    range.map(|number| (number, ecn)).collect()
}

/// Every backend, error, and state of GSO.
fn cases() -> impl Iterator<Item = (Backend, i32, bool)> {
    let cases = BACKENDS.into_iter().flat_map(|b| ERRORS.map(|error| (b, error)));
    cases.flat_map(|(b, error)| [(b, error, true), (b, error, false)])
}

/// A rejected TOS is not mistaken for missing GSO: without it the messages are sent as a batch.
#[test]
fn a_message_whose_tos_is_rejected_is_sent_without_it_in_the_same_call() {
    let numbers = numbers(0..6);
    for (backend, error, gso) in cases() {
        backend.make_process_default().unwrap();
        let Some(pair) = Pair::new(gso) else { return };
        let msgs = pair.msgs(&numbers);
        fault::script([]);
        assert_eq!(pair.near.send_batch(&msgs).unwrap(), 6);
        pair.expect(&all(0..6, Ecn::Ect0));
        assert!(pair.near.state().sends_tos());

        // With GSO all six are one header, and then six.
        let call = send_call(backend, if gso { 1 } else { 6 });
        let datagrams = gso.then_some(send_call(backend, 6));
        fault::script([call].into_iter().chain(datagrams).map(|call| (call, Fate::Fail(error))));
        assert_eq!(pair.near.send_batch(&msgs).unwrap(), 6, "{backend:?} {error} {gso}");
        fault::finish();
        pair.expect(&all(0..6, Ecn::NotEct));
        assert!(!pair.near.state().sends_tos());

        // From now on the socket sends without TOS at once.
        let one = if call == Call::SendMsg && !gso { 6 } else { 1 };
        fault::script([]);
        assert_eq!(pair.near.send_batch(&msgs).unwrap(), 6);
        assert_eq!(calls().len(), one);
        pair.expect(&all(0..6, Ecn::NotEct));
        let counters = pair.near.state().counters();
        assert_eq!(counters.sent_batches, if gso { 3 } else { 0 });
        assert_eq!((counters.rejected_size, counters.rejected_unsupported), (0, 0));
        assert_eq!(pair.near.state().gso_status() == GsoStatus::On, gso);
    }
}

/// If the message fails without its TOS, too, the error is about the message, and the TOS stays.
#[test]
fn an_error_that_is_not_about_the_tos_is_returned() {
    let Some(pair) = Pair::new(false) else { return };
    let numbers = numbers(0..1);
    Backend::Msg.make_process_default().unwrap();
    for error in ERRORS {
        fault::script([(Call::SendMsg, Fate::Fail(error)); 2]);
        assert_eq!(errno(pair.near.send_batch(&pair.msgs(&numbers))), error);
        fault::finish();
        assert!(pair.near.state().sends_tos());
        fault::script([]);
        assert_eq!(pair.near.send_batch(&pair.msgs(&numbers)).unwrap(), 1);
        pair.expect(&all(0..1, Ecn::Ect0));
    }
    // A message without TOS, or with another error, is not tried again.
    for (error, meta) in [
        (errno::EINVAL, SendMeta::new().with_source(SOURCE.into())),
        (errno::EPERM, SendMeta::new().with_tos(Ecn::Ect0 as u8)),
    ] {
        let msg = SendMsg::to(addr(&pair.far), b"once").with_meta(&meta);
        fault::script([(Call::SendMsg, Fate::Fail(error))]);
        assert_eq!(errno(pair.near.send_batch(&[msg])), error);
        assert_eq!(calls().len(), 1);
    }
    // A source that is not an address of this host fails. The message is not sent from another one.
    let meta = SendMeta::new().with_tos(Ecn::Ect0 as u8).with_source([192, 0, 2, 1].into());
    let result = pair.near.send_batch(&[SendMsg::to(addr(&pair.far), b"never").with_meta(&meta)]);
    assert!(result.is_err());
    assert!(pair.near.state().sends_tos());
}

/// A plain socket remembers nothing, so its caller decides.
#[test]
fn a_plain_socket_returns_the_error() {
    let Some(pair) = Pair::new(false) else { return };
    let numbers = numbers(0..6);
    for (backend, error) in BACKENDS.into_iter().flat_map(|b| ERRORS.map(|error| (b, error))) {
        choose(backend);
        fault::script([(send_call(backend, 6), Fate::Fail(error))]);
        assert_eq!(errno(pair.near.get_ref().send_batch(&pair.msgs(&numbers))), error);
        assert_eq!(calls().len(), 1);
        assert_eq!(pair.near.get_ref().send_batch(&pair.msgs(&numbers)).unwrap(), 6);
        pair.expect(&all(0..6, Ecn::Ect0));
    }
}
