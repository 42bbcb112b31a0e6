//! Sends on test doubles that make no progress, fail or return wrong counts.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mmsg::{AsyncBatchSocket, RecvBatch, SendMsg, SendWaiter};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::{Call, run, through, udp};
use crate::common::{SendsBy, msgs, numbered, queue_of};

/// A payload that the double rejects.
const BAD: &[u8] = b"bad";

/// Of the messages all, none, every second, every hundredth, or only the first are bad.
#[test]
fn failures_are_offered_alone_and_counts_are_clamped() {
    const N: usize = 1_024;
    run(async {
        let cases = [1, usize::MAX, 2, 100, N].map(|bad| [0, 1, usize::MAX].map(|e| (bad, e)));
        for (bad, extra) in cases.into_iter().flatten() {
            let offered = AtomicUsize::new(0);
            let double = SendsBy(|msgs: &[SendMsg<'_>]| {
                offered.fetch_add(msgs.len(), Ordering::Relaxed);
                match msgs.iter().position(|msg| msg.slices().next() == Some(BAD)) {
                    Some(0) => Err(ErrorKind::InvalidInput.into()),
                    Some(good) => Ok(good),
                    None => Ok(msgs.len().saturating_add(extra)),
                }
            });
            let double = through(udp().0, |socket, call| {
                let result = call(&double);
                // Another task finds the socket full, and then there is space again. (kqueue reports no such event.)
                if cfg!(target_os = "linux") {
                    let full = || Err::<(), _>(ErrorKind::WouldBlock.into());
                    let _ = socket.try_io(Interest::WRITABLE, full);
                    SockRef::from(socket).send_to(b"", &socket.local_addr()?.into())?;
                }
                result
            });
            let is_bad = |i: &usize| i % bad == 0 && bad < usize::MAX;
            let payload = |i| if is_bad(&i) { BAD } else { b"good" };
            let msgs: Vec<_> = (0..N).map(|i| SendMsg::new(payload(i))).collect();
            let expected: Vec<_> = (0..N).filter(is_bad).collect();
            let mut queue = queue_of(&msgs);

            let mut failed = Vec::new();
            let sent = double.send_each(msgs, |i, _| failed.push(i)).await;
            assert_eq!(sent.expect("the others are taken"), N);
            assert_eq!(failed, expected);
            let flushed = double.flush_each(&mut queue, |_, _| _ = failed.pop()).await;
            assert_eq!((flushed.expect("it goes on"), failed.len(), queue.len()), (N, 0, 0));
            let offered = offered.load(Ordering::Relaxed);
            assert!(offered <= 8 * N, "{offered} offered, every {bad}th bad");
        }
    });
}

/// Calls that end with `result` and touch no socket. Fails a test in which they do not end.
fn claims(
    result: Result<usize, ErrorKind>,
    calls: &AtomicUsize,
) -> impl Fn(&UdpSocket, &mut Call<'_>) -> io::Result<usize> {
    move |_, _| {
        assert!(calls.fetch_add(1, Ordering::Relaxed) < 1_000, "calls without end");
        Ok(result?)
    }
}

#[test]
fn a_send_that_takes_nothing_ends_whatever_it_claims() {
    run(async {
        let payloads = numbered(3, 8);
        for count in [0, 1, 3, usize::MAX] {
            let calls = AtomicUsize::new(0);
            let claims = through(udp().0, claims(Ok(count), &calls));
            let mut queue = queue_of(msgs(&payloads));
            let kind = |error: io::Error| error.kind();
            let sent = claims.flush(&mut queue).await.map_err(kind);
            assert_eq!((sent, queue.len()), (Err(ErrorKind::WriteZero), 3));
            let sent = claims.flush_each(&mut queue, |_, error| panic!("{error}")).await;
            assert_eq!(sent.map_err(kind), Err(ErrorKind::WriteZero));
            let sent = claims.send_each(msgs(&payloads), |_, error| panic!("{error}")).await;
            assert_eq!(sent.map_err(kind), Err(ErrorKind::WriteZero));
            assert_eq!((queue.len(), calls.load(Ordering::Relaxed)), (3, 3));
        }
    });
}

#[test]
fn each_message_gets_the_error_of_an_implementation_that_makes_no_call() {
    run(async {
        let (calls, payloads) = (AtomicUsize::new(0), numbered(3, 8));
        let denies = through(udp().0, claims(Err(ErrorKind::PermissionDenied), &calls));
        let mut failed = Vec::new();
        let sent =
            denies.send_each(msgs(&payloads), |i, error| failed.push((i, error.kind()))).await;
        assert_eq!(sent.expect("each error is reported"), 3);
        assert_eq!(failed, [0, 1, 2].map(|i| (i, ErrorKind::PermissionDenied)));
    });
}

#[test]
fn a_batch_counts_no_more_than_was_offered() {
    run(async {
        let (socket, addr) = udp();
        socket.send_to(b"makes it readable", addr).await.expect("loopback takes it");
        let liar = Arc::new(through(socket, |_, _| Ok(usize::MAX)));
        let payloads = numbered(3, 8);
        let msgs = msgs(&payloads);
        assert_eq!(liar.send_batch(&msgs).await.expect("no error"), 3);
        let mut waiter = SendWaiter::new();
        let sent = poll_fn(|cx| liar.poll_send_batch(cx, &mut waiter, &msgs)).await;
        assert_eq!(sent.expect("no error"), 3);

        let mut memory = [[0; 8]; 2];
        let mut msgs = memory.each_mut().map(|buffer| mmsg::RecvMsg::new(buffer));
        assert_eq!(liar.recv_batch(&mut msgs).await.expect("no error"), 2);
        let mut batch = RecvBatch::new(2, 8);
        let received = liar.recv_into(&mut batch).await;
        assert_eq!((received.expect("no error"), batch.message_count()), (0, 0));
    });
}
