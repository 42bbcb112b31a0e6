//! GSO batches that the system rejects, accepts in part or not at all.
//!
//! Every header of a step is one message or a run of them. Receivers have GRO off and are read
//! through the standard library: what they see is what was on the wire.

use super::offload_kit::*;
use super::*;
use crate::sys::{MAX_SEGMENTS, numbers};

/// The errors by which a kernel may reject a GSO batch, and what they are taken for.
const REJECTIONS: [(i32, Cause); 4] = [
    (errno::EIO, Cause::Unsupported),
    (errno::EOPNOTSUPP, Cause::Unsupported),
    (errno::EINVAL, Cause::Size),
    (errno::EMSGSIZE, Cause::Size),
];

/// Errors that say nothing about GSO: the last two are not the batch's at all.
const OTHERS: [i32; 10] = [
    errno::ENOBUFS,
    errno::ENOMEM,
    errno::EPERM,
    errno::EACCES,
    errno::ENETUNREACH,
    errno::EHOSTUNREACH,
    errno::EPROTO,
    errno::EPIPE,
    errno::EAGAIN,
    // Windows: it is passed over, unless the socket is connected.
    if cfg!(mmsg_calls) { errno::ECONNREFUSED } else { errno::EAGAIN },
];

/// Whether a batch that meets this error goes as its datagrams.
fn is_split(code: i32) -> bool {
    ![errno::EAGAIN, errno::ECONNREFUSED].contains(&code)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Unsupported,
    Size,
}

/// The errno of each error to be tried, with its cause if it is a rejection of GSO.
fn errors() -> impl Iterator<Item = (i32, Option<Cause>)> {
    let rejections = REJECTIONS.into_iter().map(|(code, cause)| (code, Some(cause)));
    rejections.chain(OTHERS.into_iter().map(|code| (code, None)))
}

/// The datagrams of a batch that is rejected go one by one, and none of them meets the error here.
#[test]
fn d4_s7_any_error_at_any_header_leaves_each_message_with_one_outcome() {
    let Some(net) = Net::new() else { return };
    let batch = Batch::new(&ROWS);
    let halves = batch.halves();
    let kinds = [batch.msgs(&net), batch.gathered(&net, &halves)];
    let headers = headers(&ROWS);
    let ways = BACKENDS.into_iter().flat_map(|b| Way::ALL.map(|way| (b, way)));
    for ((backend, way), msgs) in ways.flat_map(|way| kinds.iter().map(move |msgs| (way, msgs))) {
        backend.make_process_default().unwrap();
        for (at, (code, cause)) in (0..headers.len()).flat_map(|at| errors().map(move |e| (at, e)))
        {
            assert!(net.near.set_gso(true));
            let before = net.near.counters();
            let (first, count) = headers[at];
            let mut fates = stop_at(backend, headers.len(), at, code);
            let split = count > 1 && is_split(code);
            let rejected = cause.filter(|_| count > 1);
            if at > 0 && !split && code != errno::ECONNREFUSED {
                // A count hides the error. The system returns it again.
                fates.push((next_call(backend, way, headers.len(), at), Fate::Fail(code)));
            }
            fault::script(fates);
            let failed = send_all(&net, way, msgs);
            let calls = moving();

            let what = format!("{backend:?} {way:?} {code} at {at}: {calls:?}");
            let innocent = split || code == errno::EAGAIN;
            let expected = if innocent { vec![] } else { vec![(first, code)] };
            assert_eq!(failed, expected, "{what}");
            let sent = |i| innocent || i != first;
            assert_eq!(net.delivered(), batch.expected(sent), "{what}");

            assert!(net.near.gso(), "{what}");
            let counted = net.since(before);
            let fallbacks = (counted.rejected_unsupported, counted.rejected_size);
            let one_if = |cause| u64::from(rejected == Some(cause));
            assert_eq!(fallbacks, (one_if(Cause::Unsupported), one_if(Cause::Size)), "{what}");
            assert_eq!(counted.sent as usize, msgs.len() - failed.len(), "{what}");
            let bytes: usize =
                msgs.iter().enumerate().map(|(i, m)| m.len() * usize::from(sent(i))).sum();
            assert_eq!(counted.sent_bytes as usize, bytes, "{what}");
            assert_eq!(counted.send_calls as usize, calls.len(), "{what}");
        }
    }
}

