//! The provided [`recv_slices`]. An implementation of your own may return any count; this clamps it.

use std::array;
use std::io::{self, IoSliceMut};

use super::BatchSocket;
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;

/// Receives a message into each of the first buffers, by `recv_batch`.
pub(super) fn recv_slices(
    socket: &(impl BatchSocket + ?Sized),
    buffers: &mut [IoSliceMut<'_>],
    each: &mut dyn FnMut(usize, Message<'_>),
) -> io::Result<usize> {
    const MAX: usize = 16;
    let max = buffers.len().min(MAX);
    let mut left = buffers.iter_mut();
    let mut msgs: [RecvMsg<'_>; MAX] =
        array::from_fn(|_| RecvMsg::new(left.next().map_or(&mut [], |buffer| buffer)));
    let count = socket.recv_batch(&mut msgs[..max])?.min(max);
    msgs[..count].iter().enumerate().for_each(|(i, msg)| each(i, msg.message()));
    Ok(count)
}
