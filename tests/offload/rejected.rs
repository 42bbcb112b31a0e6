//! A GSO batch that the kernel rejects is sent as single datagrams in the same call. Some errors also turn GSO off.
//!
//! A seccomp filter rejects `sendmsg`, which sends a call's only GSO batch, but not `sendmmsg`, which then sends its
//! datagrams.

use std::net::UdpSocket;
use std::thread;

use crate::common::skip;
use crate::common::sockets::{addr, udp4};
use crate::seccomp::{SENDMMSG_IS_A_LOOP, SENDMSG, deny};
use mmsg::offload::GsoStatus;
use mmsg::{Ancillary, Backend, BatchSocket, Offload, SendMsg};

/// Runs a test on a thread whose GSO batches are rejected. The filter ends with the thread.
fn where_batches_fail(errno: i32, test: impl FnOnce(&Offload<UdpSocket>) + Send) {
    if SENDMMSG_IS_A_LOOP || Backend::current() == Backend::Msg {
        return skip("datagrams would go by sendmsg, too: the filter rejects both");
    }
    let near = Offload::new(udp4()).expect("a UDP socket");
    if !near.state().gso() {
        return skip("no GSO on this kernel");
    }
    let denied = || deny(&[SENDMSG], errno).map(|()| test(&near));
    if let Err(error) = thread::scope(|scope| scope.spawn(denied).join().expect("the test passes"))
    {
        skip(error);
    }
}

/// With the error queue on, too, where the error may come from ICMP ("source route failed"): the batch was offered twice.
#[test]
fn a_batch_that_the_route_cannot_segment_turns_gso_off() {
    where_batches_fail(libc::EOPNOTSUPP, |near| {
        Ancillary::ERRORS.require(near).expect("Linux has it");
        let far = udp4();
        let msgs = [SendMsg::to(addr(&far), b"data"); 3];
        assert_eq!(near.send_batch(&msgs).expect("its datagrams pass"), 3);
        assert_eq!(
            (near.state().gso_status(), near.state().counters().rejected_unsupported),
            (GsoStatus::Rejected, 1)
        );
    });
}

/// If the single datagrams fail too, the error says nothing about GSO.
#[test]
fn an_error_of_the_datagrams_themselves_leaves_gso_on() {
    where_batches_fail(libc::EIO, |near| {
        let port_0 = SendMsg::to(([127, 0, 0, 1], 0).into(), b"data");
        let error = near.send_batch(&[port_0; 3]).expect_err("port 0 is invalid");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert_eq!(
            (near.state().gso_status(), near.state().counters().rejected_unsupported),
            (GsoStatus::On, 0)
        );
    });
}
