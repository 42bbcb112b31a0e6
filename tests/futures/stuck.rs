//! Full sockets that tokio always considers writable: after an ICMP error, a send timestamp or "connection reset".
//! Sends on them sleep until there is space.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use mmsg::{AsyncBatchSocket, RecvBatch, SendMsg, SendQueue, SendWaiter};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use super::cpu::{RUNTIMES, run};
use super::{adopted, through};
use crate::common::{TIME_LIMIT, queue_of};

/// The messages sent on a full socket.
const MSGS: [SendMsg<'static>; 3] = [SendMsg::new(b"a"), SendMsg::new(b"b"), SendMsg::new(b"c")];

fn named() -> UnixDatagram {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("mmsg-stuck-{}-{number}", std::process::id());
    let name = SocketAddr::from_abstract_name(name).expect("a short name");
    let socket = UnixDatagram::bind_addr(&name).expect("the name is new");
    socket.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    socket
}

fn connect(from: &UnixDatagram, to: &UnixDatagram) {
    from.connect_addr(&to.local_addr().expect("it is bound")).expect("it is there");
}

/// Dissolves the socket's connection; its peer gets an error (unix(7): ECONNRESET).
fn disconnect(socket: &UnixDatagram) {
    let addr = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: an address of that length, which outlives the call.
    let result = unsafe { libc::connect(socket.as_raw_fd(), &addr, len) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// A socket that tokio always considers writable, and its peer, which queues only a few datagrams. They stand in for a
/// UDP socket after an ICMP error, which on loopback is never full.
async fn stuck() -> (UdpSocket, UnixDatagram) {
    let (near, far) = (named(), named());
    connect(&near, &far);
    connect(&far, &near);
    let near = adopted(OwnedFd::from(near).into());
    // The kernel reports the reset only if it discards a datagram.
    near.send(b"lost").await.expect("there is space");
    disconnect(&far);
    near.ready(Interest::ERROR).await.expect("the error is reported");
    near.send(b"reset").await.expect_err("the connection was reset");
    assert!(near.ready(Interest::WRITABLE).await.expect("it is").is_write_closed());
    (near, far)
}

/// Fills the peer's queue and returns the number of datagrams.
fn fill(near: &UdpSocket) -> usize {
    (0..).take_while(|_| SockRef::from(near).send(b"full").is_ok()).count()
}

fn drain(far: &UnixDatagram, count: usize) {
    (0..count).for_each(|_| assert!(far.recv(&mut [0; 8]).expect("it was sent") > 0));
}

/// The number of kinds of sends.
const KINDS: usize = 6;

/// Sends in one of these ways; when it ends, the socket has space.
async fn send(near: Arc<impl AsyncBatchSocket<Socket = UdpSocket> + Send + 'static>, kind: usize) {
    let mut queue = queue_of(MSGS);
    let result = match kind {
        0 => near.send_batch(&MSGS).await,
        1 => near.flush(&mut queue).await,
        2 => near.flush_each(&mut queue, |_, error| panic!("{error}")).await,
        3 => {
            let mut waiter = SendWaiter::new();
            poll_fn(|cx| near.poll_send_batch(cx, &mut waiter, &MSGS)).await
        }
        4 => {
            // As quinn does: it asks for writability, and asks again if a send found the socket full.
            let mut waiter = SendWaiter::new();
            loop {
                poll_fn(|cx| near.poll_send_batch(cx, &mut waiter, &[])).await.expect("it ends");
                match near.tokio_socket().try_send(b"a") {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    result => break result,
                }
            }
        }
        _ => near.send_each(MSGS, |index, error| panic!("message {index}: {error}")).await,
    };
    result.expect("there is space again");
}

#[test]
fn a_full_socket_that_met_an_error_sleeps_until_it_is_writable() {
    for workers in RUNTIMES {
        run(workers, async |clocks| {
            let (mut sends, mut full) = (JoinSet::new(), Vec::new());
            let (calls, start) = (Arc::new(AtomicUsize::new(0)), Instant::now());
            for kind in 0..KINDS {
                let (socket, far) = stuck().await;
                full.push((fill(&socket), far));
                let calls = calls.clone();
                let near = through(socket, move |socket, call| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    socket.batch_call(call)
                });
                sends.spawn(send(Arc::new(near), kind));
            }
            tokio::select! {
                biased;
                _ = sends.join_next() => panic!("it is full"),
                () = clocks.assert_asleep() => {}
            }
            // However busy the machine is: each may look every 4 ms.
            let (calls, most) =
                (calls.load(Ordering::Relaxed) as u128, start.elapsed().as_millis());
            assert!(calls <= KINDS as u128 * (most / 3 + 10), "{calls} calls in {most} ms");
            full.iter().for_each(|(full, far)| drain(far, *full));
            sends.join_all().await;
        });
    }
}

#[test]
fn tasks_that_wait_in_both_directions_are_all_woken() {
    const TASKS: usize = 8;
    const EACH: usize = 200;
    for workers in RUNTIMES {
        run(workers, async |clocks| {
            let (near, far) = stuck().await;
            let (full, near) = (fill(&near), Arc::new(near));
            let senders: Vec<_> = (0..TASKS)
                .map(|task| {
                    let near = Arc::clone(&near);
                    tokio::spawn(async move {
                        let mut queue = SendQueue::new(100_000);
                        let data = [task as u8; 4];
                        (0..EACH).for_each(|_| {
                            queue.push(&SendMsg::new(&data)).expect("there is space")
                        });
                        near.flush(&mut queue).await.expect("there is space again");
                    })
                })
                .collect();
            let receivers: Vec<_> = (0..TASKS)
                .map(|_| {
                    let near = Arc::clone(&near);
                    tokio::spawn(async move {
                        let mut batch = RecvBatch::new(1, 8);
                        near.recv_into(&mut batch).await.expect("it is sent")
                    })
                })
                .collect();
            clocks.assert_asleep().await;

            let far_end = move || {
                drain(&far, full);
                let mut counts = [0; TASKS];
                for _ in 0..TASKS * EACH {
                    let mut data = [0; 8];
                    assert_eq!(far.recv(&mut data).expect("it is sent"), 4);
                    counts[usize::from(data[0])] += 1;
                }
                (far, counts)
            };
            let (far, counts) =
                tokio::task::spawn_blocking(far_end).await.expect("it does not panic");
            assert_eq!(counts, [EACH; TASKS]);
            for sender in senders {
                sender.await.expect("it does not panic");
            }
            let name = SockRef::from(&*near).local_addr().expect("it is bound");
            for _ in 0..TASKS {
                SockRef::from(&far).send_to(b"one each", &name).expect("there is space");
            }
            for receiver in receivers {
                assert_eq!(receiver.await.expect("it does not panic"), 1);
            }
        });
    }
}
