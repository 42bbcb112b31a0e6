//! Receives that end early, are interrupted, or meet an error.

#[cfg(has_descriptors)]
use std::io::Write;
#[cfg(has_descriptors)]
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

use super::*;

/// The fates by which a receive of up to `capacity` of more waiting messages ends after `k` of them.
fn stopped_recv(backend: Backend, capacity: usize, k: usize, errno: i32) -> Vec<(Call, Fate)> {
    match recv_call(backend, capacity) {
        Call::RecvMmsg => vec![(Call::RecvMmsg, Fate::AtMost(k))],
        call => {
            let mut fates = vec![(call, Fate::Kernel); k];
            fates.extend((k < capacity).then_some((call, Fate::Fail(errno))));
            fates
        }
    }
}

/// What ended a receive after messages is not stored: the next one is as the first.
#[cfg(has_descriptors)]
#[test]
fn any_count_leaves_the_rest_in_order() {
    let wire = Wire::new();
    for (backend, code) in BACKENDS
        .into_iter()
        .flat_map(|b| [(b, errno::EAGAIN), (b, errno::ENOMEM), (b, errno::EINTR)])
    {
        for way in Receiving::each(backend) {
            for k in 1..=5 {
                wire.fill(0..5);
                fault::script(stopped_recv(backend, 5, k, code));
                let first = way.recv(&wire.far, 5).unwrap();
                assert_eq!(first, (0..k as u32).collect::<Vec<_>>(), "{backend:?} {way:?}");
                fault::finish();
                if k < 5 {
                    assert_eq!(way.recv(&wire.far, 5).unwrap(), (k as u32..5).collect::<Vec<_>>());
                }
            }
        }
    }
    assert!(wire.delivered().is_empty());
}

#[cfg(has_descriptors)]
#[test]
fn d9_an_interrupted_call_is_made_again_unless_the_socket_has_a_timeout() {
    let wire = Wire::new();
    for backend in BACKENDS {
        for way in Receiving::each(backend) {
            let call = recv_call(backend, 3);
            wire.fill(0..3);
            wire.far.set_read_timeout(Some(NET)).unwrap();
            fault::script([(call, Fate::Fail(errno::EINTR))]);
            let error = way.recv(&wire.far, 3).unwrap_err();
            assert_eq!((error.kind(), calls().len()), (io::ErrorKind::Interrupted, 1));

            wire.far.set_read_timeout(None).unwrap();
            fault::script([(call, Fate::Fail(errno::EINTR)); 3]);
            assert_eq!(way.recv(&wire.far, 3).unwrap(), [0, 1, 2]);
            let made = calls();
            assert!(made[..4].iter().all(|(made, _)| *made == call), "{made:?}");
        }
    }
}

#[cfg(has_descriptors)]
#[test]
fn r10_an_error_before_any_message_is_returned_once_and_loses_none() {
    let wire = Wire::new();
    // Windows has no other error for any datagram's ICMP error, and a receive passes over it.
    let refused = cfg!(mmsg_calls).then_some(errno::ECONNREFUSED);
    let codes = PLAIN.into_iter().chain([errno::EAGAIN, errno::EPERM]).chain(refused);
    for (backend, code) in codes.flat_map(|code| BACKENDS.map(|backend| (backend, code))) {
        for way in Receiving::each(backend) {
            wire.fill(0..3);
            fault::script([(recv_call(backend, 4), Fate::Fail(code))]);
            assert_eq!(errno(way.recv(&wire.far, 4)), code, "{backend:?} {way:?}");
            fault::finish();
            assert_eq!(way.recv(&wire.far, 4).unwrap(), [0, 1, 2], "{code} is not deferred");
        }
    }
}

/// Only the first message is waited for. The channel shows a call that does not return.
#[cfg(has_descriptors)]
#[test]
fn r1_a_blocking_receive_waits_for_no_more_than_one_message() {
    for backend in BACKENDS {
        for count in [1, 2, 17] {
            for way in Receiving::each(backend) {
                let wire = Wire::new();
                wire.far.set_read_timeout(None).unwrap();
                wire.fill(0..count);
                let (done, result) = mpsc::channel();
                thread::spawn(move || {
                    // The choice is the thread's own in unit tests.
                    way.choose(backend);
                    let _ = done.send(way.recv(&wire.far, 64).unwrap());
                });
                let received = result.recv_timeout(NET).expect("it does not wait for more");
                assert_eq!(received, (0..count).collect::<Vec<_>>(), "{backend:?} {way:?}");
            }
        }
    }
}

