//! Receives that end early, are interrupted, or meet an error.

#[cfg(has_descriptors)]
use std::io::Write;
#[cfg(has_descriptors)]
use std::os::fd::AsFd;
#[cfg(has_descriptors)]
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

use super::*;

/// What a growing receive wires first; with more waiting, it receives again.
const FIRST_STEP: u32 = 16;

/// An error that only `Ancillary::ERRORS` makes one about other datagrams.
const UNREACHABLE: Fate = Fate::Fail(errno::EHOSTUNREACH);

#[test]
fn any_count_leaves_the_rest_in_order() {
    let wire = Wire::new();
    for backend in BACKENDS {
        for way in Receiving::each(backend) {
            for k in 1..=5 {
                wire.fill(0..5);
                match recv_call(backend, 5) {
                    Call::RecvMmsg => fault::script([(Call::RecvMmsg, Fate::AtMost(k))]),
                    call => fault::script(
                        vec![(call, Fate::Kernel); k]
                            .into_iter()
                            .chain((k < 5).then_some((call, Fate::Fail(errno::EAGAIN)))),
                    ),
                }
                let first = way.recv(&wire.far, 5).unwrap();
                assert_eq!(first, (0..k as u32).collect::<Vec<_>>(), "{backend:?} {way:?}");
                calls();
                if k < 5 {
                    assert_eq!(way.recv(&wire.far, 5).unwrap(), (k as u32..5).collect::<Vec<_>>());
                }
            }
        }
    }
    assert!(wire.delivered().is_empty());
}

#[test]
fn an_interrupted_call_is_made_again_however_often() {
    let wire = Wire::new();
    for backend in BACKENDS {
        for way in Receiving::each(backend) {
            let call = recv_call(backend, 3);
            wire.fill(0..3);
            fault::script([(call, Fate::Fail(errno::EINTR)); 3]);
            assert_eq!(way.recv(&wire.far, 3).unwrap(), [0, 1, 2]);
            let made = calls();
            assert!(made[..4].iter().all(|(made, _)| *made == call), "{made:?}");
        }
    }
    // Between two single-message calls of a batch.
    wire.fill(0..2);
    let (kernel, again) =
        ((Call::RecvMsg, Fate::Kernel), (Call::RecvMsg, Fate::Fail(errno::EINTR)));
    fault::script([kernel, again, again, kernel]);
    assert_eq!(Receiving::Arena(Backend::Msg).recv(&wire.far, 2).unwrap(), [0, 1]);
    assert_eq!(calls(), [(Call::RecvMsg, 1); 4]);
}

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

/// Receives `first` from the full socket in a call that meets `code` after them, and checks that
/// only the next receive on that socket returns it, once.
fn only_the_next_receive_returns(
    wire: &Wire,
    mut recv: impl FnMut() -> io::Result<Vec<u32>>,
    first: u32,
    code: i32,
) {
    assert_eq!(recv().unwrap(), (0..first).collect::<Vec<_>>());
    fault::finish();

    // Another socket, though it receives.
    wire.marker.send_to(&9u32.to_be_bytes(), addr(&wire.marker)).unwrap();
    assert_eq!(Receiving::Batch.recv(&wire.marker, 2).unwrap(), [9]);
    // This socket, but the other direction.
    let data = numbers(7..9);
    let dest = addr(&wire.near);
    let msgs: Vec<_> = data.iter().map(|number| SendMsg::to(dest, number)).collect();
    assert_eq!(wire.far.send_batch(&msgs).unwrap(), 2);
    // No messages, no error.
    assert_eq!(wire.far.recv_batch(&mut []).unwrap(), 0);

    fault::script([]);
    assert_eq!(errno(recv()), code);
    assert_eq!(calls(), [], "it is known without a system call");
}

#[cfg(mmsg_calls)]
#[test]
fn r11_the_next_receive_returns_an_error_of_the_second_step() {
    let codes = PLAIN.into_iter().chain([errno::ECONNREFUSED, errno::EPERM]);
    for code in codes {
        // A receive into a `RecvBatch` has all its headers in place and does not grow.
        for way in Receiving::each(Backend::Mmsg).filter(|way| *way != Receiving::Into) {
            // A fresh arena begins with the least step.
            crate::clear_pool();
            let wire = Wire::new();
            wire.fill(0..FIRST_STEP + 4);
            fault::script([(Call::RecvMmsg, Fate::Kernel), (Call::RecvMmsg, Fate::Fail(code))]);
            let recv = || way.recv(&wire.far, 32);
            only_the_next_receive_returns(&wire, recv, FIRST_STEP, code);
            assert_eq!(way.recv(&wire.far, 32).unwrap(), [16, 17, 18, 19]);
        }
    }
}

