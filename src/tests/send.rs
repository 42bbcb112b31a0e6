//! Sends that end early, are interrupted, or meet an error.

#[cfg(has_descriptors)]
use std::io::Read;
use std::net::Ipv4Addr;
#[cfg(mmsg_calls)]
use std::net::Ipv6Addr;
#[cfg(has_descriptors)]
use std::os::unix::net::{UnixDatagram, UnixStream};
#[cfg(has_descriptors)]
use std::thread;
#[cfg(has_descriptors)]
use std::time::Instant;

use super::*;

const N: usize = 5;

#[test]
fn any_count_leaves_the_rest_in_order() {
    let wire = Wire::new();
    let data = numbers(0..N as u32);
    let msgs = wire.msgs(&data);
    for backend in BACKENDS {
        for way in Sending::each(backend) {
            for k in 1..=N {
                fault::script(stopped_send(backend, N, k, errno::EAGAIN));
                assert_eq!(way.send(&wire.near, &msgs).unwrap(), k, "{backend:?} {way:?}");
                calls();
                assert_eq!(wire.delivered(), (0..k as u32).collect::<Vec<_>>());

                assert_eq!(way.send(&wire.near, &msgs[k..]).unwrap(), N - k);
                assert_eq!(wire.delivered(), (k as u32..N as u32).collect::<Vec<_>>());
            }
        }
    }
}

/// No kernel does that, and a call that went on for ever would be the worst answer.
#[cfg(mmsg_calls)]
#[test]
fn a_call_that_takes_nothing_without_an_error_ends() {
    let wire = Wire::new();
    let data = numbers(0..3);
    let msgs = wire.msgs(&data);
    for way in Sending::each(Backend::Mmsg) {
        fault::script([(Call::SendMmsg, Fate::AtMost(0))]);
        assert_eq!(way.send(&wire.near, &msgs).unwrap(), 3);
        let one = (Call::SendMsg, 1);
        assert_eq!(calls(), [(Call::SendMmsg, 3), one, one, one]);
        assert_eq!(wire.delivered(), [0, 1, 2]);
    }
}

