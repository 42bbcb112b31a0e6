//! Messages with a segment size of the caller's: sent whole, or segmented in user space.

use std::io::IoSlice;

use super::offload_kit::Net;
use super::*;
use crate::control::ControlBuf;
use crate::{BatchSocketExt, SendMeta};

const SIZE: u16 = 10;

/// 35 bytes, to be segmented into four datagrams.
fn data() -> Vec<u8> {
    (0..35).collect()
}

fn own<'m>(net: &Net, data: &'m [u8]) -> SendMsg<'m> {
    SendMsg::to(net.to(0), data).with_segment_size(SIZE)
}

fn pieces(data: &[u8]) -> Vec<Vec<u8>> {
    data.chunks(SIZE.into()).map(<[u8]>::to_vec).collect()
}

#[test]
fn s4_a_message_whose_segment_size_is_rejected_is_segmented_in_user_space() {
    let Some(net) = Net::new() else { return };
    let data = data();
    let parts = [IoSlice::new(&data[..7]), IoSlice::new(&data[7..])];
    let gathered = SendMsg::gather(&parts).with_dest(net.to(0));
    let gathered = gathered.with_segment_size(SIZE);
    for (backend, msg) in BACKENDS.into_iter().flat_map(|b| [(b, own(&net, &data)), (b, gathered)])
    {
        backend.make_process_default().unwrap();
        for code in [errno::EINVAL, errno::EMSGSIZE, errno::EIO, errno::EOPNOTSUPP] {
            assert!(net.near.set_gso(true));
            let before = net.near.counters();
            fault::script([(Call::SendMsg, Fate::Fail(code))]);
            assert_eq!(net.near.send_batch(&[msg]).unwrap(), 1);
            let mut made = vec![(Call::SendMsg, 1)];
            match backend {
                Backend::Mmsg => made.push((Call::SendMmsg, 4)),
                Backend::Msg => made.extend([(Call::SendMsg, 1); 4]),
            }
            assert_eq!(calls(), made, "{backend:?} {code}");
            assert!(net.near.gso());
            let counted = net.near.counters();
            assert_eq!(
                (counted.sent - before.sent, counted.sent_bytes - before.sent_bytes),
                (4, 35)
            );
            assert_eq!(counted.sent_batches, before.sent_batches);
            assert_eq!(net.delivered(), [pieces(&data), vec![]]);
        }
    }
}

#[cfg(mmsg_calls)]
#[test]
fn s4_one_rejection_a_call_is_enough_for_messages_with_a_segment_size_too() {
    let Some(net) = Net::new() else { return };
    let data = data();
    let plain = SendMsg::to(net.to(1), &data);
    let msgs = [own(&net, &data), own(&net, &data), plain, own(&net, &data), plain];
    Backend::Mmsg.make_process_default().unwrap();
    fault::script([(Call::SendMmsg, Fate::Fail(errno::EINVAL))]);
    assert_eq!(net.near.send_batch(&msgs).unwrap(), msgs.len());
    let split = (Call::SendMmsg, 4);
    let single = (Call::SendMsg, 1);
    assert_eq!(calls(), [(Call::SendMmsg, 5), split, split, single, split, single]);
    assert_eq!(net.near.counters().rejected_size, 1);
    let three = [pieces(&data), pieces(&data), pieces(&data)].concat();
    assert_eq!(net.delivered(), [three, vec![data.clone(); 2]]);

    // Segmented by the kernel it counts as one batch.
    let before = net.near.counters();
    assert_eq!(net.near.send_batch(&msgs[..1]).unwrap(), 1);
    let counted = net.near.counters();
    assert_eq!((counted.sent - before.sent, counted.sent_batches - before.sent_batches), (4, 1));
    assert_eq!(net.delivered(), [pieces(&data), vec![]]);
}

/// The fates by which a message of four datagrams is left after `k` of them. The rest is offered again
/// to a socket that is full: a signal may have ended the wait.
fn leave_half_sent(backend: Backend, k: usize, errno: i32) -> Vec<(Call, Fate)> {
    let mut fates = stopped_send(backend, 4, k, errno);
    if errno == errno::EAGAIN {
        fates.push((send_call(backend, 4 - k), Fate::Fail(errno)));
    }
    fates
}