#[test]
fn r11_the_next_receive_returns_an_error_after_k_single_receives() {
    for way in Receiving::each(Backend::Msg) {
        for k in 1..4 {
            let wire = Wire::new();
            wire.fill(0..4);
            let mut fates = vec![(Call::RecvMsg, Fate::Kernel); k];
            fates.push((Call::RecvMsg, UNREACHABLE));
            fault::script(fates);
            let recv = || way.recv(&wire.far, 6);
            only_the_next_receive_returns(&wire, recv, k as u32, errno::EHOSTUNREACH);
            assert_eq!(way.recv(&wire.far, 6).unwrap(), (k as u32..4).collect::<Vec<_>>());
        }
    }
}

#[cfg(has_descriptors)]
#[test]
fn r11_the_next_receive_returns_an_error_of_the_second_thousand() {
    const MOST: usize = 1024;
    Backend::Mmsg.make_process_default().unwrap();
    // A stream gives as many messages as are asked for, without as much kernel memory.
    let (mut near, far) = UnixStream::pair().expect("a pair");
    near.write_all(&numbers(0..1100).concat()).expect("some 4 KiB fit");
    let mut batch = RecvBatch::new(1200, size_of::<Number>());
    let mut recv = || {
        let result = far.as_fd().recv_into(&mut batch);
        assert_eq!(batch.message_count(), *result.as_ref().unwrap_or(&0));
        result.map(|_| batch.iter().map(|datagram| number(datagram.data())).collect::<Vec<_>>())
    };
    fault::script([(Call::RecvMmsg, Fate::Kernel), (Call::RecvMmsg, UNREACHABLE)]);
    assert_eq!(recv().unwrap(), (0..MOST as u32).collect::<Vec<_>>());
    assert_eq!(calls(), [(Call::RecvMmsg, MOST), (Call::RecvMmsg, 1200 - MOST)]);
    assert_eq!(errno(recv()), errno::EHOSTUNREACH);
    assert_eq!(recv().unwrap(), (MOST as u32..1100).collect::<Vec<_>>());
}

#[test]
fn r11_any_receive_on_any_thread_returns_the_deferred_error() {
    for first in Receiving::all(Backend::Msg) {
        for next in Receiving::all(Backend::Msg) {
            let wire = Wire::new();
            wire.fill(0..2);
            first.choose(Backend::Msg);
            fault::script([(Call::RecvMsg, Fate::Kernel), (Call::RecvMsg, UNREACHABLE)]);
            assert_eq!(first.recv(&wire.far, 2).unwrap(), [0]);
            fault::finish();
            let reported = thread::scope(|scope| {
                let there = scope.spawn(|| errno(next.recv(&wire.far, 2)));
                there.join().expect("it ends")
            });
            assert_eq!(reported, errno::EHOSTUNREACH, "{first:?} {next:?}");
            assert_eq!(next.recv(&wire.far, 2).unwrap(), [1]);
        }
    }
}

#[test]
fn would_block_after_messages_is_not_a_deferred_error() {
    for backend in BACKENDS {
        for way in Receiving::each(backend) {
            crate::clear_pool();
            let wire = Wire::new();
            wire.fill(0..FIRST_STEP + 1);
            let mut fates = match recv_call(backend, 32) {
                Call::RecvMmsg if way != Receiving::Into => vec![(Call::RecvMmsg, Fate::Kernel)],
                Call::RecvMmsg => vec![(Call::RecvMmsg, Fate::AtMost(FIRST_STEP as usize))],
                call => vec![(call, Fate::Kernel); FIRST_STEP as usize],
            };
            if way != Receiving::Into || backend == Backend::Msg {
                fates.push((recv_call(backend, 32), Fate::Fail(errno::EAGAIN)));
            }
            fault::script(fates);
            let first = way.recv(&wire.far, 32).unwrap();
            assert_eq!(first, (0..FIRST_STEP).collect::<Vec<_>>(), "{backend:?} {way:?}");
            fault::finish();
            assert_eq!(way.recv(&wire.far, 32).unwrap(), [FIRST_STEP]);
        }
    }
}

