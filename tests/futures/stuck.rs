//! Full sockets that tokio takes for writable for good: after an ICMP error, a stamp of sending or
//! "connection reset". Sends on them sleep until there is space.

use std::fs;
use std::future::{Future, poll_fn};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use mmsg::error_queue::{Report, drain_errors};
use mmsg::{Ancillary, AsyncBatchSocket, RecvBatch, SendMsg, SendQueue};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::cpu::{Clocks, RUNTIMES, WATCHED, run};
use super::{adopted, once, send_all};
use crate::common::NET;
use crate::veth::{DEVICE, FAR, NEAR, ip, with_far_end};

/// The messages of a sender whose socket is full.
const MSGS: [SendMsg<'static>; 3] = [SendMsg::new(b"a"), SendMsg::new(b"b"), SendMsg::new(b"c")];

fn named() -> UnixDatagram {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("mmsg-stuck-{}-{number}", std::process::id());
    let name = SocketAddr::from_abstract_name(name).expect("a short name");
    let socket = UnixDatagram::bind_addr(&name).expect("the name is new");
    socket.set_read_timeout(Some(NET)).expect("a timeout");
    socket
}

fn connect(from: &UnixDatagram, to: &UnixDatagram) {
    from.connect_addr(&to.local_addr().expect("it is bound")).expect("it is there");
}

/// Dissolves the socket's connection, which its peer gets as an error (unix(7): ECONNRESET).
fn disconnect(socket: &UnixDatagram) {
    let addr = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: an address of that length, which outlives the call.
    let result = unsafe { libc::connect(socket.as_raw_fd(), &addr, len) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// A socket that tokio takes for writable for good, and its peer, which takes a few datagrams until
/// it is full. They stand in for a UDP socket after an ICMP error, which is full on loopback never.
async fn stuck() -> (UdpSocket, UnixDatagram) {
    let (near, far) = (named(), named());
    connect(&near, &far);
    connect(&far, &near);
    let near = adopted(OwnedFd::from(near).into());
    // Only where a datagram is lost by it.
    near.send(b"lost").await.expect("there is space");
    disconnect(&far);
    near.ready(Interest::ERROR).await.expect("the error is reported");
    near.send(b"reset").await.expect_err("the connection was reset");
    assert!(near.ready(Interest::WRITABLE).await.expect("it is").is_write_closed());
    (near, far)
}

/// Fills the peer's queue, and says how many datagrams that took.
fn fill(near: &UdpSocket) -> usize {
    (0..).take_while(|_| SockRef::from(near).send(b"full").is_ok()).count()
}

fn drain(far: &UnixDatagram, count: usize) {
    (0..count).for_each(|_| assert!(far.recv(&mut [0; 8]).expect("it was sent") > 0));
}

/// How many descriptors of epolls there are that watch the socket; tokio may have several of its own.
fn watches(socket: &impl AsFd) -> usize {
    let socket = socket.as_fd().try_clone_to_owned().expect("a descriptor");
    let inode = format!("ino:{:x} ", fs::File::from(socket).metadata().expect("it is open").ino());
    let of_epoll = |path| fs::read_to_string(path).unwrap_or_default().contains(&inode);
    let infos = fs::read_dir("/proc/self/fdinfo").expect("Linux has it");
    infos.filter(|info| info.as_ref().is_ok_and(|info| of_epoll(info.path()))).count()
}

/// Kinds of futures that send.
const KINDS: usize = 6;

/// Sends by one kind of future; the socket has space when it ends.
async fn send(near: &UdpSocket, kind: usize) {
    let mut queue = SendQueue::new(1_000);
    MSGS.iter().for_each(|msg| queue.push(msg).expect("there is space"));
    let (mut done, mut no_error) = (0, |index, error| panic!("message {index}: {error}"));
    let result = match kind {
        0 => near.send_batch(&MSGS).await,
        1 => near.flush(&mut queue).await,
        2 => near.send_each(&MSGS, no_error).await,
        3 => poll_fn(|cx| near.poll_send_batch(cx, &MSGS)).await,
        4 => poll_fn(|cx| near.poll_flush(cx, &mut queue, &mut done)).await,
        KINDS.. => unreachable!("kinds are fewer"),
        _ => poll_fn(|cx| near.poll_send_each(cx, &MSGS, &mut done, &mut no_error)).await,
    };
    result.expect("there is space again");
}

#[test]
fn d7_a_full_socket_that_met_an_error_sleeps_until_it_is_writable() {
    for (workers, kind) in RUNTIMES.into_iter().flat_map(|w| (0..KINDS).map(move |kind| (w, kind)))
    {
        run(workers, async |clocks| {
            let (near, far) = stuck().await;
            let mut send = pin!(send(&near, kind));
            let full = fill(&near);
            assert!(once(send.as_mut()).await.is_none(), "it is full");
            tokio::select! {
                biased;
                () = send.as_mut() => panic!("it is full"),
                () = clocks.assert_asleep_for(WATCHED) => {}
            }
            drain(&far, full);
            send.await;
        });
    }
}

#[test]
fn d7_a_send_dropped_while_it_waits_leaves_nothing() {
    run(0, async |_| {
        let (near, far) = stuck().await;
        let (full, own) = (fill(&near), watches(&near));
        for _ in 0..10 {
            let mut send = Box::pin(near.send_batch(&MSGS));
            assert!(once(send.as_mut()).await.is_none(), "it is full");
            drop(send);
        }
        assert_eq!(watches(&near), own, "a dropped future's registration is left");
        for _ in 0..10 {
            assert!(once(pin!(poll_fn(|cx| near.poll_send_batch(cx, &MSGS)))).await.is_none());
        }
        assert!(watches(&near) <= own + 1, "each poll has registered the socket anew");
        drain(&far, full);
        let sent = poll_fn(|cx| near.poll_send_batch(cx, &MSGS)).await;
        assert!(sent.expect("there is space again") > 0);
        assert_eq!(watches(&near), own, "a completed poll's registration is left");
    });
}

/// The poll functions have no future to keep their registration in. A socket that is closed while
/// one is pending must not leave it for ever, nor the next socket of that number inherit it.
#[test]
fn d7_a_socket_closed_while_it_is_polled_leaves_nothing_to_the_next() {
    run(0, async |clocks| {
        for _ in 0..20 {
            let (near, _far) = stuck().await;
            fill(&near);
            assert!(once(pin!(poll_fn(|cx| near.poll_send_batch(cx, &MSGS)))).await.is_none());
        }
        let (near, far) = stuck().await;
        let full = fill(&near);
        let mut send = pin!(poll_fn(|cx| near.poll_send_batch(cx, &MSGS)));
        assert!(once(send.as_mut()).await.is_none());
        tokio::select! {
            biased;
            _ = send.as_mut() => panic!("it is full"),
            () = clocks.assert_asleep_for(WATCHED) => {}
        }
        drain(&far, full);
        assert!(send.await.expect("there is space again") > 0);
    });
}

/// The task that polled last is remembered, also if another's poll completes in between.
#[test]
fn d7_a_poll_that_completes_keeps_the_waker_of_another_task() {
    run(0, async |_| {
        let (near, far) = stuck().await;
        let near = Arc::new(near);
        let full = fill(&near);
        let waiting = Arc::clone(&near);
        let waiting = tokio::spawn(async move { send(&waiting, 3).await });
        let own = watches(&*near);
        while watches(&*near) == own {
            tokio::task::yield_now().await;
        }
        drain(&far, full);
        // Before the runtime learns that there is space.
        assert!(once(pin!(send(&near, 3))).await.is_some(), "there is space again");
        waiting.await.expect("it does not panic");
    });
}

/// Nothing can be registered outside of a runtime: tokio's sockets work there, and so do these.
#[test]
fn d7_a_full_socket_outside_a_runtime_does_not_panic() {
    run(0, async |_| {
        let (near, far) = stuck().await;
        let full = fill(&near);
        std::thread::scope(|scope| {
            let outside = || {
                let mut cx = Context::from_waker(Waker::noop());
                for kind in 0..KINDS {
                    assert!(pin!(send(&near, kind)).poll(&mut cx).is_pending());
                }
                drain(&far, full);
                assert!(pin!(send(&near, 0)).poll(&mut cx).is_ready());
            };
            scope.spawn(outside).join().expect("it does not panic");
        });
    });
}

/// A task waits by the runtime that it is polled in, which may be another at the next poll.
#[test]
fn d7_a_future_survives_the_runtime_that_it_was_polled_in() {
    for kind in 0..KINDS {
        let (runtime, clocks) = Clocks::of_runtime(1);
        let (near, far) = runtime.block_on(stuck());
        let mut send = pin!(send(&near, kind));
        let full = fill(&near);
        let (brief, _) = Clocks::of_runtime(0);
        assert!(brief.block_on(async { once(send.as_mut()).await }).is_none(), "it is full");
        drop(brief);
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = send.as_mut() => panic!("it is full"),
                () = clocks.assert_asleep_for(WATCHED) => {}
            }
            drain(&far, full);
            tokio::time::timeout(NET, send).await.expect("it is woken");
        });
    }
}

