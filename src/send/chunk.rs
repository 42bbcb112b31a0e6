//! A chunk: messages on the stack, taken one by one from an iterator or a queue.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::slice;

use crate::send::msg::SendMsg;

/// The length of a chunk: several whole GSO batches of the usual 54 datagrams of 1,200 bytes.
pub(crate) const CHUNK: usize = 256;

/// Memory for a chunk. Uninitialised, since writing empty messages takes as long as sending a datagram.
pub(crate) type Chunk<'m, const N: usize = CHUNK> = [MaybeUninit<SendMsg<'m>>; N];

pub(crate) const fn empty<'m>() -> Chunk<'m> {
    [const { MaybeUninit::uninit() }; CHUNK]
}

/// Writes messages from the start of `chunk`, at most `max`, and returns them.
#[inline]
pub(crate) fn fill<'r, 'm, const N: usize>(
    chunk: &'r mut Chunk<'m, N>,
    max: usize,
    msgs: &mut impl Iterator<Item = SendMsg<'m>>,
) -> &'r [SendMsg<'m>] {
    let mut len = 0;
    for (place, msg) in chunk.iter_mut().take(max).zip(msgs) {
        place.write(msg);
        len += 1;
    }
    // SAFETY: the loop has initialised the first `len`.
    unsafe { written(chunk, len) }
}

/// Writes `msg(0)`, `msg(1)` and so on, `count` messages but at most a chunk, and returns them.
#[inline]
pub(crate) fn fill_by<'r, 'm>(
    chunk: &'r mut Chunk<'m>,
    count: usize,
    mut msg: impl FnMut(usize) -> SendMsg<'m>,
) -> &'r [SendMsg<'m>] {
    let count = count.min(CHUNK);
    for (i, place) in chunk[..count].iter_mut().enumerate() {
        place.write(msg(i));
    }
    // SAFETY: the loop has initialised the first `count`.
    unsafe { written(chunk, count) }
}

/// The first messages of a chunk. A `SendMsg` is `Copy`: it needs no drop.
///
/// # Safety
///
/// The first `len` are initialised.
unsafe fn written<'r, 'm, const N: usize>(
    chunk: &'r Chunk<'m, N>,
    len: usize,
) -> &'r [SendMsg<'m>] {
    // SAFETY: the caller has initialised the first `len`, and the slice checks that the chunk has as many.
    unsafe { slice::from_raw_parts(chunk[..len].as_ptr().cast(), len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_as_long_as_what_was_written() {
        let mut chunk = empty();
        for (offered, max, written) in
            [(0, CHUNK, 0), (3, CHUNK, 3), (3, 2, 2), (2 * CHUNK, CHUNK, CHUNK)]
        {
            let mut msgs = (0..offered).map(|_| SendMsg::new(b"x"));
            let filled = fill(&mut chunk, max, &mut msgs);
            assert_eq!(filled.len(), written, "{offered} offered, at most {max}");
            assert!(filled.iter().all(|msg| msg.len() == 1));
        }
        for (count, written) in [(0, 0), (2, 2), (2 * CHUNK, CHUNK)] {
            let filled = fill_by(&mut chunk, count, |_| SendMsg::new(b"yy"));
            assert_eq!(filled.len(), written, "{count} asked for");
            assert!(filled.iter().all(|msg| msg.len() == 2));
        }
    }
}
