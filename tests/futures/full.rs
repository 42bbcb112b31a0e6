//! Sends on a full socket wait for space, continue where they stopped, and lose nothing when dropped.

use std::future::poll_fn;
use std::pin::pin;

use mmsg::{AsyncBatchSocket, BatchSocket, Offload, RecvBatch, SendMsg};
use tokio::net::UdpSocket;

use super::{narrow, once, run};
use crate::common::{errno, msgs, numbered, queue_of, sockets::borrow};

/// More than the kernel queues for a pair of Unix sockets.
const COUNT: usize = 3_000;

/// Receives `count` datagrams.
pub async fn receive(socket: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
    let (mut batch, mut got) = (RecvBatch::new(16, 32), Vec::new());
    while got.len() < count {
        socket.recv_into(&mut batch).await.expect("they are sent");
        got.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
    }
    got
}

#[test]
fn a_batch_waits_until_writable_and_sends_what_fits() {
    run(async {
        let (near, far) = narrow();
        let payloads = numbered(COUNT, 8);
        let msgs = msgs(&payloads);
        assert_eq!(near.send_batch(&[]).await.expect("nothing is asked for"), 0);
        let sent = near.send_batch(&msgs).await.expect("there is space");
        assert!((1..COUNT).contains(&sent), "{sent} of {COUNT} fit");
        {
            let mut more = pin!(near.send_batch(&msgs[sent..]));
            assert!(once(more.as_mut()).await.is_none(), "it is full");
        }
        let send_the_rest = async {
            let mut sent = sent;
            while sent < COUNT {
                sent += near.send_batch(&msgs[sent..]).await.expect("there is space again");
            }
        };
        let ((), got) = tokio::join!(send_the_rest, receive(&far, COUNT));
        assert_eq!(got, payloads);
    });
}

#[test]
fn a_dropped_flush_leaves_the_rest_in_the_queue() {
    run(async {
        let (near, far) = narrow();
        let payloads = numbered(COUNT, 8);
        let mut queue = queue_of(msgs(&payloads));
        let mut got = Vec::new();
        while !queue.is_empty() {
            near.writable().await.expect("tokio learns that the socket is writable");
            {
                let mut flush = pin!(near.flush(&mut queue));
                // Sends what fits, waits, and is dropped.
                assert!(once(flush.as_mut()).await.is_none_or(|flushed| flushed.is_ok()));
            }
            assert!(got.len() + queue.len() < COUNT, "some are on their way");
            // The kernel wakes a waiting sender only when most datagrams have been received.
            let here = COUNT - got.len() - queue.len();
            got.extend(receive(&far, here - here / 8).await);
        }
        let rest = COUNT - got.len();
        got.extend(receive(&far, rest).await);
        assert_eq!(got, payloads);
    });
}

#[test]
fn send_each_sends_or_reports_each_and_waits_until_writable() {
    run(async {
        let (near, far) = narrow();
        let payloads = numbered(COUNT, 8);
        let mut msgs = msgs(&payloads);
        // Larger than the send buffer, so it is always rejected.
        let too_long = vec![0; 4 << 20];
        let bad = [0, 500, 501, 2_500];
        bad.iter().for_each(|i| msgs.insert(*i, SendMsg::new(&too_long)));
        let mut failed = Vec::new();
        let note = |index, error: std::io::Error| failed.push((index, error.raw_os_error()));
        let send = near.send_each(msgs.iter().copied(), note);
        let (sent, got) = tokio::join!(send, receive(&far, COUNT));
        assert_eq!(sent.expect("all errors were reported"), msgs.len());
        assert_eq!(got, payloads);
        assert_eq!(failed, bad.map(|i| (i, Some(errno::EMSGSIZE))));
    });
}

#[test]
fn a_dropped_send_each_has_sent_the_first_messages_and_taken_few_more() {
    run(async {
        let (near, far) = narrow();
        let (payloads, mut given) = (numbered(COUNT, 8), 0);
        let messages = payloads.iter().map(|data| SendMsg::new(data)).inspect(|_| given += 1);
        let mut send = Box::pin(near.send_each(messages, |_, error| panic!("{error}")));
        assert!(once(send.as_mut()).await.is_none(), "the socket is full");
        drop(send);
        let (mut batch, mut came) = (RecvBatch::new(256, 8), Vec::new());
        while borrow(&far).recv_into(&mut batch).is_ok() {
            came.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
        }
        assert_eq!(came, payloads[..came.len()]);
        assert!((came.len()..=came.len() + 256).contains(&given), "{given} of {}", came.len());
    });
}

/// A message on a full socket waits like any other. Once one of its segments was sent it counts as sent: segments
/// without space are dropped and counted.
#[test]
fn a_message_segmented_in_user_space_waits_until_writable() {
    run(async {
        let (near, far) = narrow();
        let near = Offload::new(near).expect("a Unix socket");
        let data = numbered(COUNT / 4, 30);
        let msgs = data.iter().map(|data| SendMsg::new(data).with_segment_size(8));
        let msgs: Vec<_> = msgs.collect();
        let send = async {
            let no_error = |index, error| panic!("message {index}: {error}");
            let sent = near.send_each(msgs.iter().copied(), no_error).await;
            assert_eq!(sent.expect("there is space again"), msgs.len());
            let end = near.get_ref().send_batch(&[SendMsg::new(b"end")]).await;
            assert_eq!(end.expect("there is space again"), 1);
        };
        let receive = async {
            let mut got = Vec::new();
            while got.last().is_none_or(|last| last != b"end") {
                got.extend(receive(&far, 1).await);
            }
            got.pop();
            got
        };
        let ((), got) = tokio::join!(send, receive);
        let mut left = got.iter();
        let mut next = left.next();
        let mut dropped = 0;
        for data in &data {
            for (i, segment) in data.chunks(8).enumerate() {
                if next.is_some_and(|next| next == segment) {
                    next = left.next();
                } else {
                    assert!(i > 0, "the first segment of a message that was sent");
                    dropped += 1;
                }
            }
        }
        assert_eq!(next, None, "in order, each once");
        assert_eq!(near.state().counters().unsent, dropped);
    });
}

/// An iterator that has no more messages waits for nothing, nor does a batch without slots.
#[test]
fn a_call_for_nothing_on_a_full_or_empty_socket_ends() {
    run(async {
        let (near, _far) = narrow();
        near.writable().await.expect("tokio learns that it is");
        while near.try_send(b"full").is_ok() {}
        let none: [SendMsg<'_>; 0] = [];
        let failed = |_, error| panic!("there is none: {error}");
        assert_eq!(near.send_each(none, failed).await.expect("nothing is asked for"), 0);
        let mut batch = RecvBatch::default();
        assert_eq!(near.recv_into(&mut batch).await.expect("nothing is asked for"), 0);
        let received = poll_fn(|cx| near.poll_recv_into(cx, &mut batch)).await;
        assert_eq!(received.expect("nothing is asked for"), 0);
    });
}
