//! GSO batches that the system rejects or accepts in part.
//!
//! Each header is one message or a GSO batch. Receivers have GRO off and use the standard library, so they see the
//! datagrams as they were sent.

use super::offload_kit::*;
use super::*;
use crate::Offload;
use crate::offload::GsoStatus;

/// The errors by which a kernel may reject a GSO batch, and the cause that the library assumes.
const REJECTIONS: [(i32, Cause); 4] = [
    (errno::EIO, Cause::Unsupported),
    (errno::EOPNOTSUPP, Cause::Unsupported),
    (errno::EINVAL, Cause::Size),
    (errno::EMSGSIZE, Cause::Size),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Unsupported,
    Size,
}

/// The fates that let the header at `at` of `headers` fail with `code`. A count hides the error of a batch, which is then
/// offered alone.
fn stopped(
    backend: Backend,
    headers: usize,
    at: usize,
    code: i32,
    is_batch: bool,
) -> Vec<(Call, Fate)> {
    let mut fates = stopped_send(backend, headers, at, code);
    if at > 0 && is_batch {
        fates.push((send_call(backend, 1), Fate::Fail(code)));
    }
    fates
}

/// The datagrams of such a batch would each be tried as often again.
#[cfg(mmsg_calls)]
#[test]
fn a_batch_that_the_system_refuses_with_an_icmp_error_is_reported_after_the_calls_of_a_datagram() {
    let Some(net) = Net::new() else { return };
    if crate::Ancillary::ERRORS.require(&net.near).is_err() {
        return;
    }
    let batch = Batch::new(&RUNS);
    let (msgs, headers) = (batch.msgs(&net), headers(&RUNS).len());
    for (backend, code) in BACKENDS.into_iter().flat_map(|b| ICMP.map(|code| (b, code))) {
        let is_rejection = REJECTIONS.iter().any(|(rejection, _)| *rejection == code);
        if is_rejection || code == errno::ECONNREFUSED {
            continue;
        }
        backend.make_process_default().unwrap();
        let fail = Fate::Fail(code);
        fault::script([(send_call(backend, headers), fail), (Call::Probe, fail)]);
        assert_eq!(errno(net.near.send_batch(&msgs)), code, "{backend:?}");
        assert_eq!(fault::finish().len(), 2, "{backend:?} {code}");
        assert!(net.delivered().iter().all(Vec::is_empty), "{backend:?} {code}");
    }
}

/// They are about no batch, so its datagrams are not tried for themselves.
#[cfg(mmsg_calls)]
#[test]
fn a_full_socket_and_connection_refused_reject_no_batch() {
    let Some(net) = Net::new() else { return };
    let batch = Batch::new(&RUNS);
    let msgs = batch.msgs(&net);
    for (backend, code) in
        BACKENDS.into_iter().flat_map(|b| [(b, errno::EAGAIN), (b, errno::ECONNREFUSED)])
    {
        backend.make_process_default().unwrap();
        fault::script([(send_call(backend, RUNS.len()), Fate::Fail(code))]);
        assert_eq!(errno(net.near.send_batch(&msgs)), code, "{backend:?}");
        assert_eq!(calls().len(), 1, "{backend:?} {code}");
        assert!(net.near.state().gso() && net.delivered().iter().all(Vec::is_empty), "{code}");
        assert_eq!(net.near.send_batch(&msgs).unwrap(), msgs.len());
        assert_eq!(net.delivered(), batch.expected(|_| true), "{backend:?} {code}");
    }
}

/// After EIO (the device has no checksum offload) GSO is off for the socket for a minute. A rejected size is forgotten
/// after the call, since another route may allow it.
#[cfg(mmsg_calls)]
#[test]
fn a_rejected_batch_costs_one_try_and_goes_as_the_same_datagrams() {
    let Some(net) = Net::new() else { return };
    let batch = Batch::new(&RUNS);
    let msgs = batch.msgs(&net);
    let [batches, singles] = [RUNS.len(), msgs.len()].map(|count| (Call::SendMmsg, count));
    // The first and the third run go to one receiver. The third has longer segments, so it is not tried.
    let first_split = (Call::SendMmsg, RUNS[0].count + RUNS[2].count + 3);
    Backend::Mmsg.make_process_default().unwrap();
    for (code, cause) in REJECTIONS {
        let is_off = cause == Cause::Unsupported;
        assert!(net.near.state().set_gso(true));
        let before = net.near.state().counters();
        let send = |fates: &[(Call, Fate)], expected: &[(Call, usize)]| {
            fault::script(fates.iter().copied());
            assert_eq!(net.near.send_batch(&msgs).unwrap(), msgs.len());
            assert_eq!(calls(), expected);
            assert_eq!(net.delivered(), batch.expected(|_| true));
        };
        let again = if is_off { singles } else { first_split };
        send(&[(Call::SendMmsg, Fate::Fail(code))], &[batches, again]);
        assert_eq!(net.near.state().gso_status() == GsoStatus::Rejected, is_off);
        assert_eq!(net.near.state().max_segments() == 1, is_off);
        let counted = net.since(before);
        let rejected = (counted.rejected_unsupported, counted.rejected_size);
        let others = if is_off { 0 } else { 2 };
        assert_eq!((rejected, counted.sent_batches), ((is_off.into(), (!is_off).into()), others));
        send(&[], &[if is_off { singles } else { batches }]);
    }
}

