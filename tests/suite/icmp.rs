//! ICMP errors about sent datagrams: which calls return them, how often, and which datagrams are still sent.

use std::io;
use std::net::UdpSocket;

use mmsg::error_queue::{Event, Report, drain_errors};
use mmsg::{Ancillary, BatchSocket, BatchSocketExt, Offload, SendMsg, SendQueue};
use socket2::SockRef;

use crate::common::recv::payloads;
use crate::common::sockets::{addr, refusing, settle_answers, udp4};
use crate::common::{code, no_failure};

/// A socket with `ERRORS` on, and one that receives what it sends.
fn reporting() -> (UdpSocket, UdpSocket) {
    let (from, open) = (udp4(), udp4());
    let on = Ancillary::ERRORS.enable(&from).expect("a socket");
    assert!(on.contains(Ancillary::ERRORS));
    (from, open)
}

/// Empties the error queue and counts the reports.
fn drain(socket: &UdpSocket, is_expected: impl Fn(&Report) -> bool) -> usize {
    let mut reports = [Report::EMPTY; 64];
    let count = drain_errors(socket, &mut reports).expect("it is a socket");
    assert!(count < reports.len());
    assert!(reports[..count].iter().all(is_expected), "{:?}", &reports[..count]);
    count
}

fn is_connection_refused(report: &Report) -> bool {
    report.event == Event::Refused
}

