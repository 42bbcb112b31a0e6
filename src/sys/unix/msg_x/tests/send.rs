//! Sends by `sendmsg_x`.

use super::{arena_recv_into, calls, delivered, fake, pair, payload, send_all, socket};
use crate::sys::Direction::Send;
use crate::sys::fault::{self, Call, Fate};
use crate::{Ancillary, RecvBatch, SendMeta, SendMsg};

#[test]
fn messages_to_the_peer_go_together() {
    let (near, far) = pair();
    let payloads: Vec<_> = (0..150).map(|i| payload(i, i % 40)).collect();
    let msgs: Vec<_> = payloads.iter().map(|payload| SendMsg::new(payload)).collect();
    let _installed = fake::install(256);
    assert_eq!(send_all(&near, &msgs).unwrap(), 150);
    assert_eq!(calls(Send), [(64, Some(64)), (64, Some(64)), (22, Some(22))]);
    assert_eq!(delivered(&far), payloads);
}

#[test]
fn messages_with_a_destination_go_one_by_one() {
    let (near, far) = (socket(), socket());
    let to = far.local_addr().unwrap();
    let payloads: Vec<_> = (0..5).map(|i| payload(i, 4)).collect();
    let msgs: Vec<_> = payloads.iter().map(|payload| SendMsg::to(to, payload)).collect();
    let _installed = fake::install(256);
    assert_eq!(send_all(&near, &msgs).unwrap(), 5);
    assert_eq!((calls(Send), delivered(&far)), (vec![], payloads));
}

#[test]
fn destinations_between_messages_to_the_peer_are_kept() {
    let (near, far) = pair();
    let other = socket();
    let data: Vec<_> = (0..9).map(|i| payload(i, 4)).collect();
    let msgs: Vec<_> = data
        .iter()
        .enumerate()
        .map(|(i, data)| match i {
            3 | 7 => SendMsg::to(other.local_addr().unwrap(), data),
            _ => SendMsg::new(data),
        })
        .collect();
    let _installed = fake::install(256);
    assert_eq!(send_all(&near, &msgs).unwrap(), 9);
    assert_eq!(calls(Send), [(3, Some(3)), (3, Some(3))]);
    assert_eq!(delivered(&other), [&data[3][..], &data[7][..]]);
    assert_eq!(delivered(&far).len(), 7);
}

#[test]
fn a_call_has_messages_of_the_same_options() {
    let (near, far) = pair();
    Ancillary::HOP_LIMIT.require(&far).unwrap();
    let metas = [1, 1, 1, 2, 2, 3].map(|hops| SendMeta::new().with_hop_limit(hops));
    let msgs: Vec<_> = metas.iter().map(|meta| SendMsg::new(b"hops").with_meta(meta)).collect();
    let _installed = fake::install(256);
    assert_eq!(send_all(&near, &msgs).unwrap(), 6);
    assert_eq!(calls(Send), [(3, Some(3)), (2, Some(2))]);
    let mut batch = RecvBatch::new(8, 100);
    assert_eq!(arena_recv_into(&mut batch, &far), 6);
    let hops: Vec<_> = batch.iter().map(|datagram| datagram.meta().hop_limit.unwrap()).collect();
    assert_eq!(hops, [1, 1, 1, 2, 2, 3]);
}

#[test]
fn a_partial_send_goes_on_one_by_one() {
    for count in 1..5 {
        let (near, far) = pair();
        let payloads: Vec<_> = (0..5).map(|i| payload(i, 4)).collect();
        let msgs: Vec<_> = payloads.iter().map(|payload| SendMsg::new(payload)).collect();
        let _installed = fake::install(256);
        // The kernel drops the error that ended the call. The message meets it again, or is sent.
        fault::script([(Call::SendMmsg, Fate::AtMost(count))]);
        assert_eq!(send_all(&near, &msgs).unwrap(), 5);
        assert_eq!(delivered(&far), payloads);
        fault::script([
            (Call::SendMmsg, Fate::AtMost(count)),
            (Call::SendMsg, Fate::Fail(libc::ENOBUFS)),
        ]);
        assert_eq!(send_all(&near, &msgs).unwrap(), count);
        assert_eq!(fault::finish().len(), 2);
        assert_eq!(delivered(&far), payloads[..count]);
    }
}

#[test]
fn an_error_of_a_send_is_the_first_message_s() {
    let msgs: Vec<_> = (0..150).map(|_| SendMsg::new(b"some")).collect();
    let _installed = fake::install(256);
    for errno in [libc::EMSGSIZE, libc::EAGAIN, libc::EPIPE, libc::ECONNREFUSED] {
        let (near, far) = pair();
        fault::script([(Call::SendMmsg, Fate::Fail(errno))]);
        let error = send_all(&near, &msgs).unwrap_err();
        assert_eq!((error.raw_os_error(), delivered(&far).len()), (Some(errno), 0));
        // In the second call.
        fault::script([(Call::SendMmsg, Fate::Kernel), (Call::SendMmsg, Fate::Fail(errno))]);
        assert_eq!((send_all(&near, &msgs).unwrap(), delivered(&far).len()), (64, 64));
        assert_eq!(fault::finish().len(), 2);
        // The message that another error was about meets it again.
        let next = send_all(&near, &msgs).map_err(|error| error.raw_os_error());
        let is_reported_once = errno == libc::ECONNREFUSED;
        assert_eq!(next, if is_reported_once { Err(Some(errno)) } else { Ok(150) });
    }
}

#[test]
fn a_tos_that_the_kernel_rejects_is_left_out() {
    let (near, far) = pair();
    let msgs: Vec<_> = (0..3).map(|_| SendMsg::new(b"some").with_ecn(crate::Ecn::Ect0)).collect();
    let _installed = fake::install(256);
    fault::script([
        (Call::SendMmsg, Fate::Fail(libc::EINVAL)),
        (Call::SendMsg, Fate::Fail(libc::EINVAL)),
    ]);
    assert_eq!((send_all(&near, &msgs).unwrap(), delivered(&far).len()), (3, 3));
    fault::finish();
}
