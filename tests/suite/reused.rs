//! Another thread replaces the socket behind a descriptor while calls use it.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mmsg::{BatchSocket, BatchSocketExt, RecvBatch, SendMsg};

use crate::common::recv::payloads;
use crate::common::sockets::{addr, has_space_for, settle, udp4};
use crate::common::{no_failure, repetitions, would_block};

const BATCH: usize = 16;

/// Calls `work` with a descriptor that alternates between the two sockets.
fn while_it_changes(sockets: &[UdpSocket; 2], work: impl FnOnce(&OwnedFd)) {
    let fd = OwnedFd::from(sockets[0].try_clone().expect("a descriptor"));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let change = scope.spawn(|| {
            let mut changes = 0;
            while !over.load(Ordering::Relaxed) {
                changes += 1;
                let socket = sockets[changes % 2].as_raw_fd();
                // SAFETY: the number stays an open descriptor of `fd`: dup2 replaces its socket atomically.
                let same = unsafe { libc::dup2(socket, fd.as_raw_fd()) };
                assert_eq!(same, fd.as_raw_fd());
                thread::yield_now();
            }
            changes
        });
        // Caught, so that the scope ends even if the work panics.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&fd)));
        over.store(true, Ordering::Relaxed);
        assert!(change.join().expect("it goes on until the end") > 0);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn sends_on_a_descriptor_that_changes_its_socket_come_once_each() {
    let far = udp4();
    let to = addr(&far);
    while_it_changes(&[udp4(), udp4()], |fd| {
        for round in 0..repetitions(2_000, 50) {
            let data: Vec<_> =
                (0..BATCH).map(|i| ((round * BATCH + i) as u32).to_be_bytes()).collect();
            let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(to, data)).collect();
            let socket = fd.as_fd();
            let sent = match round % 2 {
                0 => socket.send_batch(&msgs),
                _ => socket.send_each(&msgs, no_failure),
            };
            assert_eq!(sent.expect("either socket sends"), BATCH);
            let mut came = payloads(&far, BATCH);
            // Two sockets may take two paths through the kernel.
            came.sort();
            assert_eq!(came, data);
        }
    });
}

#[test]
fn receives_on_a_descriptor_that_changes_its_socket_give_every_datagram_once() {
    let sockets = [udp4(), udp4()];
    let count = repetitions(1_000, 50);
    if !sockets.iter().all(|s| has_space_for(s, count, "a descriptor that changes")) {
        return;
    }
    let near = udp4();
    for number in 0..2 * count as u32 {
        let to = addr(&sockets[number as usize % 2]);
        near.send_to(&number.to_be_bytes(), to).expect("loopback takes it");
    }
    settle();
    sockets.iter().for_each(|socket| socket.set_nonblocking(true).expect("an open socket"));
    let mut came = Vec::new();
    while_it_changes(&sockets, |fd| {
        let mut batch = RecvBatch::new(7, 4);
        while came.len() < 2 * count {
            match fd.as_fd().recv_into(&mut batch) {
                Ok(_) => came.extend(batch.iter().map(|datagram| datagram.data().to_vec())),
                empty => assert!(would_block(empty)),
            }
        }
    });
    came.sort();
    let all: Vec<_> = (0..2 * count as u32).map(|number| number.to_be_bytes().to_vec()).collect();
    assert_eq!(came, all);
}