/// A count hides why the others are unsent, so they go again one by one, in the same call.
#[cfg(mmsg_calls)]
#[test]
fn s8_any_count_of_headers_leaves_the_rest_in_order() {
    let Some(net) = Net::new() else { return };
    let batch = Batch::new(&ROWS);
    let msgs = batch.msgs(&net);
    let headers = headers(&ROWS);
    Backend::Mmsg.make_process_default().unwrap();
    for k in 1..=headers.len() {
        fault::script([(Call::SendMmsg, Fate::AtMost(k))]);
        assert_eq!(net.near.send_batch(&msgs).unwrap(), msgs.len());
        let mut made = vec![(Call::SendMmsg, headers.len())];
        made.extend(vec![(Call::SendMsg, 1); headers.len() - k]);
        assert_eq!(moving(), made, "{k}");
        assert!(net.near.gso());
        assert_eq!(net.delivered(), batch.expected(|_| true), "{k}");
    }
    for way in Way::ALL {
        for (first, second) in
            (1..headers.len()).flat_map(|i| (1..headers.len()).map(move |j| (i, j)))
        {
            fault::script([
                (Call::SendMmsg, Fate::AtMost(first)),
                (Call::SendMmsg, Fate::AtMost(second)),
            ]);
            assert_eq!(send_all(&net, way, &msgs), []);
            fault::script([]);
            assert_eq!(net.delivered(), batch.expected(|_| true), "{way:?} {first} {second}");
        }
    }
}

/// No kernel does that, and a call that went on for ever would be the worst answer.
#[cfg(mmsg_calls)]
#[test]
fn a_call_that_takes_no_batch_without_an_error_ends() {
    let Some(net) = Net::new() else { return };
    let batch = Batch::new(&ROWS);
    let msgs = batch.msgs(&net);
    Backend::Mmsg.make_process_default().unwrap();
    fault::script([(Call::SendMmsg, Fate::AtMost(0))]);
    assert_eq!(net.near.send_batch(&msgs).unwrap(), msgs.len());
    assert_eq!(calls().len(), 1 + ROWS.len());
    assert_eq!(net.delivered(), batch.expected(|_| true));

    let data = bytes(0, 40);
    let own = SendMsg::to(net.to(0), &data).with_segment_size(10);
    net.near.set_gso(false);
    fault::script([(Call::SendMmsg, Fate::AtMost(0))]);
    assert_eq!(net.near.send_batch(&[own]).unwrap(), 1);
    assert_eq!(calls().len(), 5);
    assert_eq!(net.delivered().concat().len(), 4);
}

/// EIO where the device has no checksum offload: the destination is known from then on.
#[cfg(mmsg_calls)]
#[test]
fn s1_no_offload_on_the_way_sends_the_same_bytes_again_and_tries_no_further_batch() {
    let Some(net) = Net::new() else { return };
    let batch = Batch::new(&ROWS);
    let msgs = batch.msgs(&net);
    for code in [errno::EIO, errno::EOPNOTSUPP] {
        Backend::Mmsg.make_process_default().unwrap();
        assert!(net.near.set_gso(true));
        let before = net.near.counters();
        fault::script([(Call::SendMmsg, Fate::Fail(code))]);
        assert_eq!(net.near.send_batch(&msgs).unwrap(), msgs.len());
        // The batches; then each one's datagrams, without another try.
        let split = ROWS.map(|row| (send_call(Backend::Mmsg, row.count), row.count));
        let expected: Vec<_> = [(Call::SendMmsg, ROWS.len())].into_iter().chain(split).collect();
        assert_eq!(calls(), expected);
        let counted = net.since(before);
        assert_eq!((counted.rejected_unsupported, counted.rejected_size), (1, 0));
        assert_eq!((counted.sent_batches, counted.sent_segments), (0, 0));
        assert_eq!(net.delivered(), batch.expected(|_| true));

        fault::script([]);
        assert_eq!(net.near.send_batch(&msgs).unwrap(), msgs.len());
        assert_eq!(calls(), split);
        assert_eq!(net.since(before).rejected_unsupported, 1);
        assert_eq!(net.delivered(), batch.expected(|_| true));
    }
}

#[cfg(mmsg_calls)]
#[test]
fn s4_a_rejected_size_costs_one_try_a_call_and_gso_stays_on() {
    const ROWS: [Row; 5] =
        [row(0, 300, 3), row(1, 300, 2), row(0, 400, 2), row(1, 200, 3), row(0, 200, 2)];
    let Some(net) = Net::new() else { return };
    let batch = Batch::new(&ROWS);
    let msgs = batch.msgs(&net);
    for code in [errno::EMSGSIZE, errno::EINVAL] {
        for _ in 0..2 {
            Backend::Mmsg.make_process_default().unwrap();
            let before = net.near.counters();
            fault::script([(Call::SendMmsg, Fate::Fail(code))]);
            assert_eq!(net.near.send_batch(&msgs).unwrap(), msgs.len());
            // As long and longer: one by one. Shorter: two batches.
            let [first, second, third] = [0, 1, 2].map(|i| ROWS[i].count);
            let expected = [ROWS.len(), first, second, third, 2].map(|n| (Call::SendMmsg, n));
            assert_eq!(calls(), expected);
            assert!(net.near.gso());
            let counted = net.since(before);
            assert_eq!((counted.rejected_unsupported, counted.rejected_size), (0, 1));
            assert_eq!((counted.sent_batches, counted.sent_segments), (2, 5));
            assert_eq!(net.delivered(), batch.expected(|_| true));
        }
    }
    // Shorter ones that are rejected as well lower the bound for what is left.
    fault::script([(Call::SendMmsg, Fate::Fail(errno::EINVAL)), (Call::SendMmsg, Fate::Kernel)]);
    let reversed: Vec<_> = msgs.iter().rev().copied().collect();
    assert_eq!(net.near.send_batch(&reversed).unwrap(), msgs.len());
    let split = [4, 3, 2, 1, 0].map(|i| (Call::SendMmsg, ROWS[i].count));
    assert_eq!(calls(), [&[(Call::SendMmsg, 5)], &split[..]].concat());
    assert_eq!(net.delivered().map(|delivered| delivered.len()), [7, 5]);
}

