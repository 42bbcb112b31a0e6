//! Errors that a connected socket reports once, met by GSO batches and by the datagrams that go in their place.

use super::offload_kit::{Net, bytes};
use super::*;

const COUNT: usize = 4;
const LEN: usize = 40;

/// Datagrams of one batch: messages of a length, or one message with a segment size.
fn payload() -> Vec<u8> {
    (0..COUNT).flat_map(|i| bytes(i, LEN)).collect()
}

fn msgs(data: &[u8], own: bool) -> Vec<SendMsg<'_>> {
    match own {
        true => vec![SendMsg::new(data).with_segment_size(LEN as u16)],
        false => data.chunks(LEN).map(SendMsg::new).collect(),
    }
}

fn connected() -> Option<Net> {
    let net = Net::new()?;
    net.near.get_ref().connect(net.to(0)).expect("connecting does nothing but remember");
    Some(net)
}

/// The errors of the next calls, until one sends the message.
fn errors(net: &Net) -> Vec<i32> {
    let next = || net.near.send_batch(&[SendMsg::new(b"next")]);
    let errors: Vec<_> = std::iter::from_fn(|| next().err()).collect();
    errors.iter().map(|error| error.raw_os_error().expect("the system's")).collect()
}

/// The datagrams go all the same, and the next call returns the error.
#[test]
fn d4_an_error_reported_once_outlives_a_batch_that_is_sent_as_its_datagrams() {
    let Some(net) = connected() else { return };
    let data = payload();
    for (backend, own) in BACKENDS.into_iter().flat_map(|b| [(b, false), (b, true)]) {
        backend.make_process_default().unwrap();
        fault::script([(Call::SendMsg, Fate::Fail(errno::EHOSTUNREACH))]);
        let msgs = msgs(&data, own);
        assert_eq!(net.near.send_batch(&msgs).unwrap(), msgs.len());
        fault::finish();
        assert_eq!(errors(&net), [errno::EHOSTUNREACH], "{backend:?} {own}");
    }
}

/// The same error of the batch and of its first datagram is one error.
#[test]
fn d4_an_error_that_the_first_datagram_has_as_well_is_returned_once() {
    let Some(net) = connected() else { return };
    let data = payload();
    for (backend, own) in BACKENDS.into_iter().flat_map(|b| [(b, false), (b, true)]) {
        backend.make_process_default().unwrap();
        let fail = |call| (call, Fate::Fail(errno::EHOSTUNREACH));
        fault::script([fail(Call::SendMsg), fail(send_call(backend, COUNT))]);
        assert_eq!(errno(net.near.send_batch(&msgs(&data, own))), errno::EHOSTUNREACH);
        fault::finish();
        assert!(errors(&net).is_empty(), "{backend:?} {own}");
    }
}

/// The batch takes one error off the socket, and a datagram after others meets the next one.
#[test]
fn d4_errors_reported_once_by_a_batch_and_by_a_later_datagram_are_two() {
    let Some(net) = connected() else { return };
    let data = payload();
    for (backend, k) in BACKENDS.into_iter().flat_map(|b| (1..COUNT).map(move |k| (b, k))) {
        backend.make_process_default().unwrap();
        let mut fates = vec![(Call::SendMsg, Fate::Fail(errno::EHOSTUNREACH))];
        fates.extend(stopped_send(backend, COUNT, k, errno::EHOSTUNREACH));
        fault::script(fates);
        assert_eq!(errno(net.near.send_batch(&msgs(&data, true))), errno::EHOSTUNREACH);
        fault::finish();
        assert_eq!(errors(&net), [errno::EHOSTUNREACH], "{backend:?} {k}");
    }
}
