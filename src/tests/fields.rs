//! Each type of message sets its whole header, as the received datagrams show.
//!
//! All messages use the thread's arena, so a field that a message does not set would show the message before it.

use std::io::IoSlice;

use socket2::SockRef;

use super::*;
use crate::control::ControlBuf;

/// A received datagram: payload, source, and type of service.
type Came = (Vec<u8>, Option<SocketAddr>, Option<u8>);

fn came(socket: &UdpSocket) -> Came {
    let mut batch = RecvBatch::new(1, 64);
    socket.recv_into(&mut batch).unwrap();
    let message = batch.message(0).expect("one came");
    let mut messages = message.control_messages();
    let tos = messages.find(|m| (m.level, m.ty) == (libc::IPPROTO_IP, libc::IP_TOS));
    let tos = tos.and_then(|tos| tos.data.first().copied());
    (message.data().to_vec(), message.addr(), tos)
}

#[test]
fn each_type_of_message_sets_its_whole_header() {
    let (near, far, other) = (socket(), socket(), socket());
    SockRef::from(&far).set_recv_tos_v4(true).unwrap();
    SockRef::from(&other).set_recv_tos_v4(true).unwrap();
    near.connect(addr(&far)).unwrap();
    let mut marked = ControlBuf::new();
    marked.push(libc::IPPROTO_IP, libc::IP_TOS, &0x28i32.to_ne_bytes()).expect("an int fits");
    let parts = [IoSlice::new(b"ga"), IoSlice::new(b""), IoSlice::new(b"ther")];
    let none: [IoSlice<'_>; 0] = [];
    // Each message follows one with fields that it lacks. Without a destination they go to `far`, the peer of `near`.
    let msgs = [
        SendMsg::gather(&parts).with_dest(addr(&other)).with_control(&marked),
        SendMsg::new(b"plain"),
        SendMsg::to(addr(&other), b"there"),
        SendMsg::gather(&parts),
        SendMsg::new(b"").with_control(&marked),
        SendMsg::gather(&none),
        SendMsg::new(b"marked").with_control(&marked),
        SendMsg::to(addr(&other), b"").with_control(&marked),
        SendMsg::to(addr(&far), b"back"),
    ];
    let from = Some(addr(&near));
    for backend in BACKENDS {
        choose(backend);
        // Forwards, backwards and forwards, so that headers are reused for other types.
        for turn in 0..3 {
            let mut order: Vec<_> = msgs.to_vec();
            let mut at_far: Vec<Came> = vec![
                (b"plain".to_vec(), from, Some(0)),
                (b"gather".to_vec(), from, Some(0)),
                (b"".to_vec(), from, Some(0x28)),
                (b"".to_vec(), from, Some(0)),
                (b"marked".to_vec(), from, Some(0x28)),
                (b"back".to_vec(), from, Some(0)),
            ];
            let mut at_other: Vec<Came> = vec![
                (b"gather".to_vec(), from, Some(0x28)),
                (b"there".to_vec(), from, Some(0)),
                (b"".to_vec(), from, Some(0x28)),
            ];
            if turn == 1 {
                order.reverse();
                at_far.reverse();
                at_other.reverse();
            }
            assert_eq!(near.send_batch(&order).unwrap(), msgs.len(), "{backend:?}");
            for expected in at_far {
                assert_eq!(came(&far), expected, "{backend:?}");
            }
            for expected in at_other {
                assert_eq!(came(&other), expected, "{backend:?}");
            }
        }
    }
}