/// A runtime that no thread drives wakes no task: the registration must belong to the runtime that polls now.
#[test]
fn d7_a_send_polled_in_another_runtime_is_woken_there() {
    for kind in 0..KINDS {
        let (runtime, clocks) = Clocks::of_runtime(1);
        let (near, far) = runtime.block_on(stuck());
        let own = watches(&near);
        let mut send = pin!(send(&near, kind));
        let full = fill(&near);
        let (idle, _) = Clocks::of_runtime(0);
        assert!(idle.block_on(async { once(send.as_mut()).await }).is_none(), "it is full");
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = send.as_mut() => panic!("it is full"),
                () = clocks.assert_asleep_for(WATCHED) => {}
            }
            assert!(watches(&near) <= own + 1, "the other runtime's registration is left");
            drain(&far, full);
            tokio::time::timeout(NET, send).await.expect("it is woken");
        });
        drop(idle);
    }
}

#[test]
fn d7_tasks_that_wait_in_both_directions_are_all_woken() {
    const TASKS: usize = 8;
    const EACH: usize = 200;
    for workers in RUNTIMES {
        run(workers, async |clocks| {
            let (near, far) = stuck().await;
            let near = Arc::new(near);
            let (full, own) = (fill(&near), watches(&*near));
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
            clocks.assert_asleep_for(WATCHED).await;

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
            assert_eq!(watches(&*near), own);
        });
    }
}