/// Only the first message is waited for: not the others, and not the second step, though the first
/// came back full. The channel shows a call that does not return.
#[test]
fn r1_a_blocking_receive_waits_for_no_more_than_one_message() {
    for backend in BACKENDS {
        for count in [1, FIRST_STEP, FIRST_STEP + 1] {
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
fn r1_a_receive_does_not_wait_for_the_second_thousand() {
    const MOST: u32 = 1024;
    for backend in BACKENDS {
        let (mut near, far) = UnixStream::pair().expect("a pair");
        near.write_all(&numbers(0..MOST).concat()).expect("some 4 KiB fit");
        let (done, result) = mpsc::channel();
        thread::spawn(move || {
            backend.make_process_default().unwrap();
            let _ = done.send(Receiving::Into.recv(&far, 1200).unwrap());
        });
        let received = result.recv_timeout(NET).expect("it does not wait for more");
        assert_eq!(received, (0..MOST).collect::<Vec<_>>(), "{backend:?}");
    }
}

/// The scripted backend fails the test by itself if it is offered nothing.
#[test]
fn d24_no_system_call_is_made_for_no_messages() {
    for backend in BACKENDS {
        for way in Receiving::each(backend).filter(|way| *way != Receiving::Into) {
            let wire = Wire::new();
            wire.fill(0..2);
            fault::script([]);
            assert!(way.recv(&wire.far, 0).unwrap().is_empty());
            assert!(calls().is_empty());
            for capacity in [1, FIRST_STEP as usize, 8 * FIRST_STEP as usize + 1] {
                fault::script([(recv_call(backend, capacity), Fate::Fail(errno::EAGAIN))]);
                assert_eq!(errno(way.recv(&wire.far, capacity)), errno::EAGAIN);
                fault::finish();
            }
            assert_eq!(way.recv(&wire.far, 2).unwrap(), [0, 1]);
        }
    }
}

/// Endless errors of other datagrams: a non-blocking call still ends.
#[cfg(mmsg_calls)]
#[test]
fn d34_a_receive_that_meets_only_unrelated_errors_ends() {
    for backend in BACKENDS {
        for way in Receiving::each(backend) {
            let wire = Wire::new();
            wire.far.set_nonblocking(true).unwrap();
            let errors = crate::Ancillary::ERRORS;
            if errors.enable(&wire.far).unwrap() != errors {
                return;
            }
            wire.fill(0..3);
            let call = recv_call(backend, 4);
            fault::script([(call, Fate::Fail(errno::ECONNREFUSED)); 20]);
            assert_eq!(way.recv(&wire.far, 4).unwrap(), [0, 1, 2], "{backend:?} {way:?}");
            fault::finish();
            fault::script(std::iter::repeat_n((call, Fate::Fail(errno::ECONNREFUSED)), 5_000));
            assert_eq!(errno(way.recv(&wire.far, 4)), errno::ECONNREFUSED);
            let made = fault::log().len();
            assert!(made < 2_000, "{made} calls");
            fault::script([]);
        }
    }
}

/// A non-blocking socket is not waited for, even if it has a timeout.
#[test]
fn d9_an_interrupted_call_on_a_nonblocking_socket_does_not_wait() {
    for backend in BACKENDS {
        for way in Receiving::each(backend) {
            let wire = Wire::new();
            wire.far.set_read_timeout(Some(Duration::MAX / 4)).unwrap_or_default();
            wire.far.set_nonblocking(true).unwrap();
            fault::script([(recv_call(backend, 3), Fate::Fail(errno::EINTR)); 3]);
            assert_eq!(errno(way.recv(&wire.far, 3)), errno::EAGAIN);
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

/// Where `poll` takes the socket for ready and the call does not, the call waits by naps.
#[cfg(mmsg_calls)]
#[test]
fn d9_an_interrupted_call_waits_for_its_timeout_and_no_longer() {
    let timeout = Duration::from_millis(100);
    for backend in BACKENDS {
        for way in Receiving::each(backend) {
            let wire = Wire::new();
            wire.far.set_read_timeout(Some(timeout)).unwrap();
            let call = recv_call(backend, 3);
            fault::script([(call, Fate::Fail(errno::EINTR))]);
            let start = std::time::Instant::now();
            assert_eq!(errno(way.recv(&wire.far, 3)), errno::EAGAIN);
            assert!(start.elapsed() >= timeout);
            fault::finish();

            // Naps take longer on a busy machine than they ask for.
            wire.far.set_read_timeout(Some(NET)).unwrap();
            wire.fill(0..1);
            let busy = (call, Fate::Fail(errno::EAGAIN));
            fault::script([(call, Fate::Fail(errno::EINTR)), busy, busy, busy]);
            assert_eq!(way.recv(&wire.far, 3).unwrap(), [0]);
            fault::finish();
        }
    }
}
