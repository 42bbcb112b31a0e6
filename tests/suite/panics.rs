//! Panics of the caller's code within a call, and calls at the end of a thread. A panicked call leaves nothing
//! behind: the next call sends only its own messages.

use std::cell::RefCell;
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMsg, SendQueue};

use crate::common::recv::{in_one_receive, memory, payloads};
use crate::common::sockets::{addr, settle, udp4};
use crate::common::{exchange, no_failure, numbered, queue_of, some_settings};

const COUNT: usize = 20;
/// The index of the message that is too long, or at which the caller's code panics.
const BAD: usize = 7;

/// Runs the call on a plain socket and on one with GSO.
fn on_both(call: impl Fn(&dyn BatchSocket, &UdpSocket)) {
    call(&udp4(), &udp4());
    call(&Offload::builder().gro(false).build(udp4()).expect("a UDP socket"), &udp4());
}

fn panics(call: impl FnOnce()) {
    let payload = catch_unwind(AssertUnwindSafe(call)).expect_err("the caller's code panics");
    assert_eq!(payload.downcast_ref(), Some(&"the caller's"), "another panic");
}

fn panic_now() -> ! {
    std::panic::resume_unwind(Box::new("the caller's"))
}

/// Checks that the received datagrams are the first of these, and returns how many.
fn first_of(far: &UdpSocket, data: &[Vec<u8>]) -> usize {
    settle();
    let mut batch = RecvBatch::new(2 * COUNT, 100);
    far.set_nonblocking(true).expect("an open socket");
    let mut came = Vec::new();
    while far.recv_into(&mut batch).is_ok() {
        came.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
    }
    far.set_nonblocking(false).expect("an open socket");
    assert_eq!(came, data[..came.len()]);
    came.len()
}

#[test]
fn an_iterator_that_panics_sends_nothing_twice() {
    on_both(|socket, far| {
        let data = numbered(COUNT, 40);
        let msgs = || {
            data.iter().enumerate().map(|(i, data)| match i {
                BAD => panic_now(),
                _ => SendMsg::to(addr(far), data),
            })
        };
        panics(|| drop(socket.send_each(msgs(), no_failure)));
        assert!(first_of(far, &data) <= BAD);
        exchange(socket, far, COUNT);
    });
}

#[test]
fn an_iterator_of_destinations_that_panics_queues_none() {
    let (from, to) = (udp4(), udp4());
    let meta = some_settings();
    let msg = SendMsg::new(b"data").with_meta(&meta);
    for stop in 1..9 {
        let dests = || (0..9).map(|i| if i == stop { panic_now() } else { addr(&to) });
        let mut queue = SendQueue::new(1 << 16);
        queue.push(&SendMsg::to(addr(&to), b"first")).expect("there is space");
        let before = queue.bytes();
        panics(|| {
            let _ = queue.push_to_all(&msg, dests());
        });
        assert_eq!((queue.len(), queue.bytes()), (1, before));
        queue.push_to_all(&msg, [addr(&to)]).expect("there is space");
        assert_eq!(from.flush(&mut queue).expect("loopback takes both"), 2);
        assert_eq!(payloads(&to, 2), [&b"first"[..], b"data"]);
    }
}

#[test]
fn a_report_that_panics_ends_the_call_after_what_was_sent() {
    on_both(|socket, far| {
        let mut data = numbered(COUNT, 40);
        data[BAD] = vec![0; 70_000];
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(addr(far), data)).collect();
        panics(|| drop(socket.send_each(&msgs, |_, _| panic_now())));
        assert_eq!(first_of(far, &data), BAD);

        let mut queue = queue_of(&msgs);
        panics(|| drop(socket.flush_each(&mut queue, |_, _| panic_now())));
        assert_eq!(first_of(far, &data), BAD);
        // The failed message may still be in the queue; later ones are.
        while queue.front().is_some_and(|msg| msg.slices().map(<[u8]>::len).sum::<usize>() > 40) {
            queue.discard_front();
        }
        assert_eq!(queue.len(), COUNT - BAD - 1);
        while !queue.is_empty() {
            socket.flush(&mut queue).expect("loopback takes it");
        }
        assert_eq!(payloads(far, COUNT - BAD - 1), data[BAD + 1..]);
        exchange(socket, far, COUNT);
    });
}

#[test]
fn a_receiver_of_slices_that_panics_leaves_the_socket_as_it_is() {
    on_both(|socket, far| {
        let data = numbered(COUNT, 40);
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(addr(far), data)).collect();
        assert_eq!(socket.send_batch(&msgs).expect("loopback takes it"), COUNT);
        settle();
        let mut memory = memory(5, 100);
        let mut buffers: Vec<_> = memory.iter_mut().map(|m| IoSliceMut::new(m)).collect();
        panics(|| {
            let mut two = |i, _: mmsg::Message<'_>| {
                if i == in_one_receive(3) - 1 {
                    panic_now()
                }
            };
            drop(far.recv_slices(&mut buffers, &mut two));
        });
        // The received datagrams are in the buffers, the rest is in the socket.
        let received = in_one_receive(5);
        let in_memory: Vec<_> = memory[..received].iter().map(|m| &m[..40]).collect();
        assert_eq!(in_memory, data[..received]);
        assert_eq!(payloads(far, COUNT - received), data[received..]);
        exchange(socket, far, COUNT);
    });
}

/// Sends when it is dropped, at the end of its thread.
struct Last {
    socket: UdpSocket,
    to: SocketAddr,
}

impl Drop for Last {
    fn drop(&mut self) {
        let data = numbered(3, 40);
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(self.to, data)).collect();
        assert_eq!(self.socket.send_batch(&msgs).expect("loopback takes it"), 3);
        assert_eq!(self.socket.send_each(&msgs, no_failure).expect("loopback takes it"), 3);
        self.socket.send_batch(&[SendMsg::to(addr(&self.socket), b"self")]).expect("it takes it");
        assert_eq!(payloads(&self.socket, 1), [b"self"]);
    }
}

thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });

#[test]
fn a_thread_that_ends_still_sends_and_receives() {
    let far = udp4();
    for pool_first in [false, true] {
        let last = Last { socket: udp4(), to: addr(&far) };
        let ended = thread::spawn(move || {
            let other = udp4();
            let send = || other.send_batch(&[SendMsg::to(addr(&other), b"a"); 2]);
            // The thread-local used first is dropped either first or last, so the arena either still exists or not.
            if pool_first {
                send().expect("loopback takes it");
            }
            LAST.set(Some(last));
            send().expect("loopback takes it");
        });
        ended.join().expect("no panic");
        let data = numbered(3, 40);
        assert_eq!(payloads(&far, 6), [&data[..], &data[..]].concat());
    }
}
