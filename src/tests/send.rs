//! Sends that end early, are interrupted, or meet an error.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use super::*;

/// No kernel does this, but if one did, the call must not loop.
#[cfg(mmsg_calls)]
#[test]
fn a_call_that_takes_nothing_without_an_error_ends() {
    let loopback = Loopback::new();
    let data = numbers(0..3);
    let msgs = loopback.msgs(&data);
    choose(Backend::Mmsg);
    fault::script([(Call::SendMmsg, Fate::AtMost(0))]);
    assert_eq!(loopback.near.send_batch(&msgs).unwrap(), 0);
    assert_eq!(calls(), [(Call::SendMmsg, 3)]);
    fault::script([(Call::SendMmsg, Fate::AtMost(0))]);
    assert_eq!(loopback.near.send_each(&msgs, |_, error| panic!("{error}")).unwrap(), 0);
    assert_eq!(calls(), [(Call::SendMmsg, 3)]);
}

#[cfg(has_descriptors)]
#[test]
fn an_interrupted_call_is_made_again_unless_the_socket_has_a_timeout() {
    let loopback = Loopback::new();
    let data = numbers(0..3);
    let msgs = loopback.msgs(&data);
    let interrupted = |call| [(call, Fate::Fail(errno::EINTR)); 3];
    for backend in BACKENDS {
        choose(backend);
        let call = send_call(backend, 3);
        fault::script(interrupted(call));
        assert_eq!(loopback.near.send_batch(&msgs).unwrap(), 3);
        let offered = offered(call, 3);
        assert!(calls().starts_with(&[(call, offered); 4]));
        assert_eq!(loopback.delivered(), [0, 1, 2]);

        // After the signals the call meets another error.
        fault::script(interrupted(call).into_iter().chain([(call, Fate::Fail(errno::ENOMEM))]));
        assert_eq!(errno(loopback.near.send_batch(&msgs)), errno::ENOMEM);
        assert_eq!(calls(), [(call, offered); 4]);

        loopback.near.set_write_timeout(Some(TIMEOUT)).unwrap();
        fault::script([(call, Fate::Fail(errno::EINTR))]);
        let error = loopback.near.send_batch(&msgs).unwrap_err();
        assert_eq!((error.kind(), calls().len()), (io::ErrorKind::Interrupted, 1));
        loopback.near.set_write_timeout(None).unwrap();
        assert!(loopback.delivered().is_empty());
    }
    // A signal between single-message calls ends the call with a count.
    fault::script([(Call::SendMsg, Fate::Kernel), (Call::SendMsg, Fate::Fail(errno::EINTR))]);
    choose(Backend::Msg);
    assert_eq!(loopback.near.send_batch(&msgs).unwrap(), 1);
    fault::finish();
    assert_eq!(loopback.delivered(), [0]);
}

/// Without `SO_BROADCAST` each message to a broadcast address fails.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::BROADCAST), 9);

#[test]
fn each_failure_costs_about_a_call_and_a_header() {
    const ALL: usize = 4096;
    let loopback = Loopback::new();
    let nowhere = NOWHERE;
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        let msgs = vec![SendMsg::to(nowhere, b"bad"); ALL];
        let mut failed = 0;
        let code =
            loopback.near.send_to(b"bad", nowhere).expect_err("nobody asked for it").raw_os_error();
        fault::script([]);
        let done = loopback.near.send_each(&msgs, |index, error| {
            assert_eq!((index, error.raw_os_error()), (failed, code));
            failed += 1;
        });
        assert_eq!((done.unwrap(), failed), (ALL, ALL));
        let calls = calls();
        let offered: usize = calls.iter().map(|(_, offered)| offered).sum();
        assert!(calls.len() <= ALL + 16, "{backend:?}: {} calls", calls.len());
        assert!(offered <= 2 * ALL, "{backend:?}: {offered} headers");

        // After one failure the calls grow again.
        let data = numbers(0..64);
        let mut msgs = loopback.msgs(&data);
        msgs[0] = SendMsg::to(nowhere, b"bad");
        fault::script([]);
        let done = loopback.near.send_each(&msgs, &mut |index, _| assert_eq!(index, 0));
        assert_eq!(done.unwrap(), msgs.len());
        if backend == Backend::Mmsg {
            assert!(fault::finish().len() < 10);
        }
        assert_eq!(loopback.delivered(), (1..64).collect::<Vec<_>>());
    }
}

