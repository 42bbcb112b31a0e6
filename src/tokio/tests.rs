//! Deferred errors of an earlier call, which no kernel can be made to leave at will.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Duration;

use ::tokio::net::UdpSocket;

use crate::sys::Direction;
use crate::sys::fault::{self, Fate};
use crate::{
    AsyncBatchSocket, RecvBatch, RecvMsg, SendMsg, SendQueue, engine::deferred_error, sys,
};

/// Runs a test with a socket that has nothing to receive, and no space to send since its peer reads nothing.
fn with_idle_socket<F: Future<Output = ()>>(test: impl FnOnce(UdpSocket) -> F) {
    let runtime = ::tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (socket, _peer) = UnixDatagram::pair().expect("a pair");
        socket.set_nonblocking(true).expect("it is a flag");
        while socket.send(b"full").is_ok() {}
        let socket = UdpSocket::from_std(OwnedFd::from(socket).into()).expect("in a runtime");
        test(socket).await;
    });
}

fn keep(socket: &UdpSocket, direction: Direction) {
    let error = io::Error::from_raw_os_error(libc::ECONNREFUSED);
    deferred_error::defer(sys::borrow(socket), direction, &error);
}

/// The future's first poll returns the error; it cannot have waited for anything.
#[track_caller]
fn returns_at_once<T>(future: impl Future<Output = io::Result<T>>) {
    let mut cx = std::task::Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut cx) {
        Poll::Ready(Err(error)) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
        Poll::Ready(Ok(_)) => panic!("nothing is there"),
        Poll::Pending => panic!("it waits for the socket"),
    }
}

async fn waits<T>(future: impl Future<Output = io::Result<T>>) {
    let limited = ::tokio::time::timeout(Duration::from_millis(1), future).await;
    assert!(limited.is_err(), "it is returned once");
}

#[test]
fn r10_a_receive_returns_its_deferred_error_without_waiting() {
    with_idle_socket(async |socket| {
        let mut batch = RecvBatch::new(2, 16);
        let mut memory = [0; 16];
        let mut msgs = [RecvMsg::new(&mut memory)];
        keep(&socket, Direction::Receive);
        returns_at_once(socket.recv_into(&mut batch));
        waits(socket.recv_into(&mut batch)).await;
        keep(&socket, Direction::Receive);
        returns_at_once(socket.recv_batch(&mut msgs));
        waits(socket.recv_batch(&mut msgs)).await;
        keep(&socket, Direction::Receive);
        returns_at_once(poll_fn(|cx| socket.poll_recv_into(cx, &mut batch)));
        waits(poll_fn(|cx| socket.poll_recv_into(cx, &mut batch))).await;
        keep(&socket, Direction::Receive);
        returns_at_once(poll_fn(|cx| socket.poll_recv_batch(cx, &mut msgs)));
    });
}

#[test]
fn r10_a_send_returns_its_deferred_error_without_waiting() {
    with_idle_socket(async |socket| {
        let msgs = [SendMsg::new(b"one"), SendMsg::new(b"two")];
        let mut queue = SendQueue::new(1_000);
        queue.push(&msgs[0]).expect("there is space");
        keep(&socket, Direction::Send);
        returns_at_once(socket.send_batch(&msgs));
        waits(socket.send_batch(&msgs)).await;
        keep(&socket, Direction::Send);
        returns_at_once(socket.flush(&mut queue));
        assert_eq!(queue.len(), 1);
        keep(&socket, Direction::Send);
        returns_at_once(poll_fn(|cx| socket.poll_send_batch(cx, &msgs)));
        keep(&socket, Direction::Send);
        returns_at_once(poll_fn(|cx| socket.poll_flush(cx, &mut queue, &mut 0)));

        // A message's error, for sends that go on past it.
        keep(&socket, Direction::Send);
        let (mut failed, mut done) = (Vec::new(), 0);
        waits(socket.send_each(&msgs, |index, _| failed.push(index))).await;
        assert_eq!(failed, [0]);
        keep(&socket, Direction::Send);
        let mut note = |index, _| failed.push(index);
        waits(poll_fn(|cx| socket.poll_send_each(cx, &msgs, &mut done, &mut note))).await;
        assert_eq!((done, failed), (1, vec![0, 0]));
    });
}

/// `EHOSTUNREACH` of a connected socket is about a datagram sent before, and the kernel returns it once. Of a
/// message with a destination of its own it is that message's.
#[test]
fn r10_a_send_from_an_iterator_defers_what_the_system_reports_once() {
    const FIRST_STEP: usize = 64;
    let runtime = ::tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        for is_connected in [true, false] {
            let (socket, peer) = (udp().await, udp().await);
            let to = peer.local_addr().expect("it is bound");
            if is_connected {
                socket.connect(to).await.expect("connecting does nothing but remember");
            }
            let msg = if is_connected { SendMsg::new(b"one") } else { SendMsg::to(to, b"one") };
            let mut offered = 0;
            fault::decide_by(move |_, count| {
                offered += count;
                if offered > FIRST_STEP { Fate::Fail(libc::EHOSTUNREACH) } else { Fate::Kernel }
            });
            let sent = socket.send_iter([msg; FIRST_STEP + 1]).await;
            fault::script([]);
            assert_eq!(sent.expect("some were sent before"), FIRST_STEP);
            let next = socket.send_batch(&[msg]).await;
            let errno = next.err().and_then(|error| error.raw_os_error());
            assert_eq!(errno, is_connected.then_some(libc::EHOSTUNREACH));
            assert_eq!(socket.send_batch(&[msg]).await.expect("it is returned once"), 1);
        }
    });
}

async fn udp() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.expect("a loopback socket")
}
