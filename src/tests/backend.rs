//! Systems without multi-message calls, sandboxes that forbid them, and firewalls that return the same error.

use super::*;

const N: usize = 4;

/// Two systems without multi-message calls: the kernel lacks them, or a sandbox forbids them.
fn without_calls() -> [Vec<(Call, Fate)>; 2] {
    let permitted = (Call::Permitted, Fate::Fail(errno::EPERM));
    [
        vec![
            (Call::SendMmsg, Fate::Fail(errno::ENOSYS)),
            (Call::RecvMmsg, Fate::Fail(errno::ENOSYS)),
        ],
        vec![
            (Call::SendMmsg, Fate::Fail(errno::EPERM)),
            (Call::RecvMmsg, Fate::Fail(errno::EPERM)),
            permitted,
        ],
    ]
}

/// The entries that concern `call`.
fn without(fates: &[(Call, Fate)], call: Call) -> Vec<(Call, Fate)> {
    let concerned = |(c, _): &(Call, Fate)| *c == call || *c == Call::Permitted;
    fates.iter().copied().filter(concerned).collect()
}

/// The calls made, without the test call that asks for permission.
fn moving_calls() -> Vec<(Call, usize)> {
    calls().into_iter().filter(|(call, _)| *call != Call::Permitted).collect()
}

#[test]
fn a_receive_falls_back_within_the_same_call_and_remembers() {
    let loopback = Loopback::new();
    for system in without_calls() {
        for way in Receiving::each(Backend::Mmsg) {
            loopback.fill(0..5);
            fault::script(without(&system, Call::RecvMmsg));
            assert_eq!(way.recv(&loopback.far, 2).unwrap(), [0, 1], "{way:?}");
            assert_eq!(way.recv(&loopback.far, 3).unwrap(), [2, 3, 4]);
            let mut expected = vec![(Call::RecvMmsg, 2)];
            expected.extend([(Call::RecvMsg, 1); 5]);
            assert_eq!(moving_calls(), expected, "{way:?}");
            assert_eq!(Backend::current(), Backend::Msg);

            let data = numbers(0..2);
            fault::script([]);
            assert_eq!(loopback.near.send_batch(&loopback.msgs(&data)).unwrap(), 2);
            assert_eq!(calls(), [(Call::SendMsg, 1); 2]);
            assert_eq!(loopback.delivered(), [0, 1]);
        }
    }
}

/// The single-message call moves a single message, and nothing replaces that call.
#[test]
fn a_single_message_says_nothing_about_the_multi_message_calls() {
    let loopback = Loopback::new();
    let data = numbers(0..1);
    let msgs = loopback.msgs(&data);
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        for code in [errno::ENOSYS, errno::EPERM] {
            fault::script([(Call::SendMsg, Fate::Fail(code)), (Call::RecvMsg, Fate::Fail(code))]);
            assert_eq!(errno(loopback.near.send_batch(&msgs)), code);
            assert_eq!(errno(Receiving::Batch.recv(&loopback.far, 1)), code);
            assert_eq!(calls(), [(Call::SendMsg, 1), (Call::RecvMsg, 1)]);
            assert_eq!(Backend::current(), backend);
        }
    }
}

#[test]
fn a_datagram_that_a_firewall_rejects_gets_eperm_alone() {
    let loopback = Loopback::new();
    let data = numbers(0..N as u32);
    let msgs = loopback.msgs(&data);
    for backend in BACKENDS {
        choose(backend);
        for bad in 0..N {
            let call = send_call(backend, N - bad);
            if bad > 0 {
                fault::script(stopped_send(backend, N, bad, errno::EPERM));
                assert_eq!(loopback.near.send_batch(&msgs).unwrap(), bad);
                fault::finish();
            }
            fault::script([(call, Fate::Fail(errno::EPERM))]);
            assert_eq!(errno(loopback.near.send_batch(&msgs[bad..])), errno::EPERM);
            let asked = (call == Call::SendMmsg).then_some((Call::Permitted, 1));
            let made: Vec<_> = [(call, offered(call, N - bad))].into_iter().chain(asked).collect();
            assert_eq!(calls(), made, "{backend:?}");

            assert_eq!(loopback.near.send_batch(&msgs[bad + 1..]).unwrap(), N - bad - 1);
            let good: Vec<_> = (0..N as u32).filter(|i| *i != bad as u32).collect();
            assert_eq!(loopback.delivered(), good);
            assert_eq!(Backend::current(), backend, "the calls stay in use");
        }
    }
}

/// The kernel keeps an asynchronous error for the socket's next call. The probe must not be that call.
#[test]
fn the_probe_leaves_the_sockets_own_error_alone() {
    let loopback = Loopback::new();
    Backend::Mmsg.make_process_default().unwrap();
    // A socket connected to itself rejects the datagrams of others, who get ECONNREFUSED.
    let refusing = socket();
    refusing.connect(addr(&refusing)).unwrap();
    loopback.near.connect(addr(&refusing)).unwrap();
    loopback.near.send(b"one").unwrap();
    loopback.settle();

    fault::script([(Call::SendMmsg, Fate::Fail(errno::EPERM))]);
    let msgs = [SendMsg::new(b"two"), SendMsg::new(b"three")];
    assert_eq!(errno(loopback.near.send_batch(&msgs)), errno::EPERM);
    assert_eq!(calls(), [(Call::SendMmsg, 2), (Call::Permitted, 1)]);
    let pending = loopback.near.take_error().unwrap().expect("ECONNREFUSED is still there");
    assert_eq!(pending.raw_os_error(), Some(errno::ECONNREFUSED));
}

/// The kernel here has `MSG_WAITFORONE`, so `EINVAL` is about something else.
#[test]
fn an_einval_of_a_receive_is_returned() {
    let loopback = Loopback::new();
    loopback.fill(0..2);
    Backend::Mmsg.make_process_default().unwrap();
    fault::script([(Call::RecvMmsg, Fate::Fail(errno::EINVAL))]);
    assert_eq!(errno(Receiving::Batch.recv(&loopback.far, 2)), errno::EINVAL);
    assert_eq!(calls(), [(Call::RecvMmsg, 2)]);
    assert_eq!(Receiving::Batch.recv(&loopback.far, 2).unwrap(), [0, 1]);
    assert_eq!(calls(), [(Call::RecvMmsg, 2)]);
}
