//! `recv_bufs`: receives into the spare capacity of `BufMut`s.

use std::io;
use std::mem::MaybeUninit;
use std::task::{Context, Poll};

use bytes::buf::UninitSlice;
use bytes::{BufMut, BytesMut};
use mmsg::{
    AsyncBatchSocket, BatchSocket, BatchSocketExt, Offload, RecvBatch, RecvMeta, RecvMsg, SendMsg,
};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::ReadBuf;

use crate::common::numbered;
use crate::common::recv::in_one_receive;
use crate::common::sockets::{addr, settle, udp4};

/// Sends datagrams, receives them into buffers of these capacities that hold `before`, and returns what came: buffers and
/// what the closure saw.
fn received<B: BufMut>(bufs: &mut [B], min_len: usize, datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (from, to) = (udp4(), udp4());
    for data in datagrams {
        from.send_to(data, addr(&to)).expect("it is taken");
    }
    settle();
    let mut seen = Vec::new();
    let count = to.recv_bufs(bufs, min_len, |i, message| {
        assert_eq!((i, message.addr()), (seen.len(), Some(addr(&from))));
        let whole = &datagrams[i];
        assert_eq!(message.truncated(), message.len() < whole.len());
        assert_eq!(message.data(), &whole[..message.len()]);
        seen.push(message.data().to_vec());
    });
    assert_eq!(count.expect("they are there"), seen.len());
    assert_eq!(seen.len(), in_one_receive(datagrams.len().min(bufs.len())));
    seen
}

#[test]
fn each_message_follows_what_its_buffer_holds() {
    let data = numbered(3, 24);
    let mut vecs: Vec<Vec<u8>> = (0..5).map(|_| Vec::with_capacity(64)).collect();
    let mut shared: Vec<BytesMut> = (0..5).map(|_| BytesMut::with_capacity(64)).collect();
    for i in 0..5 {
        vecs[i].extend_from_slice(b"head");
        shared[i].extend_from_slice(b"head");
    }
    for (i, data) in received(&mut vecs, 24, &data).iter().enumerate() {
        assert_eq!(vecs[i], [&b"head"[..], data].concat());
    }
    for (i, data) in received(&mut shared, 24, &data).iter().enumerate() {
        assert_eq!(shared[i], [&b"head"[..], data].concat());
    }
    let mut memory = [[MaybeUninit::uninit(); 32]; 2];
    let mut read_bufs = memory.each_mut().map(|memory| ReadBuf::uninit(memory));
    for (i, data) in received(&mut read_bufs, 32, &data).iter().enumerate() {
        assert_eq!(read_bufs[i].filled(), data);
    }
}

/// A full `Vec` grows by 64 bytes when it is asked for a chunk.
#[test]
fn a_chunk_that_is_too_short_is_an_error_before_anything_is_received() {
    let socket = udp4();
    socket.send_to(&[7; 100], addr(&socket)).expect("it is taken");
    // The short one first, since some systems take one message a call.
    let mut bufs = [vec![1; 10], Vec::with_capacity(100)];
    bufs[0].shrink_to_fit();
    let error = socket.recv_bufs(&mut bufs, 100, |_, _| panic!("nothing came"));
    assert_eq!(error.expect_err("64 bytes are too few").kind(), io::ErrorKind::InvalidInput);
    assert_eq!(socket.recv_bufs(&mut bufs[1..], 100, |_, _| {}).expect("it is still there"), 1);
    assert_eq!(bufs[1], [7; 100]);
    assert_eq!(socket.recv_bufs(&mut bufs[..0], 100, |_, _| {}).expect("no buffers"), 0);
}

#[test]
fn no_spare_capacity_and_chains_give_truncated_messages() {
    let data = [vec![1, 2, 3, 4], vec![5, 6, 7, 8]];
    let (mut none, mut three) = ([0; 0], [0; 3]);
    let seen = received(&mut [&mut none[..], &mut three[..]], 0, &data);
    assert_eq!(seen, [&[][..], &[5, 6, 7]][..seen.len()]);
    // Only the first chunk of a chain is offered.
    let (mut one, mut two) = ([0; 2], [0; 9]);
    assert_eq!(received(&mut [(&mut one[..]).chain_mut(&mut two[..])], 2, &data[..1]), [[1, 2]]);
    assert_eq!((one, two), ([1, 2], [0; 9]));
}

/// Gives another chunk each time.
struct Turncoat([Vec<u8>; 2], usize);

// SAFETY: a chunk is spare capacity, and the counts are those of the vector that gave the last one.
unsafe impl BufMut for Turncoat {
    fn remaining_mut(&self) -> usize {
        self.0[self.1].remaining_mut()
    }
    unsafe fn advance_mut(&mut self, n: usize) {
        // SAFETY: the caller's promise is about this vector.
        unsafe { self.0[self.1].advance_mut(n) }
    }
    fn chunk_mut(&mut self) -> &mut UninitSlice {
        self.1 = 1 - self.1;
        self.0[self.1].chunk_mut()
    }
}

