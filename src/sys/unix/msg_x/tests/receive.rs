//! Receives by `recvmsg_x`.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};

use proptest::collection::vec;
use proptest::prelude::*;

use super::{arena, arena_recv_into, calls, fake, pair, payload, scripted};
use crate::sys::Direction::Receive;
use crate::sys::fault::{self, Call, Fate};
use crate::{Ancillary, Backend, BatchSocket, MmsgBuf, RecvBatch, RecvMsg};

/// A pair of sockets, the second of which has datagrams of these lengths.
fn waiting(lens: impl IntoIterator<Item = usize>) -> (UdpSocket, UdpSocket) {
    let (near, far) = pair();
    send_plainly(&near, lens);
    (near, far)
}

/// Sends datagrams of these lengths through the standard library.
fn send_plainly(near: &UdpSocket, lens: impl IntoIterator<Item = usize>) {
    for (i, len) in lens.into_iter().enumerate() {
        assert_eq!(near.send(&payload(i, len)).unwrap(), len);
    }
}

#[test]
fn a_receive_moves_as_many_a_call_as_the_kernel_allows() {
    for (limit, first) in [(1, 1), (10, 10), (63, 63), (64, 64), (100, 64), (256, 64)] {
        let (near, far) = waiting((0..200).map(|i| i % 50));
        let _installed = fake::install(limit);
        let mut batch = RecvBatch::new(256, 100);
        assert_eq!(arena_recv_into(&mut batch, &far), 200, "{limit}");
        for (i, datagram) in batch.iter().enumerate() {
            assert_eq!((datagram.data(), datagram.truncated()), (&payload(i, i % 50)[..], false));
            assert_eq!(datagram.addr(), Some(near.local_addr().unwrap()));
        }
        let calls = calls(Receive);
        assert_eq!(calls[0], (first, Some(first)), "{limit}");
        assert!(calls.iter().all(|(offered, _)| *offered <= first));
    }
}

#[test]
fn a_limit_that_was_lowered_meanwhile_makes_shorter_batches() {
    let (_near, far) = waiting([5; 30]);
    let _installed = fake::install(64);
    fake::lower(7);
    let mut batch = RecvBatch::new(64, 100);
    for received in [7, 7, 7, 7, 2] {
        assert_eq!(arena_recv_into(&mut batch, &far), received);
    }
    assert_eq!(calls(Receive).len(), 5);
}

#[test]
fn a_truncated_datagram_is_found_by_the_spare_byte() {
    let lens = [9, 10, 11, 12, 1000, 0, 10];
    let (_near, far) = waiting(lens);
    let _installed = fake::install(256);
    let mut memory = [[0xee; 12]; 7];
    let mut msgs: Vec<_> = memory.iter_mut().map(|m| RecvMsg::new(&mut m[..10])).collect();
    assert_eq!(arena().recv(&far, &mut msgs).unwrap(), 7);
    for (i, (msg, len)) in msgs.iter().zip(lens).enumerate() {
        let truncated = len > 10;
        assert_eq!((msg.len(), msg.truncated()), (len.min(10), truncated), "{len}");
        assert_eq!(msg.full_len(), (!truncated).then_some(len));
        assert_eq!(msg.data(), &payload(i, len)[..len.min(10)]);
    }
    drop(msgs);
    assert!(memory.iter().all(|m| m[10..] == [0xee; 2]), "nothing is written past a buffer");
    assert_eq!(calls(Receive), [(7, Some(7))]);
}

#[test]
fn a_call_takes_messages_with_as_many_buffers_as_the_first_has() {
    let (_near, far) = waiting([6; 6]);
    let _installed = fake::install(256);
    let mut memory = [[0; 2]; 15];
    let mut memory = memory.iter_mut().map(|buffer| IoSliceMut::new(buffer));
    let mut buffers: Vec<Vec<_>> =
        [3, 3, 1, 4, 4, 0].map(|count| memory.by_ref().take(count).collect()).into();
    let mut msgs: Vec<_> = buffers.iter_mut().map(|b| RecvMsg::scatter(b)).collect();
    assert_eq!(arena().recv(&far, &mut msgs).unwrap(), 6);
    let results: Vec<_> = msgs.iter().map(|msg| (msg.len(), msg.truncated())).collect();
    assert_eq!(results, [(6, false), (6, false), (2, true), (6, false), (6, false), (0, true)]);
    assert_eq!(calls(Receive), [(2, Some(2)), (1, Some(1)), (2, Some(2)), (1, Some(1))]);
}

#[test]
fn a_message_with_too_many_buffers_goes_by_recvmsg() {
    let (_near, far) = waiting([300; 3]);
    let _installed = fake::install(256);
    fault::script([]);
    let mut memory = vec![[0; 1]; 600];
    let mut buffers: Vec<_> = memory.iter_mut().map(|b| IoSliceMut::new(b)).collect();
    let mut msgs: Vec<_> = buffers.chunks_mut(300).map(RecvMsg::scatter).collect();
    assert_eq!(arena().recv(&far, &mut msgs).unwrap(), 2);
    assert!(msgs.iter().all(|msg| msg.len() == 300 && !msg.truncated()));
    assert_eq!((calls(Receive), scripted(Call::RecvMsg)), (vec![], 2));
}

