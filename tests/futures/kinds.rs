//! All sockets that have the futures, plain, in an `Offload` and behind pointers.

use std::io::IoSliceMut;
#[cfg(unix)]
use std::os::fd::AsRawFd;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::sync::Arc;

use mmsg::{
    AsSocket, AsyncBatchSocket, BatchSocket, BatchSocketExt, Message, Offload, RecvBatch, RecvMsg,
    SendMsg, SendQueue,
};
#[cfg(unix)]
use socket2::Socket;
use tokio::io::Interest;
#[cfg(unix)]
use tokio::io::unix::AsyncFd;
#[cfg(unix)]
use tokio::net::UnixDatagram;

use super::{adopted, run, udp};
use crate::common::queue_of;
#[cfg(unix)]
use crate::common::sockets::unix_pair;
use crate::common::sockets::{borrow, connected};

const TEXTS: [&[u8]; 3] = [b"one", b"two", b"three"];

/// All futures, on two connected sockets.
async fn every_method<S: AsyncBatchSocket>(near: S, far: S) {
    let msgs = TEXTS.map(SendMsg::new);
    let no_error = |index, error| panic!("message {index}: {error}");
    let mut batch = RecvBatch::for_gro(8);
    let mut expect = async |count| {
        let mut got = 0;
        while got < count {
            assert!(far.recv_into(&mut batch).await.expect("it is sent") > 0);
            for datagram in &batch {
                assert_eq!(datagram.data(), TEXTS[got % TEXTS.len()]);
                got += 1;
            }
        }
    };
    assert_eq!(near.send_batch(&msgs).await.expect("it is taken"), 3);
    assert_eq!(near.send_each(msgs, no_error).await.expect("it is taken"), 3);
    let mut queue = queue_of(msgs);
    assert_eq!(near.flush(&mut queue).await.expect("it is taken"), 3);
    expect(9).await;
    msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
    let flushed = near.flush_each(&mut queue, |_, error| panic!("{error}")).await;
    assert_eq!(flushed.expect("it is taken"), 3);
    expect(3).await;

    near.send_batch(&msgs[..1]).await.expect("it is taken");
    let mut memory = vec![0; 65_535];
    let mut one = [RecvMsg::new(&mut memory)];
    assert_eq!(far.recv_batch(&mut one).await.expect("it is sent"), 1);
    assert_eq!(one[0].data(), TEXTS[0]);
    assert_eq!(far.recv_batch(&mut []).await.expect("it waits for nothing"), 0);
    near.send_batch(&msgs[..1]).await.expect("it is taken");
    let mut spare: Vec<u8> = Vec::with_capacity(65_535);
    let mut one = [RecvMsg::uninit(spare.spare_capacity_mut())];
    assert_eq!(far.recv_batch(&mut one).await.expect("it is sent"), 1);
    assert_eq!(one[0].data(), TEXTS[0]);
    near.send_batch(&msgs[..1]).await.expect("it is taken");
    let (mut buffers, mut lens) = ([IoSliceMut::new(&mut memory)], Vec::new());
    let each = |index, message: Message<'_>| lens.push((index, message.len()));
    let received = far.recv_slices(&mut buffers, each).await;
    assert_eq!((received.expect("it is sent"), lens), (1, vec![(0, TEXTS[0].len())]));
}

/// A socket by itself and in all its wrappers.
async fn every_form<S: AsyncBatchSocket + AsSocket + Send>(pair: impl Fn() -> (S, S)) {
    let (a, b) = pair();
    every_method(&a, &b).await;
    every_method(Box::new(&a), Box::new(&b)).await;
    every_method(a, b).await;
    let (a, b) = pair();
    every_method(Arc::new(a), Arc::new(b)).await;
    let (a, b) = pair();
    let [a, b] = [a, b].map(|socket| Offload::new(socket).expect("a socket"));
    every_method(&a, &b).await;
    every_method(Arc::new(a), Arc::new(b)).await;
}

