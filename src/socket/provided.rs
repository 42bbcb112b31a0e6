//! The provided [`recv_slices`], for implementations of your own. Their counts cannot be trusted, so each is limited to
//! the messages offered.

use std::array;
use std::io::{self, IoSliceMut};

use super::BatchSocket;
use crate::recv::datagram::Message;
use crate::recv::msg::RecvMsg;

/// Receives a message into each of the first buffers, by `recv_batch`.
pub(super) fn recv_slices(
    socket: &(impl BatchSocket + ?Sized),
    buffers: &mut [IoSliceMut<'_>],
    each: &mut dyn FnMut(usize, Message<'_>),
) -> io::Result<usize> {
    const MAX: usize = 16;
    let max = buffers.len().min(MAX);
    let mut starts = [std::ptr::null(); MAX];
    let mut left = buffers.iter_mut().enumerate();
    let mut msgs: [RecvMsg<'_>; MAX] = array::from_fn(|_| match left.next() {
        Some((i, buffer)) => {
            starts[i] = buffer.as_ptr();
            RecvMsg::new(buffer)
        }
        None => RecvMsg::new(&mut []),
    });
    let count = socket.recv_batch(&mut msgs[..max])?.min(max);
    for (i, msg) in msgs[..count].iter().enumerate() {
        // The implementation may have reordered the messages: the start of its buffer identifies each. Empty buffers may
        // share a start, so `i` is tried first.
        let moved = || starts[..max].iter().position(|start| *start == msg.start()).unwrap_or(i);
        let index = if starts[i] == msg.start() { i } else { moved() };
        each(index, msg.message());
    }
    Ok(count)
}
