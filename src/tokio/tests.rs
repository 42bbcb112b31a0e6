//! Errors that a test cannot make the kernel return.

use std::future::Future;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ::tokio::net::UdpSocket;
use ::tokio::time;

use crate::sys::fault::{self, Call, Fate};
use crate::{AsyncBatchSocket, Backend, RecvBatch, SendMsg, SendQueue, SendWaiter};

const REFUSED: Fate = Fate::Fail(libc::ECONNREFUSED);

/// Runs a test with a socket that is readable and writable, and its address.
fn with_ready_socket<F: Future<Output = ()>>(test: impl FnOnce(UdpSocket, SocketAddr) -> F) {
    Backend::Mmsg.make_process_default().expect("the platform has it");
    let runtime = ::tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a loopback socket");
        let addr = socket.local_addr().expect("it is bound");
        socket.send_to(b"one", addr).await.expect("loopback takes a datagram");
        socket.readable().await.expect("the datagram has arrived");
        test(socket, addr).await;
    });
}

/// The result of the future's first poll, so it did not wait.
#[track_caller]
fn at_once<T>(future: impl Future<Output = io::Result<T>>) -> Result<T, Option<i32>> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result.map_err(|error| error.raw_os_error()),
        Poll::Pending => panic!("the future waits for the socket"),
    }
}

/// The future waits, and makes at most 300 calls a second meanwhile; a slow machine makes fewer.
#[cfg(has_descriptors)]
async fn makes_few_calls<T: std::fmt::Debug>(
    mut waits: std::pin::Pin<&mut impl Future<Output = T>>,
) {
    fault::script([]);
    let (began, mut calls) = (Instant::now(), 0);
    while calls < 20 {
        let waited = time::timeout(Duration::from_millis(100), waits.as_mut()).await;
        assert!(waited.is_err() && began.elapsed().as_secs() < 120, "{calls} calls: {waited:?}");
        calls += fault::log().len();
    }
    let most = 10 + began.elapsed().as_millis() * 3 / 10;
    assert!(calls as u128 <= most, "{calls} calls, {most} at most");
}

/// OpenBSD and macOS may refuse a send of a socket that stays writable: no event follows.
#[cfg(has_descriptors)]
#[test]
fn a_send_refused_by_a_writable_socket_is_made_again() {
    with_ready_socket(async |socket, addr| {
        let socket = std::sync::Arc::new(socket);
        fault::set_other_unix(true);
        let msgs = [SendMsg::to(addr, b"one"), SendMsg::to(addr, b"two")];
        let mut queue = SendQueue::new(1_000);
        let refuse = |queue: &mut SendQueue| {
            msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
            // Twice: the first wait must not use up what ends the second.
            fault::script([Fate::Fail(libc::EAGAIN); 2].map(|fate| (Call::SendMmsg, fate)));
        };
        // A future that never ends fails the test.
        let limit = Duration::from_secs(120);
        for way in 0..5 {
            queue.clear();
            refuse(&mut queue);
            let mut waiter = SendWaiter::new();
            let sent = time::timeout(limit, async {
                match way {
                    0 => socket.send_batch(&msgs).await,
                    1 => socket.send_each(msgs, |_, error| panic!("{error}")).await,
                    2 => socket.flush(&mut queue).await,
                    3 => socket.flush_each(&mut queue, |_, error| panic!("{error}")).await,
                    _ => poll_fn(|cx| socket.poll_send_batch(cx, &mut waiter, &msgs)).await,
                }
            });
            assert_eq!(sent.await.expect("it is made again").expect("both are sent"), 2, "{way}");
            assert_eq!(fault::finish().len(), 3, "{way}");
        }
        fault::set_other_unix(false);
    });
}