/// Only if the same messages go unsegmented was it the batch that was rejected.
#[test]
fn s7_an_error_that_the_messages_have_by_themselves_is_theirs() {
    let Some(net) = Net::new() else { return };
    let batch = Batch::new(&ROWS);
    let msgs = batch.msgs(&net);
    let headers = headers(&ROWS);
    for (backend, way) in BACKENDS.into_iter().flat_map(|b| Way::ALL.map(|way| (b, way))) {
        backend.make_process_default().unwrap();
        for (at, (code, _)) in (0..headers.len()).flat_map(|at| REJECTIONS.map(|e| (at, e))) {
            let (first, count) = headers[at];
            if count == 1 {
                continue;
            }
            let what = format!("{backend:?} {way:?} {code} at {at}");
            let before = net.near.counters();
            let again = (send_call(backend, count), Fate::Fail(code));
            let mut fates = stop_at(backend, headers.len(), at, code);
            fates.push(again);
            if at > 0 {
                // The call ends with a count then, and the next one meets the error.
                fates.push((next_call(backend, way, headers.len(), at), Fate::Fail(code)));
                fates.extend((way != Way::Each).then_some(again));
            }
            fault::script(fates);
            assert_eq!(send_all(&net, way, &msgs), [(first, code)], "{what}");
            fault::finish();
            assert_eq!(net.delivered(), batch.expected(|i| i != first), "{what}");
            assert!(net.near.gso(), "{what}");
            let counted = net.since(before);
            assert_eq!((counted.rejected_unsupported, counted.rejected_size), (0, 0), "{what}");
        }
    }
}

/// The messages of a rejected batch go one by one, and may stop there at any of them.
#[test]
fn s7_an_error_within_the_second_try_is_of_the_message_that_it_meets() {
    let Some(net) = Net::new() else { return };
    let batch = Batch::new(&[row(0, 40, 5)]);
    let msgs = batch.msgs(&net);
    for (backend, way) in BACKENDS.into_iter().flat_map(|b| Way::ALL.map(|way| (b, way))) {
        backend.make_process_default().unwrap();
        for ((rejection, cause), (code, k)) in REJECTIONS
            .into_iter()
            .flat_map(|r| OTHERS.map(|code| (1..5).map(move |k| (r, (code, k)))))
            .flatten()
        {
            let what = format!("{backend:?} {way:?} {rejection}, {code} at {k}");
            assert!(net.near.set_gso(true));
            let mut fates = vec![(Call::SendMsg, Fate::Fail(rejection))];
            fates.extend(stopped_send(backend, 5, k, code));
            // The next call meets it again, unless it is reported once. It offers a batch of what is left,
            // or one message, or those one by one.
            let batch_again = cause == Cause::Size && 5 - k > 1 && way != Way::Each;
            if code != errno::ECONNREFUSED {
                let left = if batch_again { 1 } else { 5 - k };
                fates.push((next_call(backend, way, left, 0), Fate::Fail(code)));
                let split = (send_call(backend, 5 - k), Fate::Fail(code));
                fates.extend((batch_again && is_split(code)).then_some(split));
            }
            fault::script(fates);
            let failed = send_all(&net, way, &msgs);
            fault::finish();
            let expected = if code == errno::EAGAIN { vec![] } else { vec![(k, code)] };
            assert_eq!(failed, expected, "{what}");
            let sent = |i| code == errno::EAGAIN || i != k;
            assert_eq!(net.delivered(), batch.expected(sent), "{what}");
            assert!(net.near.gso(), "{what}");
        }
    }
}

