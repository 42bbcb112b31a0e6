//! The recipes for a shared sender and for one datagram at a time, as examples.

use std::collections::HashSet;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use mmsg::{Offload, RecvBatch, SendMsg, prelude::*};
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

use crate::common::sockets::settle;

#[allow(dead_code)] // Its `main` is unused, and so are parts of the sender in it.
#[path = "../../examples/one_at_a_time.rs"]
mod one_at_a_time;

use one_at_a_time::{OneAtATime, shared_sender::Sender};

async fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a loopback socket");
    let addr = socket.local_addr().expect("it is bound");
    (socket, addr)
}

/// Receives numbers until `count` different ones have come, each once.
async fn numbers(receiver: UdpSocket, count: usize) {
    let (mut batch, mut seen) = (RecvBatch::new(64, 1500), HashSet::new());
    while seen.len() < count {
        receiver.recv_into(&mut batch).await.expect("a datagram");
        for datagram in &batch {
            assert!(seen.insert(datagram.data().to_vec()), "a datagram came twice");
        }
    }
}

/// The queue has space for two datagrams, so nearly every push waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_sender_sends_what_waited_for_space_and_ends_after_its_last_handle() {
    let ((socket, _), (receiver, to)) = (bound().await, bound().await);
    let capacity = 2 * mmsg::SendQueue::cost(&SendMsg::new(&[0; 4]));
    let (sender, flusher) = Sender::start(Arc::new(Offload::new(socket).expect("UDP")), capacity);
    let received = tokio::spawn(numbers(receiver, 200));
    for task in 0..20u16 {
        let sender = sender.clone();
        tokio::spawn(async move {
            for number in 0..10u16 {
                let data = [task.to_be_bytes(), number.to_be_bytes()].concat();
                sender.send(&SendMsg::to(to, &data)).await.expect("it can fit");
            }
        });
    }
    let refused = SendMsg::to(([127, 0, 0, 1], 0).into(), b"port");
    sender.send(&refused).await.expect("it can fit");
    let too_long = sender.send(&SendMsg::to(to, &[0; 2_000])).await;
    assert_eq!(too_long, Err(mmsg::errors::PushError::TooLong));
    drop(sender);
    assert_eq!(flusher.await.expect("it ends"), 1, "port 0 alone fails");
    received.await.expect("all came");
}

/// Such as in a `select!` whose other branch is busy.
#[tokio::test]
async fn a_task_that_asks_often_while_the_queue_is_full_waits_once() {
    struct Task;
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    let ((socket, _), (_receiver, to)) = (bound().await, bound().await);
    let msg = SendMsg::to(to, b"hello");
    let socket = Arc::new(Offload::new(socket).expect("UDP"));
    let (sender, flusher) = Sender::start(socket, mmsg::SendQueue::cost(&msg));
    sender.send(&msg).await.expect("there is space");
    let task = Arc::new(Task);
    let waker = Waker::from(task.clone());
    for _ in 0..100 {
        assert!(sender.poll_send(&mut Context::from_waker(&waker), &msg).is_pending());
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&task), 2);
    drop(sender);
    assert_eq!(flusher.await.expect("it ends"), 0);
    assert_eq!(Arc::strong_count(&task), 1, "the flusher has woken it");
}

async fn receive(socket: &OneAtATime) -> io::Result<Vec<u8>> {
    let mut memory = [0; 1500];
    let mut buf = ReadBuf::new(&mut memory);
    poll_fn(|cx| socket.poll_recv_from(cx, &mut buf)).await?;
    Ok(buf.filled().to_vec())
}

/// A task asks and goes; what its batch leaves is for the task that asks next, coalesced or not, each once.
#[tokio::test]
async fn what_a_task_leaves_of_a_batch_is_for_the_next() {
    let ((socket, to), (client, _)) = (bound().await, bound().await);
    let socket = Arc::new(OneAtATime::new(socket).expect("UDP").0);
    let data: Vec<_> = (0..300u16).map(|number| number.to_be_bytes().to_vec()).collect();
    let client = Offload::new(client).expect("UDP");
    let mut seen = Vec::new();
    for data in data.chunks(50) {
        let msgs = data.iter().map(|data| SendMsg::to(to, data));
        client.send_each(msgs, |_, error| panic!("{error}")).await.expect("sent");
        for _ in 0..10 {
            let socket = socket.clone();
            let task = tokio::spawn(async move {
                let mut seen = Vec::new();
                while seen.len() < 5 {
                    seen.push(receive(&socket).await.expect("one is left"));
                }
                seen
            });
            seen.extend(task.await.expect("it ends"));
        }
    }
    assert_eq!(seen, data);
}

/// The answers to a few datagrams leave before the runtime turns to another task, the others from the queue.
#[tokio::test]
async fn answers_to_a_few_datagrams_leave_at_once_and_those_to_many_together() {
    let ((socket, to), (client, _)) = (bound().await, bound().await);
    let socket = OneAtATime::new(socket).expect("UDP").0;
    client.connect(to).await.expect("connecting only stores the peer");
    for (asked, at_once) in [(1, 1), (4, 4), (9, 0), (2, 2)] {
        let mut memory = [0; 8];
        // Each datagram is a message of its own.
        for _ in 0..asked {
            client.send(b"ask").await.expect("loopback takes it");
        }
        settle();
        let (mut cx, mut answered) = (Context::from_waker(Waker::noop()), 0);
        poll_fn(|cx| socket.poll_readable(cx)).await.expect("datagrams");
        let mut buf = ReadBuf::new(&mut memory);
        while let Some(from) = socket.try_recv_from(&mut buf) {
            assert!(socket.poll_send_to(&mut cx, buf.filled(), from).is_ready());
            buf.clear();
            answered += 1;
        }
        assert_eq!(answered, asked);
        let read = socket2::SockRef::from(&client);
        settle();
        let mut peeked = [std::mem::MaybeUninit::uninit(); 8];
        assert_eq!(read.peek(&mut peeked).is_ok(), at_once > 0, "{asked} asked");
        for _ in 0..asked {
            assert_eq!(client.recv(&mut [0; 8]).await.expect("an answer"), 3);
        }
    }
}

#[tokio::test]
async fn a_shutdown_ends_a_receive_of_one() {
    let (socket, _) = bound().await;
    let descriptor = socket2::SockRef::from(&socket).try_clone().expect("a second descriptor");
    let socket = OneAtATime::new(socket).expect("UDP").0;
    let _ = descriptor.connect(&SocketAddr::from(([127, 0, 0, 1], 9)).into());
    descriptor.shutdown(std::net::Shutdown::Both).expect("a connected socket");
    let error = receive(&socket).await.expect_err("nothing can come");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn what_is_queued_is_sent_before_the_flusher_ends() {
    let ((socket, to), (client, from)) = (bound().await, bound().await);
    let (socket, flusher) = OneAtATime::new(socket).expect("UDP");
    let refused = ([127, 0, 0, 1], 0).into();
    for dest in [from, refused] {
        let sent = poll_fn(|cx| socket.poll_send_to(cx, b"hello", dest)).await.expect("queued");
        assert_eq!(sent, 5);
    }
    let full = poll_fn(|cx| socket.poll_send_to(cx, &vec![0; 2 << 20], from)).await;
    assert!(matches!(full, Err(error) if error.kind() != io::ErrorKind::WouldBlock));
    drop(socket);
    assert_eq!(flusher.await.expect("it ends"), 1, "port 0 alone fails");
    assert_eq!(client.recv_from(&mut [0; 8]).await.expect("it was sent"), (5, to));
}
