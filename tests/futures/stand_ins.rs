//! Sends on test doubles that make no progress, fail or return wrong counts.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mmsg::{AsyncBatchSocket, BatchSocket, RecvBatch, SendMsg, SendWaiter};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::{run, udp};
use crate::common::{msgs, numbered, queue_of};

/// A test double that takes the calls, and a UDP socket that provides the readiness.
struct DoubleWithSocket<D> {
    socket: UdpSocket,
    calls: D,
}

impl<D: BatchSocket + Sync> AsyncBatchSocket for DoubleWithSocket<D> {
    type Socket = UdpSocket;

    fn tokio_socket(&self) -> &UdpSocket {
        &self.socket
    }

    fn batch_call(
        &self,
        call: &mut dyn FnMut(&dyn BatchSocket) -> std::io::Result<usize>,
    ) -> std::io::Result<usize> {
        let result = call(&self.calls);
        // Another task finds the socket full, and then there is space again. (kqueue reports no such event.)
        if cfg!(target_os = "linux") {
            let full = || Err::<(), _>(std::io::ErrorKind::WouldBlock.into());
            let _ = self.socket.try_io(Interest::WRITABLE, full);
            SockRef::from(&self.socket).send_to(b"", &self.socket.local_addr()?.into())?;
        }
        result
    }
}

/// Sends and receives nothing, but claims any number of messages.
struct Liar;

impl BatchSocket for Liar {
    fn recv_batch(&self, _: &mut [mmsg::RecvMsg<'_>]) -> std::io::Result<usize> {
        Ok(usize::MAX)
    }

    fn send_batch(&self, _: &[SendMsg<'_>]) -> std::io::Result<usize> {
        Ok(usize::MAX)
    }

    fn recv_into(&self, _: &mut RecvBatch) -> std::io::Result<usize> {
        Ok(usize::MAX)
    }
}

/// Rejects bad messages, counts the offered ones, and returns a count that is too large by `extra`.
struct OfferCounter {
    extra: usize,
    offered: AtomicUsize,
}

/// A payload that the double rejects.
const BAD: &[u8] = b"bad";

impl BatchSocket for OfferCounter {
    fn recv_batch(&self, _: &mut [mmsg::RecvMsg<'_>]) -> std::io::Result<usize> {
        Ok(0)
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> std::io::Result<usize> {
        self.offered.fetch_add(msgs.len(), Ordering::Relaxed);
        match msgs.iter().position(|msg| msg.slices().next() == Some(BAD)) {
            Some(0) => Err(std::io::ErrorKind::InvalidInput.into()),
            Some(good) => Ok(good),
            None => Ok(msgs.len().saturating_add(self.extra)),
        }
    }
}

/// Of the messages all, none, every second, every hundredth, or only the first are bad.
#[test]
fn failures_are_offered_alone_and_counts_are_clamped() {
    const N: usize = 1_024;
    run(async {
        let mut double = DoubleWithSocket {
            socket: udp().0,
            calls: OfferCounter { extra: 0, offered: 0.into() },
        };
        let cases = [1, usize::MAX, 2, 100, N].map(|bad| [0, 1, usize::MAX].map(|e| (bad, e)));
        for (bad, extra) in cases.into_iter().flatten() {
            double.calls.extra = extra;
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
            let offered = std::mem::take(double.calls.offered.get_mut());
            assert!(offered <= 8 * N, "{offered} offered, every {bad}th bad");
        }
    });
}

/// Makes no call, and returns this error or claims that it moved this number of messages.
struct Claims {
    socket: UdpSocket,
    result: Result<usize, std::io::ErrorKind>,
    calls: AtomicUsize,
}

impl AsyncBatchSocket for Claims {
    type Socket = UdpSocket;

    fn tokio_socket(&self) -> &UdpSocket {
        &self.socket
    }

    fn batch_call(
        &self,
        _: &mut dyn FnMut(&dyn BatchSocket) -> std::io::Result<usize>,
    ) -> std::io::Result<usize> {
        assert!(self.calls.fetch_add(1, Ordering::Relaxed) < 1_000, "calls without end");
        Ok(self.result?)
    }
}

#[test]
fn a_send_that_takes_nothing_ends_whatever_it_claims() {
    run(async {
        let payloads = numbered(3, 8);
        for count in [0, 1, 3, usize::MAX] {
            let claims = Claims { socket: udp().0, result: Ok(count), calls: 0.into() };
            let mut queue = queue_of(msgs(&payloads));
            let kind = |error: std::io::Error| error.kind();
            let sent = claims.flush(&mut queue).await.map_err(kind);
            assert_eq!((sent, queue.len()), (Err(std::io::ErrorKind::WriteZero), 3));
            let sent = claims.flush_each(&mut queue, |_, error| panic!("{error}")).await;
            assert_eq!(sent.map_err(kind), Err(std::io::ErrorKind::WriteZero));
            let sent = claims.send_each(msgs(&payloads), |_, error| panic!("{error}")).await;
            assert_eq!(sent.map_err(kind), Err(std::io::ErrorKind::WriteZero));
            assert_eq!((queue.len(), claims.calls.into_inner()), (3, 3));
        }
    });
}

#[test]
fn each_message_gets_the_error_of_an_implementation_that_makes_no_call() {
    run(async {
        let (result, payloads) = (Err(std::io::ErrorKind::PermissionDenied), numbered(3, 8));
        let denies = Claims { socket: udp().0, result, calls: 0.into() };
        let mut failed = Vec::new();
        let sent =
            denies.send_each(msgs(&payloads), |i, error| failed.push((i, error.kind()))).await;
        assert_eq!(sent.expect("each error is reported"), 3);
        assert_eq!(failed, [0, 1, 2].map(|i| (i, std::io::ErrorKind::PermissionDenied)));
    });
}

#[test]
fn a_batch_counts_no_more_than_was_offered() {
    run(async {
        let (socket, addr) = udp();
        socket.send_to(b"makes it readable", addr).await.expect("loopback takes it");
        let liar = Arc::new(DoubleWithSocket { socket, calls: Liar });
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
