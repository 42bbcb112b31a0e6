//! The loops by which messages join a GSO batch, and what takes their buffers.

use std::mem;

use super::content::SendBuffers;
use crate::sys::Others;

/// Takes the buffers of the messages that join a run.
pub(crate) trait Joined<'m> {
    /// Adds the only buffer of a message.
    fn join(&mut self, data: &'m [u8]);

    /// Adds one of several buffers of a message.
    fn add_part(&mut self, data: &'m [u8]);

    /// Adds the only buffer of a message, and returns how to add the next ones: up to `count` of the same length.
    fn join_alike(&mut self, data: &'m [u8], count: usize) -> Others<'_, 'm>;

    /// Adds what was copied into the first `len` bytes of the space for [`Others::Copied`].
    fn join_copied(&mut self, len: usize);
}

/// Adds all buffers of a message.
#[inline(always)]
pub(super) fn join_all<'m>(joined: &mut impl Joined<'m>, buffers: SendBuffers<'m>) {
    match buffers {
        SendBuffers::One(data) => joined.join(data),
        SendBuffers::Many(many) => many.iter().for_each(|data| joined.add_part(data)),
    }
}

/// Takes messages as long as `takes` returns true. Returns the next one.
#[inline(always)]
pub(super) fn next_after<M>(
    msgs: &mut impl Iterator<Item = M>,
    mut takes: impl FnMut(&M) -> bool,
) -> Option<M> {
    loop {
        // Not moved until the end: to read what was just written in wider pieces takes 8 ns.
        let next = msgs.next();
        match &next {
            Some(msg) if takes(msg) => {}
            _ => return next,
        }
    }
}

/// Copies the payloads of messages one after another, as long as there is space and `payload_of` returns one.
/// Returns the next message, and how many bytes were copied.
#[inline(always)]
pub(super) fn copy_while<'m, M>(
    msgs: &mut impl Iterator<Item = M>,
    space: &mut [u8],
    payload_of: impl Fn(&M) -> Option<&'m [u8]>,
) -> (Option<M>, usize) {
    let len = space.len();
    let mut free = space;
    let next = next_after(msgs, |msg| match payload_of(msg) {
        Some(data) if data.len() <= free.len() => {
            let (copy, rest) = mem::take(&mut free).split_at_mut(data.len());
            copy.copy_from_slice(data);
            free = rest;
            true
        }
        _ => false,
    });
    (next, len - free.len())
}
