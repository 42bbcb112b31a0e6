//! A busy socket does not starve the other tasks of its thread: between two of their turns at most the 128 datagrams of
//! tokio's budget pass, and one batch.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::IoSliceMut;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mmsg::{
    AsyncBatchSocket, BatchSocket, Offload, RecvBatch, RecvMsg, SendMsg, SendQueue, SendWaiter,
};
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::{run, udp};
use crate::common::sockets::udp4;

/// Datagrams that a task moves in one turn: tokio's budget.
const BUDGET: usize = 128;
/// Datagrams of a test, several budgets.
const COUNT: usize = 1_000;
/// Messages of a batch.
const BATCH: usize = 16;

/// Runs a busy task beside one that only takes turns. Returns the most datagrams between two turns; `moved` says how many
/// there were so far.
async fn beside_another(moved: impl Fn() -> usize + 'static, busy: impl AsyncFnOnce()) -> usize {
    let (most, is_done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let (seen, done) = (Rc::clone(&most), Rc::clone(&is_done));
    let mut before = moved();
    let other = async move {
        loop {
            let last = done.get();
            most.set(most.get().max(moved() - before));
            before = moved();
            if last {
                break;
            }
            yield_now().await;
        }
    };
    LocalSet::new()
        .run_until(async {
            let other = spawn_local(other);
            yield_now().await;
            busy().await;
            is_done.set(true);
            other.await.expect("it does not panic");
        })
        .await;
    seen.get()
}

#[test]
fn a_flooded_receiver_leaves_others_their_turn() {
    run(async {
        let ((to, addr), from) = (udp(), udp4());
        for kind in 0..6 {
            let (mut batch, mut memory) = (RecvBatch::new(BATCH, 32), [[0; 32]; BATCH]);
            let moved = Rc::new(Cell::new(0));
            let count = Rc::clone(&moved);
            let between = beside_another(
                move || count.get(),
                async || {
                    while moved.get() < COUNT {
                        from.send_batch(&[SendMsg::to(addr, b"flood"); BATCH])
                            .expect("it is taken");
                        let mut slices = memory.each_mut().map(|buffer| IoSliceMut::new(buffer));
                        let received = match kind {
                            0 => to.recv_into(&mut batch).await,
                            1 => to.recv_slices(&mut slices, |_, _| ()).await,
                            2 => poll_fn(|cx| to.poll_recv_into(cx, &mut batch)).await,
                            3 => {
                                poll_fn(|cx| to.poll_recv_slices(cx, &mut slices, |_, _| ())).await
                            }
                            4 => {
                                batch.clear();
                                let deadline = Instant::now() + Duration::from_secs(1);
                                to.recv_more_until(&mut batch, deadline).await
                            }
                            _ => {
                                let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
                                to.recv_batch(&mut msgs).await
                            }
                        };
                        moved.set(moved.get() + received.expect("it is there"));
                    }
                },
            )
            .await;
            assert!(between <= BUDGET + BATCH, "kind {kind}: {between}");
        }
    });
}

/// Each datagram of a coalesced message counts, and each that a message with a segment size is sent as.
#[test]
fn messages_of_many_datagrams_count_as_these() {
    const SEGMENTS: usize = 40;
    run(async {
        let ((from, _), (to, addr)) = (udp(), udp());
        let [from, to] = [from, to].map(|socket| Arc::new(Offload::new(socket).expect("UDP")));
        let payload = [7; SEGMENTS * 10];
        let msg = SendMsg::to(addr, &payload).with_segment_size(10);
        let counted = Arc::clone(&from);
        let sent = beside_another(
            move || counted.state().counters().sent as usize,
            async || {
                for _ in 0..COUNT / SEGMENTS {
                    assert_eq!(from.send_batch(&[msg]).await.expect("it is taken"), 1);
                }
            },
        );
        let sent = sent.await;
        assert!(sent <= BUDGET + SEGMENTS, "sent {sent}");

        let counted = Arc::clone(&to);
        let received = beside_another(
            move || counted.state().counters().received as usize,
            async || {
                let mut batch = RecvBatch::for_gro(2);
                for _ in 0..COUNT / SEGMENTS / 4 {
                    to.recv_into(&mut batch).await.expect("it is there");
                }
            },
        );
        let received = received.await;
        assert!(received <= BUDGET + 2 * SEGMENTS, "received {received}");
    });
}

#[test]
fn a_busy_sender_leaves_others_their_turn() {
    run(async {
        let ((from, _), (_to, addr)) = (udp(), udp());
        let from = Arc::new(Offload::builder().gso(false).build(from).expect("a UDP socket"));
        let to_nobody = "127.0.0.1:0".parse().expect("an address");
        for bad in [usize::MAX, 2] {
            let to = |i| if i % bad == 1 { to_nobody } else { addr };
            let msgs: Vec<_> = (0..4 * COUNT).map(|i| SendMsg::to(to(i), b"flood")).collect();
            for kind in 0..5 {
                let mut queue = SendQueue::new(1 << 20);
                if kind >= 3 {
                    msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
                }
                let (counted, mut waiter) = (Arc::clone(&from), SendWaiter::new());
                let between = beside_another(
                    move || counted.state().counters().sent as usize,
                    async || {
                        // An error ends the first two and the last.
                        let _ = match kind {
                            0 => {
                                for msgs in msgs.chunks(BATCH) {
                                    let _ = from.send_batch(msgs).await;
                                }
                                Ok(0)
                            }
                            1 => {
                                for msgs in msgs.chunks(BATCH) {
                                    let _ =
                                        poll_fn(|cx| from.poll_send_batch(cx, &mut waiter, msgs))
                                            .await;
                                }
                                Ok(0)
                            }
                            2 => from.send_each(&msgs, |_, _| ()).await,
                            3 => from.flush_each(&mut queue, |_, _| ()).await,
                            _ => from.flush(&mut queue).await,
                        };
                    },
                );
                let between = between.await;
                // A chunk of a queue is a batch of 256.
                assert!(between <= BUDGET + 256, "kind {kind}, one in {bad} bad: {between}");
            }
        }
    });
}
