//! A GSO batch that the kernel rejects is sent as single datagrams in the same call. Some errors also turn GSO off.
//!
//! A seccomp filter rejects `sendmsg`, which sends a call's only GSO batch, but not `sendmmsg`, which then sends its
//! datagrams.

use std::net::UdpSocket;
use std::thread;

use crate::common::recv::payloads;
use crate::common::sockets::{addr, udp4};
use crate::common::{numbered, skip};
use crate::seccomp::{SENDMMSG_IS_A_LOOP, SENDMSG, deny};
use mmsg::offload::GsoStatus;
use mmsg::{Ancillary, Backend, BatchSocket, Offload, SendMsg};

/// Runs a test on a thread whose GSO batches are rejected. The filter ends with the thread.
fn where_batches_fail(name: &str, errno: i32, test: impl FnOnce(&Offload<UdpSocket>) + Send) {
    if SENDMMSG_IS_A_LOOP || Backend::current() == Backend::Msg {
        return skip(name, "datagrams would go by sendmsg, too: the filter rejects both");
    }
    let near = Offload::new(udp4()).expect("a UDP socket");
    if !near.gso() {
        return skip(name, "no GSO on this kernel");
    }
    let denied = || match deny(&[SENDMSG], errno) {
        Ok(()) => test(&near),
        Err(error) => skip(name, error),
    };
    thread::scope(|scope| scope.spawn(denied).join().expect("the test passes"));
}

#[test]
fn a_rejected_batch_is_sent_as_datagrams_in_the_same_call() {
    let name = "a_rejected_batch_is_sent_as_datagrams_in_the_same_call";
    use GsoStatus::{On, Rejected};
    // The error, the status after it, and the two counters of rejections after the first and the second call.
    let cases = [
        (libc::EIO, Rejected, [(1, 0), (1, 0)]),
        (libc::EOPNOTSUPP, Rejected, [(1, 0), (1, 0)]),
        (libc::EMSGSIZE, On, [(0, 1), (0, 2)]),
        (libc::EINVAL, On, [(0, 1), (0, 2)]),
        (libc::EPERM, On, [(0, 0), (0, 0)]),
        (libc::ENOBUFS, On, [(0, 0), (0, 0)]),
        (libc::ENETUNREACH, On, [(0, 0), (0, 0)]),
    ];
    for (errno, status, counts) in cases {
        where_batches_fail(name, errno, |near| {
            // Each call has a new destination, but GSO that is off is off for the whole socket.
            for counts in counts {
                let far = udp4();
                let data = numbered(40, 100);
                let to = addr(&far);
                let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(to, data)).collect();
                assert_eq!(near.send_batch(&msgs).expect("its datagrams pass"), 40, "{errno}");
                assert_eq!(payloads(&far, 40), data);
                let counted = near.counters();
                assert_eq!(
                    (counted.rejected_unsupported, counted.rejected_size),
                    counts,
                    "{errno}"
                );
                assert_eq!((counted.sent_batches, near.gso_status()), (0, status), "{errno}");
            }
        });
    }
}

/// With the error queue on, `EOPNOTSUPP` may come from ICMP ("source route failed").
#[test]
fn an_error_that_may_be_about_another_datagram_leaves_gso_on() {
    let name = "an_error_that_may_be_about_another_datagram_leaves_gso_on";
    where_batches_fail(name, libc::EOPNOTSUPP, |near| {
        Ancillary::ERRORS.require(near).expect("Linux has it");
        let far = udp4();
        let msgs = [SendMsg::to(addr(&far), b"data"); 3];
        assert_eq!(near.send_batch(&msgs).expect("its datagrams pass"), 3);
        assert_eq!((near.gso_status(), near.counters().rejected_unsupported), (GsoStatus::On, 0));
    });
}

/// If the single datagrams fail too, the error says nothing about GSO.
#[test]
fn an_error_of_the_datagrams_themselves_leaves_gso_on() {
    let name = "an_error_of_the_datagrams_themselves_leaves_gso_on";
    where_batches_fail(name, libc::EIO, |near| {
        let port_0 = SendMsg::to(([127, 0, 0, 1], 0).into(), b"data");
        let error = near.send_batch(&[port_0; 3]).expect_err("port 0 is invalid");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert_eq!((near.gso_status(), near.counters().rejected_unsupported), (GsoStatus::On, 0));
    });
}

/// These errors are about the socket, not the batch.
#[test]
fn a_batch_that_meets_a_full_socket_or_an_earlier_error_is_not_rejected() {
    let name = "a_batch_that_meets_a_full_socket_or_an_earlier_error_is_not_rejected";
    for errno in [libc::EAGAIN, libc::ECONNREFUSED] {
        where_batches_fail(name, errno, |near| {
            let msgs = [SendMsg::to(addr(near.get_ref()), b"data"); 3];
            let error = near.send_batch(&msgs).expect_err("nothing was taken");
            assert_eq!(error.raw_os_error(), Some(errno));
            let counted = near.counters();
            assert_eq!((counted.sent, counted.rejected_size), (0, 0));
            assert!(near.gso());
        });
    }
}
