//! A chunk: messages on the stack, taken one by one from an iterator or a queue.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::slice;

use crate::send::msg::SendMsg;

/// The length of a chunk: several whole GSO batches of the usual 54 datagrams of 1,200 bytes.
pub(crate) const CHUNK: usize = 256;

/// Memory for a chunk. Uninitialised, since writing empty messages takes as long as sending a datagram.
pub(crate) type Chunk<'m> = [MaybeUninit<SendMsg<'m>>; CHUNK];

pub(crate) const fn empty<'m>() -> Chunk<'m> {
    [const { MaybeUninit::uninit() }; CHUNK]
}

/// Writes messages from the start of `chunk`, at most `max`, and returns them.
#[inline]
pub(crate) fn fill<'r, 'm>(
    chunk: &'r mut Chunk<'m>,
    max: usize,
    msgs: &mut impl Iterator<Item = SendMsg<'m>>,
) -> &'r [SendMsg<'m>] {
    let mut len = 0;
    for (place, msg) in chunk.iter_mut().take(max).zip(msgs) {
        place.write(msg);
        len += 1;
    }
    // SAFETY: the loop has initialised the first `len`. A `SendMsg` is `Copy`: it needs no drop.
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
    }
}