/// The kernel sends the first message of each batch and swallows the error that it causes. The queue has all errors.
#[test]
fn sends_of_several_to_a_closed_port_end_and_the_queue_has_every_error() {
    type Send = fn(&UdpSocket, &[SendMsg<'_>]) -> io::Result<usize>;
    let ways: [Send; 2] = [
        |socket, msgs| socket.send_batch(msgs),
        |socket, msgs| {
            let mut queue = SendQueue::new(1 << 16);
            msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
            socket.flush(&mut queue)
        },
    ];
    let peer = refusing();
    let numbers: Vec<_> = (0u8..60).map(|i| [i]).collect();
    let msgs: Vec<_> = numbers.iter().map(|data| SendMsg::new(data)).collect();
    for (way, window) in ways.into_iter().flat_map(|way| [2, 3, 20].map(|window| (way, window))) {
        let (socket, _) = reporting();
        socket.connect(addr(&peer)).expect("connecting only stores the peer");
        let (mut at, mut refused) = (0, 0);
        while at < msgs.len() {
            match way(&socket, &msgs[at..msgs.len().min(at + window)]) {
                Ok(sent) => {
                    assert!(sent > 0, "neither sent nor failed");
                    at += sent;
                }
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
                    refused += 1;
                    assert!(refused < 1_000, "the same messages fail for ever");
                }
            }
        }
        settle_answers();
        assert!(refused <= msgs.len(), "{refused} errors for {} datagrams", msgs.len());
        assert_eq!(drain(&socket, is_connection_refused), msgs.len());
    }
}

/// The error is only in the queue. Behind the first message it ends a call with a count.
#[test]
fn an_icmp_error_about_another_datagram_fails_no_call() {
    let (from, open) = reporting();
    // (A GSO batch causes one ICMP error.)
    let copy = from.try_clone().expect("a second descriptor");
    let offload = Offload::builder().gso(false).build(copy).expect("a socket");
    let closed = refusing();
    let (good, bad) =
        (SendMsg::to(addr(&open), b"good"), SendMsg::to(addr(&closed), b"nobody listens"));
    for (msgs, refused) in [
        (&[bad, good, good][..], 1),
        (&[good, bad, good], 1),
        (&[bad, bad, good, bad, good, good], 3),
    ] {
        let sockets: [&dyn BatchSocket; 2] = [&from, &offload];
        for socket in sockets {
            let mut sent = 0;
            while sent < msgs.len() {
                let count = socket.send_batch(&msgs[sent..]).expect("the error is another's");
                assert!(count > 0, "neither sent nor failed");
                sent += count;
            }
            assert_eq!(socket.send_each(msgs, no_failure).expect("each is taken"), msgs.len());
            let good = 2 * (msgs.len() - refused);
            assert_eq!(payloads(&open, good), vec![b"good"; good]);
            settle_answers();
            assert_eq!(drain(&from, is_connection_refused), 2 * refused);
        }
    }
}

/// As `drain_errors` documents, such a datagram is tried twice if it is the first of a call.
#[test]
fn a_datagram_that_is_too_big_is_reported_for_each_try() {
    let (from, open) = reporting();
    let too_big = vec![0; 65_510];
    let good = SendMsg::to(addr(&open), b"good");
    let bad = SendMsg::to(addr(&open), &too_big);
    let is_too_big = |report: &Report| matches!(report.event, Event::TooBig { .. });

    for msgs in [&[bad][..], &[bad, good]] {
        assert_eq!(code(from.send_batch(msgs)), libc::EMSGSIZE);
        assert_eq!(drain(&from, is_too_big), 2);
    }
    // Behind another message it ends the batch, and the next call starts with it.
    assert_eq!(from.send_batch(&[good, bad, good]).expect("the first is good"), 1);
    assert_eq!(drain(&from, is_too_big), 1);
    assert_eq!(code(from.send_batch(&[bad, good])), libc::EMSGSIZE);
    assert_eq!(drain(&from, is_too_big), 2);
    assert_eq!(payloads(&open, 1), [b"good"]);
}

/// What happened to datagrams to a closed port.
#[derive(Debug)]
struct Outcome {
    /// Datagrams that caused an ICMP error.
    refused: usize,
    /// Errors that calls returned.
    returned: usize,
    /// Errors left in the queue.
    queued: usize,
}

/// Sends good and bad datagrams alternately, one a call, so that each call meets the error of the previous one. Then
/// drains the queue.
fn by_turns(from: &UdpSocket, good: &SendMsg<'_>, bad: &SendMsg<'_>) -> Outcome {
    let (mut refused, mut returned) = (0, 0);
    let mut next = bad;
    for _ in 0..150 {
        match from.send_batch(&[*next]) {
            Ok(1) if std::ptr::eq(next, bad) => (refused, next) = (refused + 1, good),
            Ok(count) => {
                assert_eq!(count, 1);
                next = bad;
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
                returned += 1;
            }
        }
        settle_answers();
    }
    returned += usize::from(from.send_batch(&[*good]).is_err());
    Outcome { refused, returned, queued: drain(from, is_connection_refused) }
}

/// The kernel drops reports that do not fit the receive buffer.
#[test]
fn the_call_that_meets_an_error_returns_it_when_the_queue_is_full() {
    /// Errors that may be both returned and queued: the crate does not know the size of the next report and assumes a
    /// page, while these take less than a kilobyte.
    const BOTH: usize = 8;
    let (from, open) = reporting();
    SockRef::from(&from).set_recv_buffer_size(8 << 10).expect("less than the default");
    let closed = refusing();
    let (good, bad) =
        (SendMsg::to(addr(&open), b"good"), SendMsg::to(addr(&closed), b"nobody listens"));
    let outcome = by_turns(&from, &good, &bad);
    let Outcome { refused, returned, queued } = outcome;
    assert!(0 < queued && queued < refused, "{outcome:?}");
    assert!((refused..=refused + BOTH).contains(&(returned + queued)), "{outcome:?}");
    // Once there is space, the error is only in the queue, and no other datagram fails.
    assert_eq!(from.send_batch(&[good]).expect("returned once"), 1);
    assert_eq!(from.send_batch(&[bad]).expect("it is taken"), 1);
    settle_answers();
    assert_eq!(from.send_batch(&[good]).expect("it is innocent"), 1);
    assert_eq!(drain(&from, is_connection_refused), 1);
}
