//! Futures, including those that wait.

use std::future::{Future, poll_fn};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::pin::pin;
use std::time::{Duration, Instant};

use crate::common::{repetitions, sockets};
use crate::counting::{Counts, counted};
use mmsg::{AsyncBatchSocket, BatchSocket, Offload, RecvBatch, RecvMsg, SendMsg, SendQueue};
use socket2::SockRef;
use tokio::io::Interest;
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

/// A full socket that tokio always takes for writable, and its peer. The peer has dissolved the connection (unix(7):
/// ECONNRESET).
async fn stuck() -> (UdpSocket, UnixDatagram) {
    let [near, far] = ["near", "far"].map(|end| {
        let name = format!("mmsg-allocations-{}-{end}", std::process::id());
        let name = SocketAddr::from_abstract_name(name).expect("a short name");
        UnixDatagram::bind_addr(&name).expect("the name is new")
    });
    near.connect_addr(&far.local_addr().expect("it is bound")).expect("it is there");
    far.connect_addr(&near.local_addr().expect("it is bound")).expect("it is there");
    near.set_nonblocking(true).expect("an open socket");
    let near = UdpSocket::from_std(OwnedFd::from(near).into()).expect("in a runtime");
    near.send(b"lost").await.expect("there is space");
    let none = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: an address of that length, which outlives the call.
    let result = unsafe { libc::connect(far.as_raw_fd(), &none, len) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    near.ready(Interest::ERROR).await.expect("the error wakes it");
    near.send(b"reset").await.expect_err("the connection was reset");
    while SockRef::from(&near).send(b"full").is_ok() {}
    (near, far)
}

/// A send on such a socket sleeps and tries again.
#[test]
fn e3_a_future_that_sleeps_allocates_nothing() {
    run(async {
        let (near, far) = stuck().await;
        let msgs = [SendMsg::new(&PAYLOAD); 2];
        for i in 0..200 {
            let late = async {
                tokio::time::sleep(Duration::from_millis(2)).await;
                for _ in &msgs {
                    far.recv(&mut [0; 16]).expect("it is full");
                }
            };
            let ((sent, counts), ()) = tokio::join!(polled(near.send_batch(&msgs)), late);
            sent.expect("there is space");
            while SockRef::from(&near).send(b"full").is_ok() {}
            assert!(i < 5 || counts == Counts::NONE, "{i}: {counts:?}");
        }
    });
}
