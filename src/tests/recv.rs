//! Receives that end early, are interrupted, or meet an error.

use super::*;

#[cfg(has_descriptors)]
#[test]
fn an_interrupted_call_is_made_again_unless_the_socket_has_a_timeout() {
    let loopback = Loopback::new();
    for backend in BACKENDS {
        for way in Receiving::each(backend) {
            let call = recv_call(backend, 3);
            loopback.fill(0..3);
            loopback.far.set_read_timeout(Some(TIMEOUT)).unwrap();
            fault::script([(call, Fate::Fail(errno::EINTR))]);
            let error = way.recv(&loopback.far, 3).unwrap_err();
            assert_eq!((error.kind(), calls().len()), (io::ErrorKind::Interrupted, 1));

            loopback.far.set_read_timeout(None).unwrap();
            fault::script([(call, Fate::Fail(errno::EINTR)); 3]);
            assert_eq!(way.recv(&loopback.far, 3).unwrap(), [0, 1, 2]);
            let made = calls();
            assert!(made[..4].iter().all(|(made, _)| *made == call), "{made:?}");
        }
    }
}

/// The scripted backend panics on a call without messages.
#[cfg(has_descriptors)]
#[test]
fn no_system_call_is_made_for_no_messages() {
    for backend in BACKENDS {
        for way in Receiving::each(backend).filter(|way| *way != Receiving::Into) {
            let loopback = Loopback::new();
            loopback.fill(0..2);
            fault::script([]);
            assert!(way.recv(&loopback.far, 0).unwrap().is_empty());
            assert!(calls().is_empty());
            assert_eq!(way.recv(&loopback.far, 2).unwrap(), [0, 1]);
        }
        fault::script([]);
        assert_eq!(socket().send_batch(&[]).unwrap(), 0);
        assert_eq!(socket().flush(&mut SendQueue::new(10)).unwrap(), 0);
        assert!(calls().is_empty());
    }
}

/// After an error the batch still holds its earlier messages. A signal does not end the call.
#[cfg(has_descriptors)]
#[test]
fn an_error_or_a_signal_before_the_deadline_loses_nothing() {
    let past = std::time::Instant::now();
    for backend in BACKENDS {
        choose(backend);
        let (loopback, mut batch) = (Loopback::new(), RecvBatch::new(8, 4));
        let numbers =
            |batch: &RecvBatch| batch.iter().map(|d| number(d.data())).collect::<Vec<_>>();
        loopback.fill(0..2);
        loopback.far.recv_into(&mut batch).unwrap();
        loopback.fill(2..5);
        fault::script([
            (recv_call(backend, 8), Fate::Fail(errno::EINTR)),
            (recv_call(backend, 8), Fate::Kernel),
        ]);
        assert_eq!(loopback.far.recv_more_until(&mut batch, past).unwrap(), 3);
        assert_eq!(numbers(&batch), [0, 1, 2, 3, 4]);
        loopback.fill(5..6);
        fault::script([(recv_call(backend, 8), Fate::Fail(errno::ENOMEM))]);
        let error = loopback.far.recv_more_until(&mut batch, past).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(errno::ENOMEM));
        assert_eq!(numbers(&batch), [0, 1, 2, 3, 4]);
        fault::script([]);
        assert_eq!(loopback.far.recv_more_until(&mut batch, past).unwrap(), 1);
        assert_eq!(numbers(&batch), [0, 1, 2, 3, 4, 5]);
    }
}

/// The error may be about another datagram, whose report is in the error queue.
#[cfg(mmsg_calls)]
#[test]
fn a_receive_rides_out_16_icmp_errors_and_returns_the_next() {
    let cases = BACKENDS.into_iter().flat_map(|b| [(b, true), (b, false)]);
    for ((backend, blocking), code) in cases.flat_map(|case| ICMP.map(|code| (case, code))) {
        for way in Receiving::each(backend) {
            let loopback = Loopback::new();
            loopback.far.set_read_timeout(None).unwrap();
            loopback.far.set_nonblocking(!blocking).unwrap();
            if crate::Ancillary::ERRORS.require(&loopback.far).is_err() {
                return;
            }
            loopback.fill(0..3);
            let failed = (recv_call(backend, 4), Fate::Fail(code));
            fault::script([failed; 16]);
            let what = format!("{backend:?} {way:?} {code}");
            assert_eq!(way.recv(&loopback.far, 4).unwrap(), [0, 1, 2], "{what}");
            fault::finish();
            fault::script([failed; 20]);
            assert_eq!(errno(way.recv(&loopback.far, 4)), code, "{what}");
            assert_eq!(fault::log().len(), 17, "{what}");
            fault::script([failed; 20]);
            let mut batch = RecvBatch::new(4, 4);
            let deadline = std::time::Instant::now() + TIMEOUT;
            assert_eq!(errno(loopback.far.recv_more_until(&mut batch, deadline)), code, "{what}");
            fault::script([]);
        }
    }
}