/// A filter by length, a full buffer for long messages: each datagram has its own result.
#[test]
fn d4_a_batch_that_meets_any_error_goes_as_its_datagrams() {
    let Some(net) = Net::new() else { return };
    let batch = Batch::new(&[row(0, 40, 5), row(1, 30, 3)]);
    let msgs = batch.msgs(&net);
    let ways = BACKENDS.into_iter().flat_map(|b| Way::ALL.map(|way| (b, way)));
    for ((backend, way), code) in ways.flat_map(|way| OTHERS.map(|code| (way, code))) {
        if !is_split(code) {
            continue;
        }
        backend.make_process_default().unwrap();
        for k in 0..5 {
            // The batch, and datagram k by itself, as often as it is offered.
            let mut fates = stop_at(backend, 2, 0, code);
            fates.extend(stop_at(backend, 5, k, code));
            if k > 0 {
                // The next call: a batch of what is left, with the other one behind it, or one message.
                let single = k == 4 || way == Way::Each;
                fates.push((next_call(backend, way, 2, 0), Fate::Fail(code)));
                let split = (send_call(backend, 5 - k), Fate::Fail(code));
                fates.extend((!single).then_some(split));
            }
            fault::script(fates);
            let what = format!("{backend:?} {way:?} {code} at {k}");
            assert_eq!(send_all(&net, way, &msgs), [(k, code)], "{what}");
            fault::finish();
            assert_eq!(net.delivered(), batch.expected(|i| i != k), "{what}");
            assert!(net.near.gso(), "{what}");
        }
    }
    let counted = net.near.counters();
    assert_eq!((counted.rejected_size, counted.rejected_unsupported), (0, 0));
}

/// On a connected socket an ICMP error about an earlier datagram is reported once. It is not lost because
/// the datagrams go all the same.
#[test]
fn d4_an_icmp_error_that_a_batch_takes_is_returned_by_the_next_call() {
    let Some(net) = Net::new() else { return };
    let data: Vec<_> = (0..3).map(|i| bytes(i, 40)).collect();
    let msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data)).collect();
    net.near.get_ref().connect(net.to(0)).unwrap();
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        let codes = numbers::ICMP_ERRORS.iter().copied().filter(|code| {
            is_split(*code) && REJECTIONS.iter().all(|(rejection, _)| rejection != code)
        });
        for code in codes {
            fault::script([(Call::SendMsg, Fate::Fail(code))]);
            assert_eq!(net.near.send_batch(&msgs).unwrap(), 3);
            fault::finish();
            assert_eq!(errno(net.near.send_batch(&msgs)), code);
            assert_eq!(net.near.send_batch(&msgs).unwrap(), 3);
        }
        fault::script([(Call::SendMsg, Fate::Fail(errno::EPERM))]);
        assert_eq!([(); 2].map(|()| net.near.send_batch(&msgs).unwrap()), [3, 3]);
        fault::finish();
    }
}

/// The program's own limit, for networks that drop the end of a burst.
#[test]
fn a_batch_has_no_more_segments_than_its_builder_allows() {
    if Net::new().is_none() {
        return;
    }
    for (most, batches) in [(0, 0), (1, 0), (10, 3), (64, 1), (1_000, 1)] {
        let mut net = Net::new().expect("as before");
        let builder = crate::Offload::builder().gro(false).max_segments(most);
        net.near = builder.build(socket()).expect("a UDP socket");
        let batch = Batch::new(&[row(0, 40, 30)]);
        for backend in BACKENDS {
            backend.make_process_default().unwrap();
            let before = net.near.counters();
            assert_eq!(net.near.send_batch(&batch.msgs(&net)).unwrap(), 30);
            let counted = net.since(before);
            let segments = if batches > 0 { 30 } else { 0 };
            assert_eq!((counted.sent_batches, counted.sent_segments), (batches, segments));
            assert_eq!(net.delivered(), batch.expected(|_| true));
        }
    }
}

/// A batch stays within the kernel's limits.
#[test]
fn s5_a_long_run_is_several_batches() {
    let Some(net) = Net::new() else { return };
    for (rows, batches) in [([row(0, 4, 2 * MAX_SEGMENTS + 2)], 3), ([row(1, 1_472, 50)], 2)] {
        let batch = Batch::new(&rows);
        for backend in BACKENDS {
            backend.make_process_default().unwrap();
            let before = net.near.counters();
            fault::script([]);
            let msgs = batch.msgs(&net);
            assert_eq!(net.near.send_batch(&msgs).unwrap(), msgs.len());
            let expected = match backend {
                Backend::Mmsg => vec![(Call::SendMmsg, batches)],
                Backend::Msg => vec![(Call::SendMsg, 1); batches],
            };
            assert_eq!(calls(), expected);
            let counted = net.since(before);
            assert_eq!((counted.sent_batches, counted.rejected_size), (batches as u64, 0));
            assert_eq!(net.delivered(), batch.expected(|_| true));
        }
    }
}
