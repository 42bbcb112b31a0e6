//! Cases that the model has found, each reduced to its smallest form.

use std::net::UdpSocket;

use super::super::offload_kit::Net;
use super::super::*;
use crate::Offload;

const KERNEL: (Call, Fate) = (Call::SendMsg, Fate::Kernel);
const REFUSED: (Call, Fate) = (Call::SendMsg, Fate::Fail(errno::ECONNREFUSED));

/// A socket that segments in user space, and 40 bytes that are four datagrams.
fn without_gso() -> Option<(Net, Vec<u8>)> {
    let net = Net::new()?;
    net.near.set_gso(false);
    Some((net, (0..40).collect()))
}

fn four<'m>(net: &Net, data: &'m [u8]) -> SendMsg<'m> {
    SendMsg::to(net.to(0), data).with_segment_size(10)
}

/// Sends the message until all of it has left, and returns the errors up to then and of one more send.
fn heard(socket: &Offload<UdpSocket>, msg: SendMsg<'_>) -> Vec<i32> {
    let mut heard = Vec::new();
    let mut left = 2;
    while left > 0 {
        assert!(heard.len() < 10, "it never ends: {heard:?}");
        match socket.send_batch(&[msg]) {
            Ok(count) => left -= count,
            Err(error) => heard.push(error.raw_os_error().expect("the system's")),
        }
    }
    heard
}

/// Errors of one kind that wait for the next call are one, as in the kernel: otherwise a message of many segments would
/// fail as many later messages, whose destination may be there again.
#[test]
fn icmp_errors_within_a_segmented_message_are_returned_as_one() {
    let Some((net, data)) = without_gso() else { return };
    Backend::Msg.make_process_default().unwrap();
    fault::script([KERNEL, REFUSED, KERNEL, REFUSED]);
    assert_eq!(heard(&net.near, four(&net, &data)), [errno::ECONNREFUSED]);
    fault::finish();
}

#[test]
fn an_icmp_error_within_a_segmented_message_that_fails_is_returned() {
    let Some((net, data)) = without_gso() else { return };
    Backend::Msg.make_process_default().unwrap();
    fault::script([KERNEL, REFUSED, KERNEL, (Call::SendMsg, Fate::Fail(errno::ENOBUFS))]);
    let heard = heard(&net.near, four(&net, &data));
    fault::finish();
    assert!(heard.contains(&errno::ECONNREFUSED), "{heard:?}");
}

/// The trait promises it for a call with no messages.
fn hears_of_no_error_without_messages(net: &Net, socket: &dyn BatchSocket) {
    let data = numbers(0..2);
    let msgs: Vec<_> = data.iter().map(|number| SendMsg::to(net.to(0), number)).collect();
    Backend::Msg.make_process_default().unwrap();
    fault::script([KERNEL, REFUSED]);
    assert_eq!(socket.send_batch(&msgs).unwrap(), 1);
    fault::finish();
    assert_eq!(socket.send_iter(&[] as &[SendMsg<'_>]).unwrap(), 0);
    let next = socket.send_iter(msgs[1..].iter().copied());
    assert_eq!(errno(next), errno::ECONNREFUSED);
    assert_eq!(socket.send_iter(msgs[1..].iter().copied()).unwrap(), 1);
}

#[test]
fn an_empty_iterator_leaves_the_deferred_error() {
    let Some(net) = Net::new() else { return };
    hears_of_no_error_without_messages(&net, net.near.get_ref());
}

#[test]
fn an_empty_iterator_leaves_the_deferred_error_of_offload() {
    let Some(net) = Net::new() else { return };
    net.near.set_gso(false);
    hears_of_no_error_without_messages(&net, &net.near);
}

/// A message that the caller gave up has no part in the next one's outcome.
#[test]
fn a_message_equal_to_a_failed_one_is_sent_whole() {
    let Some((net, data)) = without_gso() else { return };
    Backend::Msg.make_process_default().unwrap();
    fault::script([KERNEL, KERNEL, (Call::SendMsg, Fate::Fail(errno::EPERM))]);
    assert_eq!(errno(net.near.send_batch(&[four(&net, &data)])), errno::EPERM);
    fault::finish();
    assert_eq!(net.delivered()[0].len(), 2);
    assert_eq!(net.near.send_batch(&[four(&net, &data)]).unwrap(), 1);
    assert_eq!(net.delivered()[0].len(), 4);
}

/// The second message of the first call cannot be sent, and its caller gives up on it.
#[cfg(has_descriptors)]
#[test]
fn an_error_is_not_returned_for_another_message() {
    let (near, far) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
    let socket = socket2::SockRef::from(&near);
    socket.set_send_buffer_size(1).expect("the least there is");
    far.set_read_timeout(Some(NET)).expect("a timeout");
    let too_long = vec![0; 300_000];
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        fault::script([]);
        let first = near.send_batch(&[SendMsg::new(b"one"), SendMsg::new(&too_long)]);
        assert_eq!(first.unwrap(), 1);
        assert_eq!(near.send_batch(&[SendMsg::new(b"two")]).unwrap(), 1, "{backend:?}");
        for sent in [b"one", b"two"] {
            let mut buffer = [0; 3];
            assert_eq!(far.recv(&mut buffer).expect("it was sent"), 3);
            assert_eq!(&buffer, sent);
        }
    }
}