/// Another wait would restart the timeout. So the second try does not wait, and the caller gets the error.
#[cfg(mmsg_calls)]
#[test]
fn after_an_unrelated_error_a_socket_with_a_timeout_does_not_wait() {
    for backend in BACKENDS {
        for way in Receiving::each(backend) {
            let loopback = Loopback::new();
            if crate::Ancillary::ERRORS.require(&loopback.far).is_err() {
                return;
            }
            let refused = (recv_call(backend, 4), Fate::Fail(errno::ECONNREFUSED));
            fault::script([refused]);
            assert_eq!(errno(way.recv(&loopback.far, 4)), errno::ECONNREFUSED);
            assert_eq!(fault::finish().len(), 2);
            loopback.fill(0..2);
            fault::script([refused]);
            assert_eq!(way.recv(&loopback.far, 4).unwrap(), [0, 1]);
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
    // The eight reports read before an error are not lost.
    if crate::Ancillary::SEND_TIMESTAMP.require(&socket).is_err() {
        return;
    }
    (0..8).for_each(|_| assert_eq!(socket.send_to(b"sent", addr(&socket)).unwrap(), 4));
    Backend::Mmsg.make_process_default().unwrap();
    let fates = [Fate::Kernel, Fate::Fail(errno::ENOMEM)];
    fault::script(fates.map(|fate| (Call::RecvMmsg, fate)));
    let mut reports = [crate::error_queue::Report::EMPTY; 16];
    assert_eq!(crate::error_queue::drain_errors(&socket, &mut reports).unwrap(), 8);
    fault::finish();
}

/// A short count that a script or another error made does not mean that nothing is left.
#[cfg(linux_like)]
#[test]
fn a_receive_says_whether_its_last_system_call_drained_the_socket() {
    use crate::sys::{Flags, borrow};

    let error = Fate::Fail(errno::ENOMEM);
    let (some, one_left) = ((Call::RecvMmsg, Fate::AtMost(2)), (Call::RecvMsg, Fate::Kernel));
    for (backend, slots, fates, expected) in [
        (Backend::Mmsg, 3, vec![], (3, false)),
        (Backend::Mmsg, 4, vec![], (3, true)),
        (Backend::Mmsg, 4, vec![some], (2, false)),
        (Backend::Msg, 3, vec![], (3, false)),
        (Backend::Msg, 4, vec![], (3, true)),
        (Backend::Msg, 4, vec![one_left, one_left, (Call::RecvMsg, error)], (2, false)),
        (Backend::Mmsg, 4, vec![(Call::RecvMmsg, Fate::Fail(errno::EINTR))], (3, true)),
    ] {
        let loopback = Loopback::new();
        loopback.far.set_read_timeout(None).unwrap();
        choose(backend);
        loopback.fill(0..3);
        fault::script(fates);
        let mut batch = RecvBatch::new(slots, 4);
        let count = batch.recv(borrow(&loopback.far), Flags::NONE).unwrap();
        assert_eq!((count, batch.drained()), expected);
        fault::finish();
    }
}

/// Other kernels than Linux return at once from such a receive, with what a shutdown looks like.
#[cfg(has_descriptors)]
#[test]
fn a_receive_without_space_waits_for_a_message() {
    fault::set_other_unix(true);
    for backend in BACKENDS {
        backend.make_process_default().expect("the platform has it");
        let (near, timeout) = (socket(), Duration::from_millis(20));
        let receive =
            || near.recv_batch(&mut [RecvMsg::scatter(&mut []), RecvMsg::new(&mut [0; 4])]);
        let finds_nothing = || {
            fault::script([]);
            assert_eq!(receive().expect_err("nothing is there").kind(), io::ErrorKind::WouldBlock);
            // A call would return at once.
            assert_eq!(fault::log(), []);
        };
        near.set_read_timeout(Some(timeout)).expect("a timeout");
        let start = std::time::Instant::now();
        finds_nothing();
        assert!(start.elapsed() >= timeout);
        near.set_nonblocking(true).expect("an open socket");
        finds_nothing();
        near.set_nonblocking(false).expect("an open socket");
        near.set_read_timeout(None).expect("no timeout");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(timeout);
                near.send_to(b"late", addr(&near)).expect("loopback takes it");
            });
            assert_eq!(receive().expect("it arrives"), 1);
        });
    }
    fault::set_other_unix(false);
}