#[test]
fn a_buffer_that_gives_another_chunk_gets_nothing() {
    let socket = udp4();
    socket.send_to(b"hello", addr(&socket)).expect("it is taken");
    let mut bufs = [Turncoat([Vec::with_capacity(64), Vec::with_capacity(64)], 0)];
    let each = |_, message: mmsg::Message<'_>| assert!(message.is_empty());
    assert_eq!(socket.recv_bufs(&mut bufs, 64, each).expect("one came"), 1);
    assert!(bufs[0].0.iter().all(Vec::is_empty));
}

/// Fills some of its messages, and claims any count.
struct Liar(usize, usize);

impl BatchSocket for Liar {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        let filled = msgs.iter_mut().take(self.0);
        filled.for_each(|msg| msg.fill(&[7; 40], None, RecvMeta::default()));
        Ok(self.1)
    }
    fn send_batch(&self, _: &[SendMsg<'_>]) -> io::Result<usize> {
        Ok(0)
    }
}

#[test]
fn a_double_that_lies_shows_only_what_it_filled() {
    for (filled, claimed) in [(2, 2), (0, 3), (2, 1), (9, usize::MAX), (0, 0)] {
        let double: &dyn BatchSocket = &Liar(filled, claimed);
        let mut bufs: [Vec<u8>; 4] = [32, 64, 40, 40].map(Vec::with_capacity);
        let mut seen = 0;
        let count = double.recv_bufs(&mut bufs, 32, |_, _| seen += 1).expect("no error");
        assert_eq!((count, count), (claimed.min(4), seen));
        for (i, buf) in bufs.iter().enumerate() {
            let len = if i < filled.min(count) { [32, 40, 40, 40][i] } else { 0 };
            assert_eq!(*buf, vec![7; len], "{filled} {claimed} {i}");
        }
    }
}

#[test]
fn an_offload_needs_long_buffers_and_counts() {
    let Ok(socket) = Offload::new(udp4()) else { return };
    if socket.gro() {
        let short = socket.recv_bufs(&mut [Vec::with_capacity(1_500)], 0, |_, _| {});
        assert_eq!(short.expect_err("GRO is on").kind(), io::ErrorKind::InvalidInput);
    }
    socket.get_ref().send_to(b"hello", addr(socket.get_ref())).expect("it is taken");
    let mut bufs = [BytesMut::with_capacity(65_536)];
    assert_eq!(socket.recv_bufs(&mut bufs, 65_536, |_, _| {}).expect("one came"), 1);
    assert_eq!((&bufs[0][..], socket.counters().received), (&b"hello"[..], 1));
}

async fn is_pending(socket: &tokio::net::UdpSocket, bufs: &mut [Vec<u8>]) -> bool {
    let mut poll =
        |cx: &mut Context<'_>| socket.poll_recv_bufs(cx, bufs, 8, |_, _| {}).is_pending();
    std::future::poll_fn(|cx| Poll::Ready(poll(cx))).await
}

#[tokio::test]
async fn futures_and_polls_fill_buffers() {
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let to = socket.local_addr().expect("it is bound");
    let mut bufs = [Vec::with_capacity(8), Vec::with_capacity(8)];
    assert!(is_pending(&socket, &mut bufs).await, "nothing is there");
    socket.send_to(b"one", to).await.expect("it is taken");
    let count = AsyncBatchSocket::recv_bufs(&socket, &mut bufs, 8, |_, _| {}).await;
    assert_eq!((count.expect("one came"), &bufs[0][..]), (1, &b"one"[..]));
    socket.send_to(b"two", to).await.expect("it is taken");
    socket.readable().await.expect("readable");
    assert!(!is_pending(&socket, &mut bufs[1..]).await);
    assert_eq!(bufs[1], b"two");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The naive twin receives into a batch and copies.
    #[test]
    fn a_receive_is_a_receive_and_a_copy(
        lens in vec(0usize..200, 1..12),
        shapes in vec((0usize..50, 0usize..200), 1..12),
    ) {
        let (socket, twin) = (udp4(), udp4());
        let data: Vec<Vec<u8>> = lens.iter().map(|len| vec![*len as u8; *len]).collect();
        for to in [&socket, &twin] {
            for data in &data {
                socket.send_to(data, addr(to)).expect("it is taken");
            }
        }
        settle();
        let mut bufs: Vec<Vec<u8>> = Vec::new();
        for (held, spare) in &shapes {
            let mut buf = Vec::with_capacity(held + spare.max(&1));
            buf.resize(*held, 0xEE);
            bufs.push(buf);
        }
        let (mut copies, spares) = (bufs.clone(), bufs.iter().map(|b| b.capacity() - b.len()));
        let spares: Vec<_> = spares.collect();
        let mut batch = RecvBatch::new(bufs.len(), 256);
        socket.recv_bufs(&mut bufs, 0, |_, _| {}).expect("one is there");
        twin.recv_into(&mut batch).expect("the same");
        for ((copy, spare), message) in copies.iter_mut().zip(&spares).zip(batch.messages()) {
            copy.extend_from_slice(&message.data()[..message.len().min(*spare)]);
        }
        prop_assert_eq!(bufs, copies);
    }
}
