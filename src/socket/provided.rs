//! The trait's provided methods, by its two required ones, for sockets that are not the kernel's. Such a socket
//! may return any count: each count is limited to the messages offered, and every loop ends.

use std::array;
use std::io::{self, IoSliceMut};
use std::ptr;

use super::{BatchSocket, Offer};
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;
use crate::send::msg::SendMsg;
use crate::send::queue::SendQueue;
use crate::sys::RecvFlags;

/// Receives a message into each of the first buffers.
pub(super) fn recv_slices(
    socket: &(impl BatchSocket + ?Sized),
    buffers: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
    each: &mut dyn FnMut(usize, Message<'_>),
) -> io::Result<usize> {
    const STEP: usize = 32;
    let most = buffers.len().min(STEP);
    let mut starts = [ptr::null(); STEP];
    let mut left = buffers.iter_mut().enumerate();
    let mut msgs: [RecvMsg<'_>; STEP] = array::from_fn(|_| match left.next() {
        Some((i, buffer)) => {
            starts[i] = buffer.as_ptr();
            RecvMsg::new(buffer)
        }
        None => RecvMsg::new(&mut []),
    });
    let count = socket.recv_batch_with(&mut msgs[..most], flags)?.min(most);
    for (i, msg) in msgs[..count].iter().enumerate() {
        // The implementation may have reordered the messages.
        let is_here = |index: &usize| starts[*index] == msg.start();
        let index = Some(i).filter(is_here).or_else(|| (0..most).find(is_here));
        each(index.unwrap_or(i), msg.message());
    }
    Ok(count)
}

/// Memory on the stack for messages that are taken from an iterator or a queue.
type Chunk<'m> = [SendMsg<'m>; Offer::MOST];
const EMPTY: Chunk<'static> = [SendMsg::new(&[]); Offer::MOST];

/// Takes messages, as many as there is memory for, and returns them.
fn take<'c, 'm>(
    chunk: &'c mut Chunk<'m>,
    from: impl Iterator<Item = SendMsg<'m>>,
) -> &'c [SendMsg<'m>] {
    let mut count = 0;
    for (slot, msg) in chunk.iter_mut().zip(from) {
        *slot = msg;
        count += 1;
    }
    &chunk[..count]
}

/// Sends messages until one fails.
pub(super) fn send_iter<'m>(
    socket: &(impl BatchSocket + ?Sized),
    msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
) -> io::Result<usize> {
    let mut msgs = msgs.fuse();
    let (mut sent, mut chunk): (_, Chunk<'m>) = (0, EMPTY);
    loop {
        let chunk = take(&mut chunk, &mut msgs);
        if chunk.is_empty() {
            return Ok(sent);
        }
        let count = match socket.send_batch(chunk) {
            Ok(count) => count.min(chunk.len()),
            Err(error) if sent == 0 => return Err(error),
            Err(_) => return Ok(sent),
        };
        sent += count;
        if count < Offer::MOST {
            return Ok(sent);
        }
    }
}

/// Sends messages, past each that fails.
pub(super) fn send_each<'m>(
    socket: &(impl BatchSocket + ?Sized),
    msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    on_error: &mut dyn FnMut(usize, io::Error),
) -> io::Result<usize> {
    let mut msgs = msgs.fuse();
    let (mut handled, mut offer) = (0, Offer::new());
    let mut chunk: Chunk<'m> = EMPTY;
    loop {
        let mut left = take(&mut chunk, &mut msgs);
        if left.is_empty() {
            return Ok(handled);
        }
        while !left.is_empty() {
            let offered = offer.of(left);
            match socket.send_batch(offered) {
                // An implementation that sends nothing and returns no error would be called for ever.
                Ok(0) => return Ok(handled),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return if handled == 0 { Err(error) } else { Ok(handled) };
                }
                result => {
                    let failed = |error| on_error(handled, error);
                    let done = offer.record(offered.len(), result, failed);
                    handled += done;
                    left = &left[done..];
                }
            }
        }
    }
}

/// Sends up to `most` messages from the front of a queue, at most [`Offer::MOST`].
pub(super) fn send_first(
    socket: &(impl BatchSocket + ?Sized),
    queue: &mut SendQueue,
    most: usize,
) -> io::Result<usize> {
    let mut chunk = EMPTY;
    let count = queue.fill(&mut chunk[..most]);
    if count == 0 {
        return Ok(0);
    }
    let sent = socket.send_batch(&chunk[..count])?.min(count);
    queue.advance(sent);
    Ok(sent)
}