/// The call that left it half-sent does not count it, and the next one that is offered it goes on.
#[test]
fn d8_a_message_that_is_half_sent_goes_on_when_it_is_offered_again() {
    let Some(net) = Net::new() else { return };
    let data = data();
    let parts = [IoSlice::new(&data[..7]), IoSlice::new(&data[7..25]), IoSlice::new(&data[25..])];
    let meta = SendMeta::new().with_segment_size(SIZE);
    let gathered = SendMsg::gather(&parts).with_dest(net.to(0)).with_meta(&meta);
    let plain = SendMsg::to(net.to(1), &data);
    let cases = BACKENDS.into_iter().flat_map(|b| (1..4).map(move |k| (b, k)));
    let cases = cases.flat_map(|case| [(case, 0), (case, 1)]);
    // A full socket, or an error hidden by a count.
    let codes = [errno::EAGAIN, errno::ENOBUFS, errno::EPERM];
    for (((backend, k), before), code) in cases.flat_map(|case| codes.map(|code| (case, code))) {
        if before == 0 && code != errno::EAGAIN {
            continue;
        }
        let what = format!("{backend:?} {k} {before} {code}");
        backend.make_process_default().unwrap();
        net.near.set_gso(false);
        let msgs = [plain, own(&net, &data), plain];
        let mut fates = vec![(Call::SendMsg, Fate::Kernel); before];
        fates.extend(leave_half_sent(backend, k, code));
        fault::script(fates);
        let first = net.near.send_batch(&msgs[1 - before..]);
        fault::finish();
        match before {
            0 => assert_eq!(errno(first), code, "{what}"),
            _ => assert_eq!(first.unwrap(), 1, "{what}"),
        }
        assert_eq!(net.delivered(), [pieces(&data)[..k].to_vec(), vec![data.clone(); before]]);
        // With GSO too, and from other buffers.
        net.near.set_gso(k % 2 == 0);
        fault::script([]);
        let other = net.near.send_batch(&[SendMsg::to(net.to(1), &data).with_meta(&meta)]);
        assert_eq!(other.unwrap(), 1, "another destination is another message");
        assert_eq!(net.delivered(), [vec![], pieces(&data)], "{what}");
        assert_eq!(net.near.send_batch(&[gathered, plain]).unwrap(), 2, "{what}");
        assert_eq!(net.delivered(), [pieces(&data)[k..].to_vec(), vec![data.clone()]], "{what}");
        // That is all: the next one is another message.
        assert_eq!(net.near.send_batch(&[gathered]).unwrap(), 1, "{what}");
        assert_eq!(net.delivered(), [pieces(&data), vec![]], "{what}");
    }
}

/// It is about a datagram sent before.
#[cfg(mmsg_calls)]
#[test]
fn d8_connection_refused_in_the_middle_of_a_message_waits_for_the_next_call() {
    let Some(net) = Net::new() else { return };
    let data = data();
    for (backend, k) in BACKENDS.into_iter().flat_map(|b| (1..4).map(move |k| (b, k))) {
        backend.make_process_default().unwrap();
        net.near.set_gso(false);
        fault::script(stopped_send(backend, 4, k, errno::ECONNREFUSED));
        assert_eq!(net.near.send_batch(&[own(&net, &data)]).unwrap(), 1);
        fault::finish();
        assert_eq!(net.delivered(), [pieces(&data), vec![]], "{backend:?} {k}");
        assert_eq!(errno(net.near.send_batch(&[own(&net, &data)])), errno::ECONNREFUSED);
        assert!(net.delivered().concat().is_empty());
        assert_eq!(net.near.send_batch(&[own(&net, &data)]).unwrap(), 1);
        assert_eq!(net.delivered(), [pieces(&data), vec![]], "{backend:?} {k}");
    }
}

/// No part of it has left: the next call is as its first.
#[test]
fn d8_a_full_socket_takes_nothing_of_a_message_that_is_to_be_segmented() {
    let Some(net) = Net::new() else { return };
    let data = data();
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        net.near.set_gso(false);
        fault::script([(send_call(backend, 4), Fate::Fail(errno::EAGAIN))]);
        assert_eq!(errno(net.near.send_batch(&[own(&net, &data)])), errno::EAGAIN);
        assert_eq!(calls().len(), 1, "nobody waits or tries again");
        assert!(net.delivered().concat().is_empty());
    }
}