#[cfg(unix)]
fn unix() -> (UnixDatagram, UnixDatagram) {
    let (a, b) = unix_pair();
    let [a, b] = [a, b].map(|socket| {
        socket.set_nonblocking(true).expect("an open socket");
        UnixDatagram::from_std(socket).expect("in a runtime")
    });
    (a, b)
}

/// Any other descriptor.
#[cfg(unix)]
fn registered<T: AsRawFd>(socket: T) -> AsyncFd<T> {
    // tokio 1.47 lacks the replacement.
    #[allow(deprecated)]
    AsyncFd::new(socket).expect("in a runtime")
}

#[test]
fn every_socket_of_tokio_has_every_future() {
    run(async {
        every_form(|| {
            let (a, b) = connected();
            (adopted(a), adopted(b))
        })
        .await;
        #[cfg(unix)]
        every_form(unix).await;
        #[cfg(unix)]
        every_form(|| {
            let (a, b) = connected();
            let [a, b] = [a, b].map(|socket| {
                socket.set_nonblocking(true).expect("an open socket");
                registered(Socket::from(socket))
            });
            (a, b)
        })
        .await;
    });
}

/// In a spawned task, rustc must see that the futures are `Send`. In generic code it cannot for `send_each`.
#[test]
fn a_task_may_send_what_an_iterator_yields() {
    async fn generic(socket: &impl AsyncBatchSocket, queue: &mut SendQueue) -> usize {
        let sent = socket.send_batch(&[SendMsg::new(TEXTS[0])]).await.expect("it is taken");
        sent + socket.flush_each(queue, |_, _| {}).await.expect("it is taken")
    }
    run(async {
        let ((server, to), (client, _)) = (udp(), udp());
        client.connect(to).await.expect("connecting only stores the peer");
        let task = async move {
            let (mut batch, mut queue) = (RecvBatch::new(8, 64), SendQueue::new(1_000));
            client.send_each(TEXTS.iter().map(|t| SendMsg::new(t)), |_, _| {}).await?;
            server.recv_into(&mut batch).await?;
            let replies = batch.iter().filter_map(|d| d.reply(d.data()));
            server.send_each(replies, |_, error| panic!("{error}")).await?;
            std::io::Result::Ok(generic(&client, &mut queue).await)
        };
        let sent = tokio::spawn(task).await.expect("it does not panic");
        assert_eq!(sent.expect("loopback takes it"), 1);
    });
}

/// A non-blocking call inside `try_io` uses the descriptor, or the socket inside an `Offload`.
#[test]
fn a_call_without_waiting_goes_within_try_io() {
    run(async {
        let (a, b) = connected();
        let (near, far) = (adopted(a), Offload::new(adopted(b)).expect("a UDP socket"));
        let mut batch = RecvBatch::for_gro(4);
        near.writable().await.expect("it is");
        let sent = near.try_io(Interest::WRITABLE, || {
            borrow(&near).send_each(TEXTS.map(SendMsg::new), |_, error| panic!("{error}"))
        });
        assert_eq!(sent.expect("loopback takes it"), 3);
        far.get_ref().readable().await.expect("it is sent");
        let mut receive = || {
            far.get_ref()
                .try_io(Interest::READABLE, || far.state().on(far.get_ref()).recv_into(&mut batch))
        };
        assert!(receive().expect("it is there") > 0);
        while receive().is_ok() {}
        assert_eq!(far.state().counters().received, 3);
    });
}

/// Without an error queue, waiting for reports must not hang.
#[cfg(target_os = "linux")]
#[test]
fn without_an_error_queue_there_is_nothing_to_wait_for() {
    run(async {
        let (a, _b) = unix_pair();
        a.set_nonblocking(true).expect("an open socket");
        let kind = |error: std::io::Error| error.kind();
        let socket = registered(OwnedFd::from(a));
        let drained =
            socket.recv_errors(&mut [mmsg::error_queue::Report::EMPTY]).await.map_err(kind);
        assert_eq!(drained, Err(std::io::ErrorKind::Unsupported));
        let (socket, _) = udp();
        assert_eq!(socket.recv_errors(&mut []).await.expect("nothing is asked for"), 0);
    });
}
