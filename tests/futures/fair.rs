//! A busy socket leaves the other tasks of its thread their turn.

use std::cell::Cell;
use std::rc::Rc;

use mmsg::{AsyncBatchSocket, BatchSocket, RecvBatch, SendMsg, SendQueue};
use tokio::task::{LocalSet, spawn_local, yield_now};

use super::{run, udp};
use crate::common::{smaller, sockets::udp4};

/// Turns that the other task is to get, and calls that a busy one may make for each of them.
fn turns() -> usize {
    smaller(10, 3)
}
const CALLS_A_TURN: usize = 1_000;

/// Makes calls, one after the other, beside a task that only counts its turns.
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
        // There is always something to receive.
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

/// After an ICMP error tokio takes a socket for writable for good; a full one must not hold the
/// thread then.
#[cfg(target_os = "linux")]
#[test]
fn r10_a_full_socket_that_met_an_error_leaves_others_their_turn() {
    use std::net::{Ipv4Addr, SocketAddr};

    use socket2::SockRef;

    use crate::common::sockets::{addr, refusing};
    use crate::veth::{NEAR, ip, with_far_end};

    let name = "r10_a_full_socket_that_met_an_error_leaves_others_their_turn";
    /// No host has it, so datagrams to it wait in the send buffer until the neighbour is known.
    const ABSENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
    with_far_end(name, |_far| {
        run(async {
            let socket = super::adopted(std::net::UdpSocket::bind((NEAR, 0)).expect("its address"));
            SockRef::from(&socket).set_send_buffer_size(1).expect("the least there is");
            let peer = refusing();
            socket.connect(addr(&peer)).await.expect("it does nothing but remember");
            socket.send(b"lost").await.expect("loopback takes it");
            let refused = socket.recv_into(&mut RecvBatch::new(1, 32)).await;
            refused.expect_err("it was refused");

            let to = SocketAddr::from((ABSENT, 9));
            let data = vec![1; 1_000];
            let msgs = vec![SendMsg::to(to, &data); 50];
            let no_error = |index, error| panic!("message {index}: {error}");
            let mut send = std::pin::pin!(socket.send_each(msgs, no_error));
            for _ in 0..turns() {
                assert!(super::once(send.as_mut()).await.is_none(), "the socket is full");
                yield_now().await;
            }
            ip(&format!("neigh replace {ABSENT} lladdr 02:00:00:00:00:03 dev near0"))
                .expect("it is found");
            send.await.expect("there is space again");
        });
    });
}