/// Threads that share an `Offload` and send each its own messages, every one of which is left
/// half-sent: none goes twice, and each thread gets the outcome of its own.
#[test]
fn d23_half_sent_messages_of_many_threads_are_each_completed_by_their_own() {
    const THREADS: usize = 8;
    const MESSAGES: usize = 12;
    let Some(net) = Net::new() else { return };
    let to = net.to(0);
    net.near.set_gso(false);
    let payload = |thread: usize, i: usize| -> Vec<u8> {
        (0..4).flat_map(|j| [thread as u8, i as u8, j, 0, 0, 0, 0, 0, 0, 0]).collect()
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let near = &net.near;
            scope.spawn(move || {
                Backend::Msg.make_process_default().unwrap();
                for i in 0..MESSAGES {
                    let data = payload(thread, i);
                    let msg = SendMsg::to(to, &data).with_segment_size(SIZE);
                    fault::script(leave_half_sent(Backend::Msg, 1 + i % 3, errno::EAGAIN));
                    assert_eq!(errno(near.send_batch(&[msg])), errno::EAGAIN);
                    std::thread::yield_now();
                    assert_eq!(near.send_batch(&[msg]).unwrap(), 1);
                    fault::finish();
                }
            });
        }
    });
    let [delivered, _] = net.delivered();
    assert_eq!(delivered.len(), THREADS * MESSAGES * 4);
    for thread in 0..THREADS {
        let its = delivered.iter().filter(|data| data[0] == thread as u8).cloned();
        let all = (0..MESSAGES).flat_map(|i| pieces(&payload(thread, i)));
        assert_eq!(its.collect::<Vec<_>>(), all.collect::<Vec<_>>());
    }
}

/// It has one outcome: the call that returns the error does not send it again.
#[test]
fn s7_a_segmented_message_that_meets_an_error_has_failed() {
    let Some(net) = Net::new() else { return };
    let cases = BACKENDS.into_iter().flat_map(|b| (0..4).map(move |k| (b, k)));
    for ((backend, k), before) in cases.flat_map(|case| [(case, 0), (case, 1)]) {
        let data = data();
        let plain = SendMsg::to(net.to(1), &data);
        let msgs = [plain, own(&net, &data), plain];
        backend.make_process_default().unwrap();
        net.near.set_gso(false);
        let msgs = &msgs[1 - before..];
        let mut fates = vec![(Call::SendMsg, Fate::Kernel); before];
        if k > 0 {
            fates.extend(stopped_send(backend, 4, k, errno::ENOBUFS));
        }
        let fail = |left| (send_call(backend, left), Fate::Fail(errno::ENOBUFS));
        fates.extend((k == 0).then_some(fail(4)));
        // The next call goes on with it.
        fates.extend((before == 1).then_some(fail(4 - k)));
        fault::script(fates);
        let mut failed = Vec::new();
        let tell = &mut |i, error: io::Error| failed.push((i, error.raw_os_error()));
        assert_eq!(net.near.send_each(msgs, tell).unwrap(), msgs.len());
        fault::finish();
        assert_eq!(failed, [(before, Some(errno::ENOBUFS))]);
        let plain = vec![data.clone(); 1 + before];
        assert_eq!(net.delivered(), [pieces(&data)[..k].to_vec(), plain], "{backend:?} {k}");
    }
}

/// The datagrams are the same whether the kernel or the crate segments the message.
#[test]
fn s4_odd_segment_sizes_mean_the_same_with_gso_and_without() {
    let Some(net) = Net::new() else { return };
    let data = data();
    fault::script([]);
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        for gso in [true, false] {
            net.near.set_gso(gso);
            // Nothing to segment: one datagram, empty or not.
            let msgs = [own(&net, &[]), own(&net, &data[..4]), own(&net, &data[..10])];
            assert_eq!(net.near.send_batch(&msgs).unwrap(), 3, "{backend:?} {gso}");
            let expected = vec![vec![], data[..4].to_vec(), data[..10].to_vec()];
            assert_eq!(net.delivered(), [expected, vec![]], "{backend:?} {gso}");

            // No size at all, as the kernel has it.
            let none = SendMeta::new().with_segment_size(0);
            let whole = SendMsg::to(net.to(0), &data).with_meta(&none);
            assert_eq!(net.near.send_batch(&[msgs[1], whole, whole]).unwrap(), 3);
            let expected = vec![data[..4].to_vec(), data.clone(), data.clone()];
            assert_eq!(net.delivered(), [expected, vec![]], "{backend:?} {gso}");
        }
    }
}

