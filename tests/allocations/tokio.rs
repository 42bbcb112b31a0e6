//! Futures, including those that wait.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Instant;

use crate::common::{repetitions, sockets};
use crate::counting::{Counts, counted};
use mmsg::{AsyncBatchSocket, BatchSocket, Offload, RecvBatch, RecvMsg, SendMsg, SendQueue};
use tokio::net::UdpSocket;

/// Messages in a batch.
const BATCH: usize = 64;
const PAYLOAD: [u8; 15] = *b"fifteen bytes!!";

/// Rounds of each call. An emulated machine is about fifty times slower and allocates in the same way.
fn rounds() -> usize {
    repetitions(1_000, 100)
}

/// Completes a future and also returns the allocations of all its polls.
async fn polled<R>(future: impl Future<Output = R>) -> (R, Counts) {
    let mut future = pin!(future);
    let mut sum = Counts::NONE;
    let result = poll_fn(|cx| {
        let (polled, counts) = counted(|| future.as_mut().poll(cx));
        sum.allocations += counts.allocations;
        sum.bytes += counts.bytes;
        polled
    });
    (result.await, sum)
}

struct Rounds<'a> {
    near: &'a dyn BatchSocket,
    msgs: Vec<SendMsg<'a>>,
    queue: SendQueue,
    batch: RecvBatch,
    recv_msgs: Vec<RecvMsg<'a>>,
}

impl Rounds<'_> {
    /// A receive of either kind, which waits or finds datagrams.
    async fn receive(&mut self, far: &impl AsyncBatchSocket, i: usize) -> Counts {
        let Self { near, msgs, batch, recv_msgs, .. } = self;
        let size = 1 + i % BATCH;
        let send = || {
            near.send_batch(&msgs[..size]).expect("loopback takes it");
            sockets::settle();
        };
        let waits = i % 3 == 0;
        if !waits {
            send();
        }
        let receive = async {
            match i % 2 {
                _ if !waits && i % 7 == 0 => {
                    batch.clear();
                    far.recv_more_until(batch, Instant::now()).await
                }
                0 => far.recv_into(batch).await,
                _ => far.recv_batch(recv_msgs).await,
            }
        };
        let late = async {
            if waits {
                send();
            }
        };
        let ((received, counts), ()) = tokio::join!(polled(receive), late);
        assert_eq!(received.expect("it was sent"), size);
        counts
    }

    /// A send of one of the kinds.
    async fn send(&mut self, from: &impl AsyncBatchSocket, i: usize) -> Counts {
        let Self { msgs, queue, .. } = self;
        let msgs = &msgs[..1 + i % BATCH];
        msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
        let no_error = |index, error| panic!("{index}: {error}");
        let (sent, counts) = polled(async {
            from.flush(queue).await?;
            from.send_each(msgs.iter().copied(), no_error).await?;
            msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
            from.flush_each(queue, |_, error| panic!("{error}")).await?;
            from.send_batch(msgs).await
        })
        .await;
        assert_eq!(sent.expect("loopback takes it"), msgs.len());
        counts
    }
}

async fn allocate_nothing(far: &impl AsyncBatchSocket<Socket = UdpSocket>) {
    let sink = sockets::udp4();
    let near = sockets::udp4();
    let to = far.tokio_socket().local_addr().expect("it is bound");
    let mut memory = vec![[0; 16]; BATCH];
    let mut rounds_of = Rounds {
        near: &near,
        msgs: vec![SendMsg::to(to, &PAYLOAD); BATCH],
        queue: SendQueue::new(1 << 20),
        batch: RecvBatch::new(BATCH, 16),
        recv_msgs: memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect(),
    };
    // The warm-up makes a call of every kind and size.
    let warm_up = 12 * BATCH;
    for i in 0..warm_up + rounds() {
        let counts = rounds_of.receive(far, i).await;
        assert!(i < warm_up || counts == Counts::NONE, "receive {i}: {counts:?}");
    }
    rounds_of.msgs = vec![SendMsg::to(sockets::addr(&sink), &PAYLOAD); BATCH];
    for i in 0..warm_up + rounds() {
        let counts = rounds_of.send(far, i).await;
        assert!(i < warm_up || counts == Counts::NONE, "send {i}: {counts:?}");
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

fn far() -> UdpSocket {
    let socket = sockets::udp4();
    socket.set_nonblocking(true).expect("an open socket");
    UdpSocket::from_std(socket).expect("in a runtime")
}

#[test]
fn futures_on_a_socket_allocate_nothing() {
    run(async { allocate_nothing(&far()).await });
}

#[test]
fn futures_through_offload_allocate_nothing() {
    // GRO would change the number of messages.
    run(async {
        let far = Offload::builder().gro(false).build(far()).expect("a UDP socket");
        allocate_nothing(&far).await;
    });
}

/// tokio remembers a socket's error until a call clears it.
#[test]
fn futures_on_a_socket_that_met_errors_allocate_nothing() {
    run(async {
        let (socket, peer) = (far(), sockets::refusing());
        socket.connect(sockets::addr(&peer)).await.expect("it does nothing but remember");
        let to = socket.local_addr().expect("it is bound");
        let mut batch = RecvBatch::new(4, 16);
        for i in 0..100 {
            socket.send(&PAYLOAD).await.expect("loopback takes it");
            let (received, refused) = polled(socket.recv_into(&mut batch)).await;
            received.expect_err("it was refused");
            let late = async { peer.send_to(&PAYLOAD, to) };
            let ((received, waited), sent) =
                tokio::join!(polled(socket.recv_into(&mut batch)), late);
            sent.expect("loopback takes it");
            assert_eq!(received.expect("it was sent"), 1);
            assert!(
                i < 10 || [refused, waited] == [Counts::NONE; 2],
                "{i}: {refused:?} {waited:?}"
            );
        }
    });
}