/// The multi-message call may have waited for it as long as the socket's timeout allows.
#[cfg(has_descriptors)]
#[test]
fn d5_a_send_does_not_wait_for_the_message_that_stopped_sendmmsg() {
    let (near, _far) = UnixDatagram::pair().expect("a pair");
    near.set_write_timeout(Some(NET)).expect("a timeout");
    near.set_nonblocking(true).expect("it can");
    while near.send(b"full?").is_ok() {}
    near.set_nonblocking(false).expect("it can");
    Backend::Mmsg.make_process_default().unwrap();
    fault::script([(Call::SendMmsg, Fate::AtMost(0))]);
    let begun = Instant::now();
    let error = near.send_batch(&[SendMsg::new(b"a"), SendMsg::new(b"b")]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    assert!(begun.elapsed() < NET / 2, "it waited");
    assert_eq!(calls(), [(Call::SendMmsg, 2), (Call::SendMsg, 1)]);
}

/// The cause may be over, or have been an error about an earlier datagram, which is reported once.
#[cfg(mmsg_calls)]
#[test]
fn d31_the_message_that_stopped_sendmmsg_is_offered_again() {
    let wire = Wire::new();
    let data = numbers(0..N as u32);
    let msgs = wire.msgs(&data);
    for way in Sending::each(Backend::Mmsg) {
        for k in 1..N {
            fault::script([(Call::SendMmsg, Fate::AtMost(k))]);
            assert_eq!(way.send(&wire.near, &msgs).unwrap(), N, "{way:?}");
            let mut expected = vec![(Call::SendMmsg, N)];
            expected.extend(vec![(Call::SendMsg, 1); N - k]);
            assert_eq!(calls(), expected);
            assert_eq!(wire.delivered(), (0..N as u32).collect::<Vec<_>>());
        }
    }
}

/// On a connected socket, ICMP errors are about earlier datagrams, and are reported once.
#[cfg(mmsg_calls)]
#[test]
fn d5_only_the_next_send_returns_an_icmp_error_met_after_k_messages() {
    let wire = Wire::new();
    wire.near.connect(wire.to()).unwrap();
    let data = numbers(0..N as u32);
    let msgs: Vec<_> = data.iter().map(|number| SendMsg::new(number)).collect();
    for (backend, code) in BACKENDS.into_iter().flat_map(|b| {
        [errno::ECONNREFUSED, errno::EHOSTUNREACH, errno::ENETUNREACH, errno::EPROTO]
            .map(|c| (b, c))
    }) {
        for way in Sending::each(backend) {
            for k in 1..N {
                fault::script(stopped_send(backend, N, k, code));
                assert_eq!(way.send(&wire.near, &msgs).unwrap(), k, "{backend:?} {way:?} {code}");
                fault::finish();
                assert_eq!(errno(way.send(&wire.near, &msgs[k..])), code);
                assert_eq!(calls(), [], "it is known without a system call");
                assert_eq!(way.send(&wire.near, &msgs[k..]).unwrap(), N - k);
                assert_eq!(wire.delivered(), (0..N as u32).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn any_error_at_any_position_is_reported_for_its_message() {
    let wire = Wire::new();
    let data = numbers(0..N as u32);
    let msgs = wire.msgs(&data);
    for backend in BACKENDS {
        for way in Sending::each(backend) {
            for (bad, code) in (0..N).flat_map(|bad| PLAIN.map(|code| (bad, code))) {
                if bad > 0 {
                    fault::script(stopped_send(backend, N, bad, code));
                    assert_eq!(way.send(&wire.near, &msgs).unwrap(), bad);
                    calls();
                }
                // The message meets its error again, now as the first of its call.
                let call = send_call(backend, N - bad);
                fault::script([(call, Fate::Fail(code))]);
                assert_eq!(errno(way.send(&wire.near, &msgs[bad..])), code);
                assert_eq!(calls(), [(call, offered(call, N - bad))]);

                assert_eq!(way.send(&wire.near, &msgs[bad + 1..]).unwrap(), N - bad - 1);
                let good: Vec<u32> = (0..N as u32).filter(|i| *i != bad as u32).collect();
                assert_eq!(wire.delivered(), good, "{backend:?} {way:?} {code}");
            }
        }
    }
}

#[test]
fn an_interrupted_call_is_made_again_however_often() {
    let wire = Wire::new();
    let data = numbers(0..3);
    let msgs = wire.msgs(&data);
    let interrupted = |call| [(call, Fate::Fail(errno::EINTR)); 3];
    for backend in BACKENDS {
        for way in Sending::each(backend) {
            let call = send_call(backend, 3);
            fault::script(interrupted(call));
            assert_eq!(way.send(&wire.near, &msgs).unwrap(), 3);
            let offered = offered(call, 3);
            assert!(calls().starts_with(&[(call, offered); 4]));
            assert_eq!(wire.delivered(), [0, 1, 2]);

            // And then something else befalls it.
            fault::script(interrupted(call).into_iter().chain([(call, Fate::Fail(errno::ENOMEM))]));
            assert_eq!(errno(way.send(&wire.near, &msgs)), errno::ENOMEM);
            assert_eq!(calls(), [(call, offered); 4]);
            assert!(wire.delivered().is_empty());
        }
        // Between the single-message calls of a batch.
        let mut fates = vec![(Call::SendMsg, Fate::Kernel)];
        fates.extend(interrupted(Call::SendMsg));
        fault::script(fates);
        assert_eq!(MmsgBuf::with_backend(Backend::Msg).send(&wire.near, &msgs).unwrap(), 3);
        assert_eq!(calls(), [(Call::SendMsg, 1); 6]);
        assert_eq!(wire.delivered(), [0, 1, 2]);
    }
}

#[test]
fn a_socket_that_fills_up_gives_a_count_and_no_error() {
    let wire = Wire::new();
    let data = numbers(0..N as u32);
    let msgs = wire.msgs(&data);
    for backend in BACKENDS {
        for way in Sending::each(backend) {
            for k in 1..N {
                fault::script(stopped_send(backend, N, k, errno::EAGAIN));
                assert_eq!(way.send(&wire.near, &msgs).unwrap(), k);
                calls();
                // `WouldBlock` is not deferred: the next call meets it again.
                fault::script([(send_call(backend, N - k), Fate::Fail(errno::EAGAIN))]);
                let error = way.send(&wire.near, &msgs[k..]).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                assert_eq!(calls().len(), 1);
                assert_eq!(wire.delivered().len(), k);
            }
        }
    }
}

#[test]
fn send_each_does_not_block() {
    let wire = Wire::new();
    let data = numbers(0..N as u32);
    let msgs = wire.msgs(&data);
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        for k in 0..N {
            let mut fates = if k > 0 { stopped_send(backend, N, k, errno::EAGAIN) } else { vec![] };
            // After a short count the next message goes alone.
            let left = if k > 0 { 1 } else { N };
            fates.push((send_call(backend, left), Fate::Fail(errno::EAGAIN)));
            fault::script(fates);
            let result = wire.near.send_each(&msgs, |index, error| panic!("{index}: {error}"));
            match result {
                Ok(done) => assert_eq!(done, k),
                Err(error) => assert_eq!((k, error.kind()), (0, io::ErrorKind::WouldBlock)),
            }
            calls();
            assert_eq!(wire.delivered(), (0..k as u32).collect::<Vec<_>>());
        }
    }
}

#[cfg(mmsg_calls)]
#[test]
fn s8_the_error_that_sendmmsg_hides_comes_with_its_own_number() {
    let wire = Wire::new();
    let data = numbers(0..3);
    let msgs = wire.msgs(&data);
    for way in Sending::each(Backend::Mmsg) {
        fault::script([
            (Call::SendMmsg, Fate::AtMost(1)),
            (Call::SendMsg, Fate::Fail(errno::EMSGSIZE)),
            (Call::SendMmsg, Fate::Fail(errno::EMSGSIZE)),
        ]);
        assert_eq!(way.send(&wire.near, &msgs).unwrap(), 1);
        assert_eq!(errno(way.send(&wire.near, &msgs[1..])), errno::EMSGSIZE);
        assert_eq!(calls(), [(Call::SendMmsg, 3), (Call::SendMsg, 1), (Call::SendMmsg, 2)]);
        assert_eq!(way.send(&wire.near, &msgs[2..]).unwrap(), 1);
        assert_eq!(wire.delivered(), [0, 2]);
    }
}

#[cfg(mmsg_calls)]
#[test]
fn s8_send_each_names_index_and_error_of_each_that_fails() {
    let wire = Wire::new();
    let data = numbers(0..N as u32);
    // Each fails by itself: broadcast was not asked for, and the socket is of the other family.
    let broadcast = SocketAddr::from((Ipv4Addr::BROADCAST, 9));
    let other_family = SocketAddr::from((Ipv6Addr::LOCALHOST, 9));
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        for (first, second) in (0..N).flat_map(|i| (i + 1..N).map(move |j| (i, j))) {
            let mut msgs = wire.msgs(&data);
            msgs[first] = msgs[first].with_dest(broadcast);
            msgs[second] = msgs[second].with_dest(other_family);
            let codes = [(first, errno::EACCES), (second, errno::EAFNOSUPPORT)];
            let mut reported = Vec::new();
            let done = wire.near.send_each(&msgs, |index, error| {
                reported.push((index, error.raw_os_error().expect("the system's")));
            });
            assert_eq!(done.unwrap(), N);
            assert_eq!(reported, codes, "{backend:?}");
            let good = (0..N as u32).filter(|i| codes.iter().all(|(bad, _)| *bad as u32 != *i));
            assert_eq!(wire.delivered(), good.collect::<Vec<_>>());
        }
    }
}

/// Nobody asked to send to a broadcast address, so each such message fails by itself.
#[test]
fn d11_each_failure_costs_about_a_call_and_a_header() {
    const ALL: usize = 4096;
    let wire = Wire::new();
    let nowhere = SocketAddr::from((Ipv4Addr::BROADCAST, 9));
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        let msgs = vec![SendMsg::to(nowhere, b"bad"); ALL];
        let mut failed = 0;
        fault::script([]);
        let done = wire.near.send_each(&msgs, |index, error| {
            assert_eq!((index, error.raw_os_error()), (failed, Some(errno::EACCES)));
            failed += 1;
        });
        assert_eq!((done.unwrap(), failed), (ALL, ALL));
        let calls = calls();
        let offered: usize = calls.iter().map(|(_, offered)| offered).sum();
        assert!(calls.len() <= ALL + 16, "{backend:?}: {} calls", calls.len());
        assert!(offered <= 2 * ALL, "{backend:?}: {offered} headers");

        // One that fails does not make the others single-message calls.
        let data = numbers(0..64);
        let mut msgs = wire.msgs(&data);
        msgs[0] = SendMsg::to(nowhere, b"bad");
        fault::script([]);
        let done = wire.near.send_each(&msgs, &mut |index, _| assert_eq!(index, 0));
        assert_eq!(done.unwrap(), msgs.len());
        if backend == Backend::Mmsg {
            assert!(fault::finish().len() < 8);
        }
        assert_eq!(wire.delivered(), (1..64).collect::<Vec<_>>());
    }
}

/// Such an error is about a datagram sent before, and the kernel reports it once. Between single
/// sends the library sees it; from within sendmmsg it comes out only at a call's first message.
#[cfg(mmsg_calls)]
#[test]
fn s8_only_the_next_send_returns_an_error_met_after_k_single_sends() {
    let wire = Wire::new();
    let data = numbers(0..N as u32);
    let msgs = wire.msgs(&data);
    for way in Sending::each(Backend::Msg) {
        for k in 1..N {
            fault::script(stopped_send(Backend::Msg, N, k, errno::ECONNREFUSED));
            assert_eq!(way.send(&wire.near, &msgs).unwrap(), k);
            fault::finish();
            assert_eq!(wire.delivered(), (0..k as u32).collect::<Vec<_>>());

            // Not by another socket's send, and not by this one's receive.
            let other = [SendMsg::to(addr(&wire.near), &data[0])];
            assert_eq!(way.send(&wire.marker, &other).unwrap(), 1);
            assert_eq!(Receiving::Batch.recv(&wire.near, 2).unwrap(), [0]);
            // Not by a send of nothing.
            assert_eq!(wire.near.send_batch(&[]).unwrap(), 0);

            fault::script([]);
            assert_eq!(errno(way.send(&wire.near, &msgs[k..])), errno::ECONNREFUSED);
            assert_eq!(calls(), [], "it is known without a system call");
            assert_eq!(way.send(&wire.near, &msgs[k..]).unwrap(), N - k);
            assert_eq!(wire.delivered(), (k as u32..N as u32).collect::<Vec<_>>());
        }
    }
}

/// As [`any_error_at_any_position_is_reported_for_its_message`], for an error that
/// invites to spin, wait or give up: the library does neither.
fn is_returned_unchanged(code: i32) {
    let wire = Wire::new();
    let data = numbers(0..3);
    let msgs = wire.msgs(&data);
    for backend in BACKENDS {
        for way in Sending::each(backend) {
            let call = send_call(backend, 3);
            fault::script([(call, Fate::Fail(code))]);
            let error = way.send(&wire.near, &msgs).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(code));
            assert_ne!(error.kind(), io::ErrorKind::WouldBlock);
            assert_eq!(calls().len(), 1, "not tried again behind the caller's back");
            // The socket is as good as before, and the caller decides.
            assert_eq!(way.send(&wire.near, &msgs).unwrap(), 3);
            assert_eq!(wire.delivered(), [0, 1, 2]);
        }
    }
}

#[test]
fn s9_no_buffer_space_is_not_would_block() {
    is_returned_unchanged(errno::ENOBUFS);
}

#[test]
fn s11_an_unreachable_network_is_returned_and_not_fatal() {
    is_returned_unchanged(errno::ENETUNREACH);
}

#[cfg(has_descriptors)]
#[test]
fn s8_a_batch_is_split_at_1024_and_an_error_in_the_second_part_loses_nothing() {
    const MOST: usize = 1024;
    const ALL: usize = 1030;
    let data = numbers(0..ALL as u32);
    let msgs: Vec<_> = data.iter().map(|number| SendMsg::new(number)).collect();
    for way in Sending::each(Backend::Mmsg) {
        // A flush goes in smaller steps, unless the pool has an arena with capacity for more.
        crate::clear_pool();
        let step = if way == Sending::Flush { 256 } else { MOST };
        let steps = MOST / step;
        // A stream blocks a sender that is too fast, so that nothing is lost.
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).map(|_| bytes)
        });
        let rejected = (Call::SendMmsg, Fate::Fail(errno::ENOBUFS));
        let mut fates = vec![(Call::SendMmsg, Fate::Kernel); steps];
        fates.extend([rejected, rejected]);
        fault::script(fates);
        assert_eq!(way.send(&near, &msgs).unwrap(), MOST);
        assert_eq!(errno(way.send(&near, &msgs[MOST..])), errno::ENOBUFS);
        assert_eq!(way.send(&near, &msgs[MOST..]).unwrap(), ALL - MOST);
        let mut expected = vec![(Call::SendMmsg, step); steps];
        expected.extend([(Call::SendMmsg, ALL - MOST); 3]);
        assert_eq!(calls(), expected, "{way:?}");
        drop(near);
        let read = reader.join().expect("the reader ends").expect("a stream can be read");
        assert_eq!(read, data.concat());
    }
}
