//! Constant options as socket options, varying ones as control messages.

use mmsg::{Ancillary, BatchSocket, Ecn, RecvBatch, SendMsg};
use socket2::SockRef;

use crate::common::skip;
use crate::common::sockets::{addr, connected};

/// The socket option applies to every message, and a message's own bits override it.
#[test]
fn constant_ecn_needs_no_control_message() {
    let (from, to) = connected();
    if let Err(error) = Ancillary::TOS.require(&to) {
        return skip(error);
    }
    SockRef::from(&from).set_tos_v4(46 << 2 | Ecn::Ect0 as u32).expect("a UDP socket");
    let plain = SendMsg::new(b"plain");
    let own = plain.with_ecn(Ecn::Ce);
    assert_eq!(from.send_batch(&[plain, own, plain]).expect("loopback"), 3);
    let (mut batch, mut received) = (RecvBatch::new(4, 16), Vec::new());
    while received.len() < 3 {
        to.recv_into(&mut batch).expect("it was sent");
        assert!(batch.iter().all(|datagram| datagram.addr() == Some(addr(&from))));
        received.extend(batch.iter().map(|datagram| datagram.meta().tos));
    }
    assert_eq!(received, [Some(186), Some(3), Some(186)]);
}
