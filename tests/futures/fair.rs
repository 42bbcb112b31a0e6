//! A busy socket does not starve the other tasks of its thread.

use std::cell::Cell;
use std::rc::Rc;

use mmsg::{AsyncBatchSocket, BatchSocket, RecvBatch, SendMsg, SendQueue};
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::{run, udp};
use crate::common::{repetitions, sockets::udp4};

/// How many turns the other task should get, and the calls that a busy task may make for each.
fn turns() -> usize {
    repetitions(10, 3)
}
const CALLS_A_TURN: usize = 1_000;

/// Makes call after call beside a task that only counts its turns.
async fn beside_another(mut call: impl AsyncFnMut()) {
    let (turns, wanted) = (Rc::new(Cell::new(0)), self::turns());
    let counted = Rc::clone(&turns);
    let test = LocalSet::new();
    let other = async move {
        while counted.get() < wanted {
            counted.set(counted.get() + 1);
            yield_now().await;
        }
    };
    test.run_until(async {
        let other = spawn_local(other);
        let mut calls = 0;
        while turns.get() < wanted {
            call().await;
            calls += 1;
            assert!(calls <= wanted * CALLS_A_TURN, "{} turns in {calls} calls", turns.get());
        }
        other.await.expect("it does not panic");
    })
    .await;
}

#[test]
fn r10_a_flooded_receiver_leaves_others_their_turn() {
    run(async {
        let ((to, addr), from) = (udp(), udp4());
        let mut batch = RecvBatch::new(4, 32);
        let mut memory = [0; 32];
        let mut msgs = [mmsg::RecvMsg::new(&mut memory)];
        // The receiver always finds a datagram.
        let flood = || from.send_batch(&[SendMsg::to(addr, b"flood"); 8]).expect("it is taken");
        flood();
        beside_another(async || {
            flood();
            assert!(to.recv_into(&mut batch).await.expect("it is there") > 0);
        })
        .await;
        beside_another(async || {
            flood();
            assert!(to.recv_batch(&mut msgs).await.expect("it is there") > 0);
        })
        .await;
    });
}

#[test]
fn a_busy_sender_leaves_others_their_turn() {
    run(async {
        let ((from, _), (_to, addr)) = (udp(), udp());
        let msgs = [SendMsg::to(addr, b"flood"); 8];
        let mut queue = SendQueue::new(10_000);
        beside_another(async || {
            assert_eq!(from.send_batch(&msgs).await.expect("loopback takes it"), 8);
        })
        .await;
        beside_another(async || {
            from.send_each(msgs, |_, _| {}).await.expect("loopback takes it");
        })
        .await;
        beside_another(async || {
            queue.push(&msgs[0]).expect("there is space");
            from.flush(&mut queue).await.expect("loopback takes it");
        })
        .await;
    });
}