#[test]
fn control_data_that_may_be_of_another_datagram_is_dropped() {
    let (near, far) = pair();
    Ancillary::HOP_LIMIT.require(&far).unwrap();
    let _installed = fake::install(256);
    let mut batch = RecvBatch::new(8, 100);
    for (without, received) in [(0, 3), (1, 3), (2, 3), (3, 3), (0, 1)] {
        send_plainly(&near, vec![4; received]);
        fake::without_control(without);
        assert_eq!(arena_recv_into(&mut batch, &far), received);
        // With none at all nothing was lost.
        let (all, some) = (without == 0, (1..received).contains(&without));
        for (i, message) in batch.messages().enumerate() {
            assert_eq!((message.data(), message.addr().is_some()), (&payload(i, 4)[..], true));
            assert_eq!(message.control_truncated(), some, "{without}");
            assert_eq!(message.meta().hop_limit.is_some(), all, "{without}");
        }
    }
}

#[test]
fn control_data_without_space_is_truncated() {
    let (near, far) = pair();
    Ancillary::HOP_LIMIT.require(&far).unwrap();
    let _installed = fake::install(256);
    near.send(b"one").unwrap();
    near.send(b"two").unwrap();
    fake::space_for_control(4);
    let mut batch = RecvBatch::new(8, 100);
    assert_eq!(arena_recv_into(&mut batch, &far), 2);
    assert!(batch.messages().all(|m| m.control_truncated() && m.meta().hop_limit.is_none()));
}

#[test]
fn errors_of_a_receive() {
    let (near, far) = pair();
    let _installed = fake::install(256);
    let mut batch = RecvBatch::new(150, 100);
    for errno in [libc::ECONNREFUSED, libc::ENOBUFS, libc::EAGAIN] {
        send_plainly(&near, [4; 100]);
        fault::script([(Call::RecvMmsg, Fate::Fail(errno))]);
        Backend::Mmsg.make_process_default().unwrap();
        let error = far.recv_into(&mut batch).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(errno));
        // In the second call: it is the next one's, but for "nothing more waits".
        fault::script([(Call::RecvMmsg, Fate::Kernel), (Call::RecvMmsg, Fate::Fail(errno))]);
        assert_eq!(far.recv_into(&mut batch).unwrap(), 64);
        let next = far.recv_into(&mut batch);
        if errno == libc::EAGAIN {
            assert_eq!(next.unwrap(), 36);
        } else {
            assert_eq!(next.unwrap_err().raw_os_error(), Some(errno));
            assert_eq!(far.recv_into(&mut batch).unwrap(), 36);
        }
        fault::finish();
    }
}

#[test]
fn the_end_of_a_socket_is_a_receive_of_none() {
    let (near, far) = pair();
    near.send(b"last").unwrap();
    let _installed = fake::install(256);
    let mut batch = RecvBatch::new(8, 100);
    assert_eq!(arena_recv_into(&mut batch, &far), 1);
    socket2::SockRef::from(&far).shutdown(std::net::Shutdown::Read).unwrap();
    for _ in 0..2 {
        assert_eq!(arena_recv_into(&mut batch, &far), 0);
    }
    assert_eq!(calls(Receive), [(8, Some(1)), (8, Some(0)), (8, Some(0))]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any datagrams into any buffers: as by a `recvmsg` for each.
    #[test]
    fn receives_as_by_recvmsg(
        lens in vec(0usize..40, 1..100),
        layouts in vec(vec(0usize..12, 0..5), 1..100),
        limit in 1usize..80,
    ) {
        let (near, far) = pair();
        let payloads: Vec<_> = lens.iter().enumerate().map(|(i, len)| payload(i, *len)).collect();
        let mut results = [Backend::Msg, Backend::Mmsg].map(|backend| {
            for payload in &payloads {
                near.send(payload).unwrap();
            }
            let _installed = fake::install(limit);
            let mut results = Vec::new();
            // One part of the datagrams after another, until all have come.
            while results.len() < payloads.len() {
                receive(backend, &far, &layouts, &mut results);
            }
            results
        });
        let by_recvmsg = std::mem::take(&mut results[0]);
        prop_assert_eq!(&results[1], &by_recvmsg);
    }
}

/// What a receive reports of a message, and every byte that it may write to.
type Report = (Vec<Vec<u8>>, usize, bool, Option<usize>, Option<SocketAddr>);

fn receive(backend: Backend, far: &UdpSocket, layouts: &[Vec<usize>], results: &mut Vec<Report>) {
    // Where the layouts begin depends on what has come, so that both backends go through the same.
    let layouts = (results.len()..).map(|i| &layouts[i % layouts.len()]).take(layouts.len());
    let mut memory: Vec<Vec<Vec<u8>>> =
        layouts.map(|lens| lens.iter().map(|len| vec![0xee; *len]).collect()).collect();
    let reports: Vec<_> = {
        let mut buffers: Vec<Vec<_>> = memory
            .iter_mut()
            .map(|memory| memory.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect())
            .collect();
        let mut msgs: Vec<_> = buffers.iter_mut().map(|b| RecvMsg::scatter(b)).collect();
        let received = MmsgBuf::with_backend(backend).recv(far, &mut msgs).unwrap();
        msgs[..received]
            .iter()
            .map(|msg| (msg.len(), msg.truncated(), msg.full_len(), msg.addr()))
            .collect()
    };
    for ((len, truncated, full_len, addr), memory) in reports.into_iter().zip(memory) {
        results.push((memory, len, truncated, full_len, addr));
    }
}