/// Readiness is about the sender's buffer, "would block" also about the receiver's queue.
#[cfg(has_descriptors)]
#[test]
fn a_message_to_a_unix_address_goes_soon_after_its_receiver_has_read() {
    use std::os::unix::net::UnixDatagram;
    with_ready_socket(async |_, _| {
        for (holds, way) in
            [false, true].into_iter().flat_map(|holds| (0..3).map(move |n| (holds, n)))
        {
            let name = |role| format!("mmsg-full-{role}-{}-{holds}-{way}", std::process::id());
            let paths = ["reads", "holds"].map(|role| std::env::temp_dir().join(name(role)));
            let [reads, _holds] =
                paths.each_ref().map(|path| UnixDatagram::bind(path).expect("a path of our own"));
            let near =
                std::sync::Arc::new(::tokio::net::UnixDatagram::unbound().expect("a socket"));
            near.writable().await.expect("nothing was sent");
            // A quarter of the buffer keeps the sender from being writable.
            for _ in 0..if holds { 8 } else { 0 } {
                let _ = near.try_send_to(&[0; 6_000], &paths[1]);
            }
            let other = UnixDatagram::unbound().expect("a socket");
            [&reads, &other].iter().for_each(|socket| socket.set_nonblocking(true).expect("open"));
            while other.send_to(b"full", &paths[0]).is_ok() {}

            let mut waiter = SendWaiter::new();
            let msgs = [SendMsg::to_unix(crate::UnixAddr::Path(&paths[0]), b"late"); 2];
            let mut send = Box::pin(async {
                match way {
                    0 => near.send_batch(&msgs).await,
                    1 => near.send_each(msgs, |_, error| panic!("{error}")).await,
                    _ => poll_fn(|cx| near.poll_send_batch(cx, &mut waiter, &msgs)).await,
                }
            });
            makes_few_calls(send.as_mut()).await;
            let mut buffer = [0; 8];
            while reads.recv(&mut buffer).is_ok() {}
            let sent = time::timeout(Duration::from_secs(120), send.as_mut()).await;
            assert_eq!(sent.expect("there is space").expect("both are sent"), 2);
            let calls = fault::log().len();
            assert!(calls <= 2, "{calls} calls: {holds} {way}");
            assert_eq!(reads.recv(&mut buffer).expect("it was sent"), 4);
            paths.iter().for_each(|path| std::fs::remove_file(path).expect("it is there"));
        }
    });
}