#[cfg(has_descriptors)]
#[test]
fn d1_a_call_takes_1024_messages_and_the_next_one_goes_on() {
    const MOST: u32 = 1024;
    for (backend, way) in BACKENDS.into_iter().flat_map(|b| Receiving::all(b).map(|way| (b, way))) {
        way.choose(backend);
        // A stream gives as many messages as are asked for, without as much kernel memory.
        let (mut near, far) = UnixStream::pair().expect("a pair");
        near.write_all(&numbers(0..1100).concat()).expect("some 4 KiB fit");
        fault::script([]);
        let received = way.recv(&far, 1200).unwrap();
        assert_eq!(received, (0..MOST).collect::<Vec<_>>(), "{backend:?} {way:?}");
        if backend == Backend::Mmsg {
            assert_eq!(calls(), [(Call::RecvMmsg, MOST as usize)]);
        }
        assert_eq!(way.recv(&far, 1200).unwrap(), (MOST..1100).collect::<Vec<_>>());
    }
}

/// The scripted backend fails the test by itself if it is offered nothing.
#[cfg(has_descriptors)]
#[test]
fn d24_no_system_call_is_made_for_no_messages() {
    for backend in BACKENDS {
        for way in Receiving::each(backend).filter(|way| *way != Receiving::Into) {
            let wire = Wire::new();
            wire.fill(0..2);
            fault::script([]);
            assert!(way.recv(&wire.far, 0).unwrap().is_empty());
            assert!(calls().is_empty());
            assert_eq!(way.recv(&wire.far, 2).unwrap(), [0, 1]);
        }
        fault::script([]);
        assert_eq!(socket().send_batch(&[]).unwrap(), 0);
        assert_eq!(socket().flush(&mut SendQueue::new(10)).unwrap(), 0);
        assert!(calls().is_empty());
    }
}

/// Endless errors of other datagrams: a call that does not wait still ends, and one that waits goes on waiting.
#[cfg(mmsg_calls)]
#[test]
fn d34_a_call_that_meets_only_unrelated_errors_ends() {
    for (backend, blocking) in BACKENDS.into_iter().flat_map(|b| [(b, true), (b, false)]) {
        for way in Receiving::each(backend) {
            let wire = Wire::new();
            wire.far.set_read_timeout(None).unwrap();
            wire.far.set_nonblocking(!blocking).unwrap();
            let errors = crate::Ancillary::ERRORS;
            if errors.enable(&wire.far).unwrap() != errors {
                return;
            }
            wire.fill(0..3);
            let refused = (recv_call(backend, 4), Fate::Fail(errno::ECONNREFUSED));
            fault::script([refused; 20]);
            assert_eq!(way.recv(&wire.far, 4).unwrap(), [0, 1, 2], "{backend:?} {way:?}");
            fault::finish();
            fault::script(std::iter::repeat_n(refused, 5_000));
            if blocking {
                wire.fill(0..3);
                assert_eq!(way.recv(&wire.far, 4).unwrap(), [0, 1, 2], "{backend:?} {way:?}");
            } else {
                let error = way.recv(&wire.far, 4).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::Interrupted);
                let made = fault::log().len();
                assert!(made < 2_000, "{made} calls");
            }
            fault::script([]);
        }
    }
}

/// The kernel would begin the timeout anew: so the second try does not wait, and what is left is the caller's to wait for.
#[cfg(mmsg_calls)]
#[test]
fn e1_after_an_unrelated_error_a_socket_with_a_timeout_does_not_wait() {
    for backend in BACKENDS {
        for way in Receiving::each(backend) {
            let wire = Wire::new();
            if crate::Ancillary::ERRORS.require(&wire.far).is_err() {
                return;
            }
            let refused = (recv_call(backend, 4), Fate::Fail(errno::ECONNREFUSED));
            fault::script([refused]);
            let error = way.recv(&wire.far, 4).unwrap_err();
            assert_eq!((error.kind(), fault::finish().len()), (io::ErrorKind::Interrupted, 2));
            wire.fill(0..2);
            fault::script([refused]);
            assert_eq!(way.recv(&wire.far, 4).unwrap(), [0, 1]);
            fault::finish();
        }
    }
}

#[cfg(linux_like)]
#[test]
fn a_read_of_the_error_queue_returns_its_own_error() {
    let socket = socket();
    for (backend, len) in BACKENDS.into_iter().flat_map(|backend| [(backend, 1), (backend, 8)]) {
        backend.make_process_default().unwrap();
        fault::script([(recv_call(backend, len), Fate::Fail(errno::ENOMEM))]);
        let mut reports = [crate::error_queue::Report::EMPTY; 8];
        let drained = crate::error_queue::drain_errors(&socket, &mut reports[..len]);
        assert_eq!(errno(drained), errno::ENOMEM, "{backend:?} {len}");
        fault::finish();
    }
}