/// As many buffers as the kernel takes, and more of them than a turn has datagrams.
#[test]
fn d20_a_message_of_many_buffers_is_segmented_in_user_space() {
    let Some(net) = Net::new() else { return };
    let data: Vec<u8> = (0..2_000u32).map(|i| (i % 251) as u8).collect();
    let parts: Vec<_> = data.chunks(2).map(IoSlice::new).collect();
    let with_empties: Vec<_> =
        data.chunks(30).flat_map(|part| [IoSlice::new(&[]), IoSlice::new(part)]).collect();
    for ((backend, parts), size) in BACKENDS
        .into_iter()
        .flat_map(|b| [(b, &parts), (b, &with_empties)])
        .flat_map(|case| [7, 30, 1_000, 1_999].map(|size| (case, size)))
    {
        backend.make_process_default().unwrap();
        net.near.set_gso(false);
        fault::script([]);
        let msg = SendMsg::gather(parts).with_dest(net.to(0));
        let msg = msg.with_segment_size(size);
        assert_eq!(net.near.send_batch(&[msg]).unwrap(), 1);
        let pieces: Vec<_> = data.chunks(size.into()).map(<[u8]>::to_vec).collect();
        assert_eq!(net.delivered(), [pieces, vec![]], "{backend:?} {size}");
    }
    // One more than the kernel takes: its own error, with GSO and without.
    let parts = vec![IoSlice::new(b"x"); 1_025];
    let msg = SendMsg::gather(&parts).with_dest(net.to(0));
    let msg = msg.with_segment_size(100);
    for gso in [true, false] {
        net.near.set_gso(gso);
        assert_eq!(errno(net.near.send_batch(&[msg])), errno::EMSGSIZE);
        let plain = SendMsg::to(net.to(0), b"good");
        assert_eq!(net.near.send_batch(&[plain, msg, plain]).unwrap(), 1);
        assert_eq!(net.delivered(), [vec![b"good".to_vec()], vec![]]);
    }
}

/// The crate's segment size stands first, and the kernel uses the last one that it finds.
#[test]
fn s6_a_segment_size_among_raw_control_messages_is_heeded() {
    let Some(net) = Net::new() else { return };
    let data = data();
    let mut control = ControlBuf::new();
    let (level, kind) = crate::sys::numbers::SEGMENT.expect("Linux has it");
    let (short, long) = (SIZE.to_ne_bytes(), u32::from(SIZE).to_ne_bytes());
    let size = if crate::sys::numbers::SEGMENT_LEN == 2 { &short[..] } else { &long };
    control.push(level, kind, size).unwrap();
    let msgs = [SendMsg::to(net.to(0), &data).with_control(&control); 2];
    fault::script([]);
    assert_eq!(net.near.send_batch(&msgs).unwrap(), 2);
    assert_eq!(net.delivered(), [[pieces(&data), pieces(&data)].concat(), vec![]]);
}

/// An error about a datagram sent before, met when an iterator's first messages have gone.
#[cfg(mmsg_calls)] // Windows: of an unconnected socket it is passed over.
#[test]
fn r11_connection_refused_met_late_by_an_iterator_is_returned_by_the_next_send() {
    const MOST: u32 = 130;
    let Some(net) = Net::new() else { return };
    let numbers = numbers(0..MOST);
    // To and fro, so that each message has a header of its own.
    let msgs: Vec<_> =
        numbers.iter().enumerate().map(|(i, n)| SendMsg::to(net.to(i % 2), n)).collect();
    Backend::Msg.make_process_default().unwrap();
    for k in [1, 31, 32, 63, 64, 65, 100, 128, 129] {
        let mut fates = vec![(Call::SendMsg, Fate::Kernel); k];
        fates.push((Call::SendMsg, Fate::Fail(errno::ECONNREFUSED)));
        fault::script(fates);
        assert_eq!(net.near.send_iter(msgs.iter().copied()).unwrap(), k);
        fault::finish();
        let next = net.near.send_iter(msgs[k..].iter().copied());
        assert_eq!(errno(next), errno::ECONNREFUSED, "{k}");
        let left = msgs.len() - k;
        assert_eq!(net.near.send_iter(msgs[k..].iter().copied()).unwrap(), left);
        assert_eq!(net.delivered().map(|delivered| delivered.len()), [65, 65]);
    }
}

/// An iterator may send, too: a message that it leaves half-sent and then yields goes on where it stopped.
#[cfg(mmsg_calls)]
#[test]
fn d8_a_message_that_its_iterator_has_sent_in_part_goes_on() {
    let Some(net) = Net::new() else { return };
    let data = data();
    for backend in BACKENDS {
        backend.make_process_default().unwrap();
        net.near.set_gso(true);
        let mut fates = vec![(Call::SendMsg, Fate::Fail(errno::EMSGSIZE))];
        fates.extend(leave_half_sent(backend, 2, errno::EAGAIN));
        fault::script(fates);
        let mut left = Some(own(&net, &data));
        let sent = net.near.send_iter(std::iter::from_fn(|| {
            let msg = left.take()?;
            assert_eq!(errno(net.near.send_batch(&[msg])), errno::EAGAIN);
            Some(msg)
        }));
        fault::finish();
        assert_eq!(sent.unwrap(), 1, "{backend:?}");
        assert_eq!(net.delivered(), [pieces(&data), vec![]], "{backend:?}");
    }
}