/// The types let an `AsyncFd` of a pipe compile, so its calls must fail.
#[cfg(has_descriptors)]
#[test]
fn a_descriptor_of_no_socket_is_an_error_that_says_so() {
    use ::tokio::io::unix::AsyncFd;
    use ::tokio::net::unix::pipe;
    with_ready_socket(async |_, addr| {
        let (writer, reader) = pipe::pipe().expect("a pipe");
        let fd = reader.into_nonblocking_fd().expect("a descriptor");
        // `AsyncFd`'s other constructor is `unsafe`.
        #[allow(deprecated)]
        let pipe = AsyncFd::new(fd).expect("tokio can watch it");
        drop(writer);
        let mut batch = RecvBatch::new(2, 16);
        let received = pipe.recv_into(&mut batch).await;
        assert_eq!(received.unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
        let sent = pipe.send_batch(&[SendMsg::to(addr, b"one")]).await;
        assert_eq!(sent.unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
    });
}

/// A receive that has waited hears from its one call that no more is there, if the kernel says so.
#[cfg(linux_like)]
#[test]
fn the_next_receive_on_an_idle_socket_makes_no_call() {
    with_ready_socket(async |socket, addr| {
        let mut batch = RecvBatch::new(2, 16);
        assert_eq!(at_once(socket.recv_into(&mut batch)), Ok(1));
        // In the last round an error ends the call, and the kernel may have more.
        for (fate, calls) in [(Fate::Kernel, 0), (Fate::Kernel, 0), (Fate::AtMost(1), 1)] {
            let mut receive = Box::pin(socket.recv_into(&mut batch));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(receive.as_mut().poll(&mut cx).is_pending());
            fault::script([(Call::RecvMmsg, fate)]);
            socket.send_to(b"one", addr).await.expect("loopback takes a datagram");
            assert_eq!(receive.await.expect("it is there"), 1);
            assert_eq!(fault::finish().len(), 1);
            assert!(pin!(socket.recv_into(&mut batch)).poll(&mut cx).is_pending());
            assert_eq!(fault::log().len(), calls);
        }
    });
}

/// No event would tell of the next error, so it looks now and then.
#[cfg(linux_like)]
#[test]
fn a_receive_beside_a_report_sleeps() {
    with_ready_socket(async |socket, _| {
        crate::Ancillary::ERRORS.require(&socket).expect("Linux has it");
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
        let to = nobody.local_addr().expect("it is bound");
        nobody.connect(to).expect("it hears only itself");
        socket.send_to(b"lost", to).await.expect("loopback takes a datagram");
        let mut batch = RecvBatch::new(2, 16);
        assert_eq!(socket.recv_into(&mut batch).await.expect("one is there"), 1);
        makes_few_calls(pin!(socket.recv_into(&mut batch))).await;
    });
}

/// The error goes to `on_error` and the next message goes, also in an unconnected socket's error mode.
#[cfg(linux_like)]
#[test]
fn a_message_that_the_system_refuses_is_reported_and_the_others_go() {
    use crate::tests::send::{OneOfThree, TRIES};

    with_ready_socket(async |socket, addr| {
        crate::Ancillary::ERRORS.require(&socket).expect("Linux has it");
        let mut batch = RecvBatch::new(2, 16);
        for code in crate::tests::ICMP {
            let msgs = [SendMsg::to(addr, b"one"); 7];
            for flushes in [false, true] {
                let kernel = OneOfThree::install(code);
                let mut failed = 0;
                let mut fail = |error: io::Error| {
                    assert_eq!((error.raw_os_error(), kernel.give_up()), (Some(code), TRIES));
                    failed += 1;
                };
                let sent = if flushes {
                    let mut queue = SendQueue::new(1 << 12);
                    msgs.iter().for_each(|msg| queue.push(msg).expect("the queue is ample"));
                    at_once(socket.flush_each(&mut queue, |_, error| fail(error)))
                } else {
                    at_once(socket.send_each(msgs, |_, error| fail(error)))
                };
                assert_eq!((sent, failed), (Ok(7), 2), "{code} {flushes}");
            }
            // A receive returns the error, before and after it has found messages.
            fault::script([(Call::RecvMmsg, Fate::Fail(code)); 17]);
            assert_eq!(at_once(socket.recv_into(&mut batch)), Err(Some(code)));
            fault::script([(Call::RecvMmsg, Fate::Fail(code)); 17]);
            let deadline = Instant::now() + Duration::from_secs(60);
            assert_eq!(at_once(socket.recv_more_until(&mut batch, deadline)), Err(Some(code)));
            fault::script([]);
        }
    });
}

/// `try_iter` of a channel may have more after its `None`, and other iterators panic then.
#[test]
fn an_iterator_is_not_asked_again_after_its_end() {
    with_ready_socket(async |socket, addr| {
        let (mut left, mut has_ended) = (3, false);
        let msgs = std::iter::from_fn(|| {
            assert!(!std::mem::replace(&mut has_ended, left == 0), "it was asked again");
            left -= usize::from(left > 0);
            (!has_ended).then(|| SendMsg::to(addr, b"data"))
        });
        // The first call finds the socket full, so its messages are kept, and the end is met before the last send.
        fault::script([(Call::SendMmsg, Fate::AtMost(1)), (Call::SendMmsg, REFUSED)]);
        assert_eq!(at_once(socket.send_each(msgs, |_, _| {})), Ok(3));
        fault::script([]);
    });
}

/// tokio's timer adds to it.
#[test]
fn the_last_instant_there_is_is_a_deadline() {
    with_ready_socket(async |socket, _| {
        let mut last = Instant::now();
        let seconds = (0..64).rev().map(|bit| Duration::from_secs(1 << bit));
        let nanos = (0..30).rev().map(|bit| Duration::from_nanos(1 << bit));
        for step in seconds.chain(nanos) {
            last = last.checked_add(step).unwrap_or(last);
        }
        let mut batch = RecvBatch::new(1, 16);
        fault::script([]);
        assert_eq!(socket.recv_more_until(&mut batch, last).await.unwrap(), 1);
        // It waits.
        batch.clear();
        let mut waiting = pin!(socket.recv_more_until(&mut batch, last));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
}