/// The kernel says that the message itself fails, also while reports about other datagrams wait in the error queue.
#[cfg(linux_like)]
#[test]
fn each_failure_costs_two_calls_while_reports_wait() {
    const ALL: usize = 512;
    let (loopback, refusing) = (Loopback::new(), socket());
    refusing.connect(addr(&refusing)).unwrap();
    crate::Ancillary::ERRORS.require(&loopback.near).unwrap();
    for _ in 0..3 {
        loopback.near.send_batch(&[SendMsg::to(addr(&refusing), b"refused")]).unwrap();
    }
    let near = loopback.near.try_clone().unwrap();
    let offload = crate::Offload::new(near.try_clone().unwrap()).unwrap();
    let sockets: [&dyn BatchSocket; 2] = [&near, &offload];
    // The last message finds the error of another datagram, and goes.
    let mut msgs = vec![SendMsg::to(NOWHERE, b"bad"); ALL];
    msgs.push(SendMsg::to(loopback.to(), &[0; 4]));
    type Send<'a> = &'a dyn Fn(&mut dyn FnMut(usize, io::Error)) -> usize;
    let check = |what: &str, send: Send<'_>| {
        let mut failed = 0;
        let mut fail = |index, error: io::Error| {
            assert_eq!((index, error.raw_os_error()), (failed, Some(errno::EACCES)));
            failed += 1;
        };
        fault::options_read();
        fault::script([]);
        assert_eq!((send(&mut fail), failed), (ALL + 1, ALL), "{what}");
        let (calls, read) = (calls().len(), fault::options_read());
        assert!(
            calls <= 2 * ALL + 16 && read <= 3 * ALL + 16,
            "{what}: {calls} calls, {read} options"
        );
        assert_eq!(loopback.delivered(), [0], "{what}");
    };
    for backend in BACKENDS {
        choose(backend);
        for (i, socket) in sockets.iter().enumerate() {
            let what = format!("{backend:?} {i}");
            check(&what, &|fail| socket.send_each(&msgs, fail).unwrap());
        }
        #[cfg(feature = "mio")]
        {
            near.set_nonblocking(true).unwrap();
            let mio = mio::net::UdpSocket::from_std(near.try_clone().unwrap());
            check("mio", &|fail| mio.send_each(&msgs, fail).unwrap());
        }
        near.set_nonblocking(false).unwrap();
    }
}

/// A kernel that refuses each message to one destination of three.
#[cfg(mmsg_calls)]
#[derive(Clone, Default)]
pub(crate) struct OneOfThree {
    /// The next message, and how often the kernel refused it.
    next: Arc<Mutex<(usize, usize)>>,
}

#[cfg(mmsg_calls)]
impl OneOfThree {
    pub(crate) fn install(code: i32) -> Self {
        let kernel = Self::default();
        let next = kernel.next.clone();
        fault::decide_by(move |call, offered| {
            let mut next = next.lock().expect("no test fails");
            let (at, refused) = *next;
            let sent = if call == Call::SendMmsg { offered.min((4 - at % 3) % 3) } else { 1 };
            *next = if at % 3 == 1 { (at, refused + 1) } else { (at + sent, 0) };
            match call {
                _ if at % 3 == 1 => Fate::Fail(code),
                Call::SendMmsg => Fate::AtMost(sent),
                _ => Fate::Kernel,
            }
        });
        kernel
    }

    /// The caller has got the error, and skips the message. Returns how often the kernel refused it.
    pub(crate) fn give_up(&self) -> usize {
        let mut next = self.next.lock().expect("no test fails");
        let (at, refused) = *next;
        *next = (at + 1, 0);
        refused
    }
}

/// How often a message is offered that the kernel refuses: once more, or without sending it.
#[cfg(mmsg_calls)]
pub(crate) const TRIES: usize = 2;

/// Each message is sent once, or reported with the error. Never `Interrupted`, which is for signals.
#[cfg(mmsg_calls)]
#[test]
fn a_message_that_the_system_refuses_with_an_icmp_error_is_reported_and_the_others_go() {
    for (backend, blocking) in BACKENDS.into_iter().flat_map(|b| [(b, true), (b, false)]) {
        let loopback = Loopback::new();
        loopback.near.set_nonblocking(!blocking).unwrap();
        if crate::Ancillary::ERRORS.require(&loopback.near).is_err() {
            return;
        }
        let data = numbers(0..12);
        let msgs = loopback.msgs(&data);
        let bad: Vec<_> = (0..12).filter(|i| i % 3 == 1).collect();
        for (code, way) in ICMP.into_iter().flat_map(|code| [0, 1, 2].map(|way| (code, way))) {
            choose(backend);
            let kernel = OneOfThree::install(code);
            let mut failed = Vec::new();
            let mut fail = |i: usize, error: io::Error| {
                failed.push((i as u32, error.raw_os_error()));
                // A single-message call that is not the first of its batch hides one more.
                let range = TRIES..=TRIES + usize::from(backend == Backend::Msg);
                assert!(range.contains(&kernel.give_up()), "{backend:?} {code} {way}");
            };
            match way {
                0 => {
                    let mut at = 0;
                    while at < msgs.len() {
                        match loopback.near.send_batch(&msgs[at..]) {
                            Ok(sent) => at += sent,
                            Err(error) => {
                                fail(at, error);
                                at += 1;
                            }
                        }
                    }
                }
                1 => assert_eq!(loopback.near.send_each(&msgs, fail).unwrap(), msgs.len()),
                _ => {
                    let mut queue = SendQueue::new(1 << 16);
                    msgs.iter().for_each(|msg| queue.push(msg).unwrap());
                    let each = |msg: &SendMsg<'_>, error| fail(payload(msg) as usize, error);
                    assert_eq!(loopback.near.flush_each(&mut queue, each).unwrap(), msgs.len());
                }
            }
            fault::script([]);
            let what = format!("{backend:?} {blocking} {code} {way}");
            let expected: Vec<_> = bad.iter().map(|i| (*i, Some(code))).collect();
            assert_eq!(failed, expected, "{what}");
            let good: Vec<_> = (0..12).filter(|i| i % 3 != 1).collect();
            assert_eq!(loopback.delivered(), good, "{what}");
        }
    }
}