/// Two destinations over their MTU among healthy ones: their datagrams go one by one, and the others in GSO batches. A
/// destination is tried once in a call, and a rejected batch costs at most two calls more.
#[cfg(mmsg_calls)]
#[test]
fn what_follows_a_rejected_batch_goes_by_gso_in_the_same_call() {
    let Some(net) = Net::new() else { return };
    // The lengths keep the runs to one receiver apart.
    let runs: Vec<_> = (0..12).map(|i| run_of(i % 2, 90 - 5 * i, 3)).collect();
    let batch = Batch::new(&runs);
    let msgs = batch.msgs(&net);
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        for (one, other) in (0..12).flat_map(|one| (one + 1..12).map(move |other| (one, other))) {
            let before = net.near.state().counters();
            // A batch that is not the first of its call ends it with a count, and the next call learns the error.
            let mut fates = stopped(backend, runs.len(), one, errno::EMSGSIZE, true);
            // The second batch is shorter, so it is tried for itself.
            match backend {
                Backend::Mmsg => {
                    let offered = 3 + runs.len() - one - 1;
                    let at = 3 + other - one - 1;
                    fates.extend(stopped(backend, offered, at, errno::EINVAL, true));
                }
                Backend::Msg => {
                    let passed = [(Call::SendMsg, Fate::Kernel)];
                    fates.extend(passed.repeat(3 + other - one - 1));
                    fates.extend([(Call::SendMsg, Fate::Fail(errno::EINVAL)); 2]);
                }
            }
            fault::script(fates);
            let what = format!("{backend:?} {one} {other}");
            assert_eq!(net.near.send_batch(&msgs).unwrap(), msgs.len(), "{what}");
            fault::finish();
            assert_eq!(net.delivered(), batch.expected(|_| true), "{what}");
            let counted = net.since(before);
            assert_eq!((counted.rejected_size, counted.sent_batches), (2, 10), "{what}");
            if backend == Backend::Mmsg {
                assert!(counted.send_calls <= 5, "{what}: {counted:?}");
            }
        }
    }
}

#[cfg(mmsg_calls)]
#[test]
fn a_rejected_destination_is_not_tried_again_in_the_call() {
    let Some(net) = Net::new() else { return };
    Backend::Mmsg.make_process_default().unwrap();
    // Each run to receiver 0 has segments as long as the rejected ones, or longer.
    let runs: Vec<_> = (0..10).map(|i| run_of(i % 2, 40 + i, 3)).collect();
    let batch = Batch::new(&runs);
    let before = net.near.state().counters();
    fault::script([(Call::SendMmsg, Fate::Fail(errno::EMSGSIZE))]);
    assert_eq!(net.near.send_batch(&batch.msgs(&net)).unwrap(), 30);
    assert_eq!(calls(), [(Call::SendMmsg, 10), (Call::SendMmsg, 5 * 3 + 5)]);
    assert_eq!(net.delivered(), batch.expected(|_| true));
    assert_eq!((net.since(before).rejected_size, net.since(before).sent_batches), (1, 5));

    let before = net.near.state().counters();
    let second = stopped(Backend::Mmsg, 20, 3, errno::EMSGSIZE, true);
    fault::script([(Call::SendMmsg, Fate::Fail(errno::EMSGSIZE))].into_iter().chain(second));
    assert_eq!(net.near.send_batch(&batch.msgs(&net)).unwrap(), 30);
    let many = |count| (Call::SendMmsg, count);
    assert_eq!(calls(), [many(10), many(20), (Call::SendMsg, 1), many(27)]);
    assert_eq!(net.delivered(), batch.expected(|_| true));
    assert_eq!((net.since(before).rejected_size, net.since(before).sent_batches), (2, 0));
}

/// A program may limit its batches for networks that drop the end of a burst.
#[test]
fn a_batch_has_no_more_segments_than_its_builder_allows() {
    if Net::new().is_none() {
        return;
    }
    for (max, batches) in [(0, 0), (1, 0), (10, 3), (64, 1), (1_000, 1)] {
        let mut net = Net::new().expect("the kernel has GSO, as above");
        let builder = Offload::builder().gro(false).max_segments(max);
        net.near = builder.build(socket()).expect("a UDP socket");
        let batch = Batch::new(&[run_of(0, 40, 30)]);
        for backend in BACKENDS {
            backend.make_process_default().unwrap();
            let before = net.near.state().counters();
            assert_eq!(net.near.send_batch(&batch.msgs(&net)).unwrap(), 30);
            let counted = net.since(before);
            let segments = if batches > 0 { 30 } else { 0 };
            assert_eq!((counted.sent_batches, counted.sent_segments), (batches, segments));
            assert_eq!(net.delivered(), batch.expected(|_| true));
        }
    }
}
