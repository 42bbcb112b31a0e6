//! Sends that end early, are interrupted, or meet an error.

use std::net::Ipv4Addr;

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
#[test]
fn each_failure_costs_about_a_call_and_a_header() {
    const ALL: usize = 4096;
    let loopback = Loopback::new();
    let nowhere = SocketAddr::from((Ipv4Addr::BROADCAST, 9));
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        let msgs = vec![SendMsg::to(nowhere, b"bad"); ALL];
        let mut failed = 0;
        fault::script([]);
        let done = loopback.near.send_each(&msgs, |index, error| {
            assert_eq!((index, error.raw_os_error()), (failed, Some(errno::EACCES)));
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
