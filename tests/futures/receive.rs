//! Receives: their results and waits. A dropped receive has taken no datagram.

use std::pin::pin;
use std::sync::Arc;

use mmsg::{AsyncBatchSocket, BatchSocket, Offload, RecvBatch, SendMsg};
use socket2::SockRef;
use tokio::net::UdpSocket;

use super::{once, run, udp};
use crate::common::recv::{data_of, in_one_receive, memory, recv_msgs};
use crate::common::sockets::{settle, udp4};
use crate::common::{TIME_LIMIT, is_wine, numbered, skip};

/// The payloads of the last receive.
fn data(batch: &RecvBatch) -> Vec<Vec<u8>> {
    batch.iter().map(|datagram| datagram.data().to_vec()).collect()
}

/// All kinds of receives on `to`, to which `from` sends.
async fn every_receive(to: &impl AsyncBatchSocket<Socket = UdpSocket>, from: &std::net::UdpSocket) {
    let addr = to.tokio_socket().local_addr().expect("it is bound");
    let count = in_one_receive(5);
    let payloads = numbered(count, 20);
    let send = || {
        payloads.iter().for_each(|data| drop(from.send_to(data, addr)));
        settle();
    };
    // As much space as an `Offload` requires.
    let mut memory = memory(8, 65_535);
    let mut msgs = recv_msgs(&mut memory);
    let mut batch = RecvBatch::new(8, 65_535);

    assert_eq!(to.recv_batch(&mut []).await.expect("nothing is asked for"), 0);
    // Each receive first waits, then finds all datagrams.
    let (n, ()) = tokio::join!(to.recv_batch(&mut msgs), async { send() });
    assert_eq!((n.expect("they came"), data_of(&msgs[..count])), (count, payloads.clone()));
    let (n, ()) = tokio::join!(to.recv_into(&mut batch), async { send() });
    assert_eq!((n.expect("they came"), data(&batch)), (count, payloads));
}

#[test]
fn every_receive_waits_and_then_takes_all_that_is_there() {
    run(async {
        let from = udp4();
        every_receive(&udp().0, &from).await;
        every_receive(&Arc::new(udp().0), &from).await;
        every_receive(&Offload::new(udp().0).expect("a UDP socket"), &from).await;
        every_receive(&Offload::new(&udp().0).expect("a UDP socket"), &from).await;
    });
}

#[test]
fn a_short_receive_keeps_readiness() {
    run(async {
        let ((to, addr), from) = (udp(), udp4());
        let payloads = numbered(9, 8);
        let msgs: Vec<_> = payloads.iter().map(|data| SendMsg::to(addr, data)).collect();
        let (mut many, mut few) = (RecvBatch::new(64, 32), RecvBatch::new(2, 32));
        for burst in [&msgs[..in_one_receive(3)], &msgs[3..4]] {
            assert_eq!(from.send_batch(burst).expect("loopback takes it"), burst.len());
            settle();
            assert_eq!(to.recv_into(&mut many).await.expect("they are here"), burst.len());
        }
        // A full receive must not claim that more datagrams wait.
        assert_eq!(from.send_batch(&msgs[4..]).expect("loopback takes it"), 5);
        settle();
        let mut got = Vec::new();
        while got.len() < 5 {
            to.recv_into(&mut few).await.expect("they are here");
            got.extend(data(&few));
        }
        assert_eq!(got, payloads[4..]);
        let mut more = pin!(to.recv_into(&mut few));
        assert!(once(more.as_mut()).await.is_none(), "all were received");
    });
}

#[test]
fn a_dropped_receive_has_taken_nothing() {
    const COUNT: usize = 2_000;
    run(async {
        let ((to, addr), from) = (udp(), udp4());
        let payloads = numbered(COUNT, 8);
        let mut batch = RecvBatch::new(4, 32);
        let mut next = 0;
        // Sends while the receiver rests, so that it is dropped at every stage: before its first poll, while waiting,
        // and after being woken.
        for (i, payload) in payloads.iter().enumerate() {
            let mut receive = Box::pin(to.recv_into(&mut batch));
            if i % 3 > 0 && next == i {
                assert!(once(receive.as_mut()).await.is_none(), "nothing was sent yet");
            }
            from.send_to(payload, addr).expect("loopback takes it");
            if i % 2 == 0 {
                tokio::task::yield_now().await;
            }
            drop(receive);
            if i % 4 == 3 {
                while next <= i {
                    to.recv_into(&mut batch).await.expect("none was lost");
                    for datagram in &batch {
                        assert_eq!(datagram.data(), payloads[next]);
                        next += 1;
                    }
                }
            }
        }
        assert_eq!(next, COUNT);
    });
}

#[test]
fn every_one_of_many_tasks_that_wait_is_woken() {
    run(async {
        let ((to, addr), from) = (udp(), udp4());
        let to = Arc::new(to);
        let receive = |to: Arc<tokio::net::UdpSocket>| async move {
            let mut batch = RecvBatch::new(1, 32);
            to.recv_into(&mut batch).await
        };
        let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(receive(Arc::clone(&to)))).collect();
        // By now all tasks wait.
        tokio::task::yield_now().await;
        for _ in &tasks {
            from.send_to(b"one each", addr).expect("loopback takes it");
        }
        for task in tasks {
            assert_eq!(task.await.expect("it does not panic").expect("it was sent"), 1);
        }
    });
}

#[test]
fn a_socket_that_was_shut_down_does_not_keep_its_receiver() {
    if is_wine() {
        let test = "a_socket_that_was_shut_down_does_not_keep_its_receiver";
        return skip(test, "Wine reports no event for it");
    }
    run(async {
        let (to, addr) = udp();
        to.connect(addr).await.expect("connecting only stores the peer");
        let mut batch = RecvBatch::new(4, 32);
        let mut receive = Box::pin(to.recv_into(&mut batch));
        assert!(once(receive.as_mut()).await.is_none());
        SockRef::from(&to).shutdown(std::net::Shutdown::Read).expect("it is connected");
        let ended = tokio::time::timeout(TIME_LIMIT, receive).await.expect("it is woken");
        assert_eq!(ended.expect("no error"), 0);
        let ended = to.recv_into(&mut batch).await;
        assert_eq!(ended.expect("no error"), 0);
    });
}
