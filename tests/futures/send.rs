//! Sends wait for space, continue where they stopped, and lose nothing when dropped.

use std::future::poll_fn;
use std::pin::pin;

use mmsg::{AsyncBatchSocket, BatchSocket, Offload, RecvBatch, SendMsg, SendQueue};
use tokio::net::UdpSocket;

use super::{narrow, once, run, udp};
use crate::common::numbered;
use crate::common::recv::payloads;
use crate::common::sockets::{addr, udp4};

/// More than the kernel holds for a pair of Unix sockets.
const COUNT: usize = 3_000;

pub(super) fn msgs(payloads: &[Vec<u8>]) -> Vec<SendMsg<'_>> {
    payloads.iter().map(|data| SendMsg::new(data)).collect()
}

pub(super) fn queue(payloads: &[Vec<u8>]) -> SendQueue {
    let mut queue = SendQueue::new(1 << 20);
    payloads.iter().for_each(|data| queue.push(&SendMsg::new(data)).expect("there is space"));
    queue
}

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
            assert_eq!(failed, bad.map(|i| (i, Some(libc::EMSGSIZE))));
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

#[test]
fn offload_sends_gso_batches() {
    run(async {
        let (to, (from, _)) = (udp4(), udp());
        let from = Offload::new(from).expect("a UDP socket");
        let data = numbered(30, 100);
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(addr(&to), data)).collect();
        let mut queue = SendQueue::new(1 << 20);
        msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));

        assert_eq!(from.send_batch(&msgs).await.expect("loopback takes it"), 30);
        from.flush(&mut queue).await.expect("loopback takes it");
        let no_error = |index, error| panic!("message {index}: {error}");
        from.send_each(&msgs, no_error).await.expect("loopback takes it");
        assert_eq!(payloads(&to, 90), [&data[..], &data, &data].concat());
        assert_eq!(from.counters().sent, 90);
        // One GSO batch and not a call for each, where the kernel has GSO.
        assert!(!from.gso() || from.counters().send_calls <= 6, "{:?}", from.counters());
    });
}

/// Segments that do not fit now go when there is space, and the task waits as with any other message.
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

/// Futures go to other threads with their tasks.
#[test]
fn the_futures_can_be_spawned() {
    fn spawnable<F: Future + Send>(future: F) -> F {
        future
    }
    run(async {
        let (socket, addr) = udp();
        let (mut batch, mut queue) = (RecvBatch::new(4, 32), SendQueue::new(1_000));
        let msgs = [SendMsg::to(addr, b"spawned")];
        spawnable(socket.send_batch(&msgs)).await.expect("loopback takes it");
        spawnable(socket.send_each(&msgs, |_, _| {})).await.expect("loopback takes it");
        spawnable(socket.flush(&mut queue)).await.expect("nothing to be done");
        spawnable(socket.recv_into(&mut batch)).await.expect("it was sent");
        let task = tokio::spawn(async move {
            let mut memory = [0; 32];
            let mut msgs = [mmsg::RecvMsg::new(&mut memory)];
            socket.recv_batch(&mut msgs).await.map(|_| socket)
        });
        if batch.message_count() == 2 {
            let more = udp4();
            more.send_batch(&msgs).expect("loopback takes it");
        }
        let socket = task.await.expect("it does not panic").expect("it was sent");
        // The `poll_` functions take references.
        let socket: &dyn AsyncBatchSocket<Socket = UdpSocket> = &socket;
        let sent = poll_fn(|cx| socket.poll_send_batch(cx, &msgs)).await;
        assert_eq!(sent.expect("loopback takes it"), 1);
    });
}