/// No host has it, so datagrams to it wait in the send buffer until the neighbour is known.
const ABSENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);

/// A full socket whose error queue is not drained is ready for epoll because of the queue, and
/// every datagram that leaves adds a stamp.
#[test]
fn d7_e2_a_full_socket_with_an_undrained_error_queue_sleeps_until_it_is_writable() {
    let name = "d7_e2_a_full_socket_with_an_undrained_error_queue_sleeps_until_it_is_writable";
    for (workers, polled) in RUNTIMES.into_iter().flat_map(|w| [(w, false), (w, true)]) {
        with_far_end(name, |_far| {
            // Seconds after which the system gives up on an absent neighbour.
            let tries = format!("/proc/sys/net/ipv4/neigh/{DEVICE}/mcast_solicit");
            fs::write(tries, "1000").expect("it is this namespace's own");
            run(workers, async |clocks| {
                let socket = std::net::UdpSocket::bind((NEAR, 0)).expect("its address");
                let socket = adopted(socket);
                SockRef::from(&socket).set_send_buffer_size(1).expect("the least there is");
                let asked = Ancillary::ERRORS | Ancillary::SEND_TIMESTAMP;
                assert_eq!(asked.enable(&socket).expect("a UDP socket"), asked);
                socket.send_to(b"stamped", (FAR, 9)).await.expect("the far end takes it");
                socket.ready(Interest::ERROR).await.expect("it is reported");
                let own = watches(&socket);

                let to = (ABSENT, 9).into();
                let data = vec![1; 1_000];
                let msgs = vec![SendMsg::to(to, &data); 50];
                let mut send = pin!(send_all(&socket, &msgs, polled));
                tokio::select! {
                    biased;
                    _ = send.as_mut() => panic!("it is full"),
                    () = clocks.assert_asleep_for(WATCHED) => {}
                }
                ip(&format!("neigh replace {ABSENT} lladdr 02:00:00:00:00:03 dev {DEVICE}"))
                    .expect("it is found");
                send.await.expect("there is space again");
                let stamps = drain_errors(&socket, &mut [Report::EMPTY; 16]);
                assert!(stamps.expect("Linux has an error queue") > 0);
                assert_eq!(watches(&socket), own);
            });
        });
    }
}
