//! Sends on a socket that is full: that they wait for space, go on from where they were, and lose nothing when
//! dropped.

use std::future::poll_fn;
use std::pin::pin;

use mmsg::{AsyncBatchSocket, Offload, RecvBatch, SendMsg, SendQueue};
use tokio::net::UdpSocket;

use super::send::{msgs, queue};
use super::{narrow, once, run};
use crate::common::{errno, numbered};

/// More than the kernel holds for a pair of Unix sockets.
const COUNT: usize = 3_000;

/// Receives `count` datagrams.
async fn receive(socket: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
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
        // Full: neither way sends any.
        {
            let mut more = pin!(near.send_batch(&msgs[sent..]));
            assert!(once(more.as_mut()).await.is_none());
            let mut more = pin!(poll_fn(|cx| near.poll_send_batch(cx, &msgs[sent..])));
            assert!(once(more.as_mut()).await.is_none());
        }
        let send_the_rest = async {
            let mut sent = sent;
            while sent < COUNT {
                let left = &msgs[sent..];
                sent += match sent % 2 {
                    0 => near.send_batch(left).await,
                    _ => poll_fn(|cx| near.poll_send_batch(cx, left)).await,
                }
                .expect("there is space again");
            }
        };
        let ((), got) = tokio::join!(send_the_rest, receive(&far, COUNT));
        assert_eq!(got, payloads);
    });
}

#[test]
fn a_flush_ends_with_an_empty_queue() {
    run(async {
        let (near, far) = narrow();
        let payloads = numbered(COUNT, 8);
        for polled in [false, true] {
            let mut queue = queue(&payloads);
            let mut sent = 0;
            let flush = async {
                match polled {
                    false => near.flush(&mut queue).await,
                    true => poll_fn(|cx| near.poll_flush(cx, &mut queue, &mut sent)).await,
                }
            };
            let (flushed, got) = tokio::join!(flush, receive(&far, COUNT));
            assert_eq!(flushed.expect("no error"), COUNT);
            assert_eq!(got, payloads);
            assert!(queue.is_empty());
            near.flush(&mut queue).await.expect("nothing to be done");
        }
    });
}

#[test]
fn a_dropped_flush_leaves_the_rest_in_the_queue() {
    run(async {
        let (near, far) = narrow();
        let payloads = numbered(COUNT, 8);
        let mut queue = queue(&payloads);
        let mut got = Vec::new();
        while !queue.is_empty() {
            near.writable().await.expect("it is, as tokio must first hear");
            {
                let mut flush = pin!(near.flush(&mut queue));
                // As far as there is space, and then it waits; and is dropped.
                assert!(once(flush.as_mut()).await.is_none_or(|flushed| flushed.is_ok()));
            }
            assert!(got.len() + queue.len() < COUNT, "some are on their way");
            // Not all of them; the kernel calls a sender that was full when most have gone.
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
        // Larger than the send buffer: rejected each time.
        let too_long = vec![0; 4 << 20];
        let bad = [0, 500, 501, 2_500];
        bad.iter().for_each(|i| msgs.insert(*i, SendMsg::new(&too_long)));
        for polled in [false, true] {
            let (mut failed, mut done) = (Vec::new(), 0);
            let mut note = |index, error: std::io::Error| {
                failed.push((index, error.raw_os_error()));
            };
            let send = async {
                match polled {
                    false => near.send_each(&msgs, &mut note).await,
                    true => {
                        poll_fn(|cx| near.poll_send_each(cx, &msgs, &mut done, &mut note)).await
                    }
                }
            };
            let (sent, got) = tokio::join!(send, receive(&far, COUNT));
            assert_eq!(sent.expect("all errors were reported"), msgs.len());
            assert_eq!(got, payloads);
            assert_eq!(failed, bad.map(|i| (i, Some(errno::EMSGSIZE))));
            assert_eq!(done, if polled { msgs.len() } else { 0 });
        }
    });
}

#[test]
fn a_dropped_send_by_poll_says_how_far_it_came() {
    run(async {
        let (near, far) = narrow();
        let payloads = numbered(COUNT, 8);
        let (msgs, mut done) = (msgs(&payloads), 0);
        let no_error = &mut |index, error| panic!("message {index}: {error}");
        near.writable().await.expect("it is, as tokio must first hear");
        let mut each = Box::pin(poll_fn(|cx| near.poll_send_each(cx, &msgs, &mut done, no_error)));
        assert!(once(each.as_mut()).await.is_none());
        drop(each);
        assert!((1..COUNT).contains(&done));
        assert_eq!(receive(&far, done).await, payloads[..done]);
    });
}

/// What does not fit now goes when there is space, and the task waits as with any other message.
#[test]
fn d8_a_message_segmented_in_user_space_waits_until_writable() {
    run(async {
        let (near, far) = narrow();
        let near = Offload::new(near).expect("a Unix socket");
        let data = numbered(COUNT / 4, 30);
        let meta = mmsg::SendMeta::new().with_segment_size(8);
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::new(data).with_meta(&meta)).collect();
        let mut queue = SendQueue::new(1 << 20);
        msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
        let send = async {
            let no_error = |index, error| panic!("message {index}: {error}");
            near.send_each(&msgs, no_error).await.expect("there is space again");
            near.flush(&mut queue).await.expect("there is space again");
        };
        let segments: Vec<_> =
            data.iter().flat_map(|data| data.chunks(8)).map(<[u8]>::to_vec).collect();
        let ((), got) = tokio::join!(send, receive(&far, segments.len() * 2));
        assert_eq!(got, [&segments[..], &segments].concat());
    });
}
