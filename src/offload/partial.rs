//! Messages segmented in user space of which a part has left.
//!
//! Such a message has been sent when its last datagram has. A call that has to end before that leaves
//! a note here, and when the message is offered again it goes on from where it was. A message is found
//! by its contents, not by who sends it: if several threads send equal ones, it makes no difference to
//! anybody which of them is completed first.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sys::Memory;

/// Messages that are remembered. Beyond that the oldest is forgotten, which its caller has most likely
/// given up.
const MOST: usize = 32;

#[derive(Debug, Default)]
pub(super) struct PartialSends {
    /// Whether there are notes, so that a call pays a load where there are none.
    any: AtomicBool,
    notes: Mutex<Notes>,
}

impl PartialSends {
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Takes the note of this message, which is segmented every `segment` bytes. Gives the number of
    /// its datagrams that have left, 0 if there is no note.
    #[cold]
    pub(super) fn take<'a>(
        &self,
        segment: usize,
        message: &Memory<'a, impl Iterator<Item = &'a [u8]> + Clone>,
    ) -> usize {
        let mut notes = self.lock();
        let sent = notes.take(segment, message);
        self.any.store(notes.used > 0, Ordering::Release);
        sent
    }

    /// Notes that `sent` datagrams of this message have left.
    #[cold]
    pub(super) fn keep<'a>(
        &self,
        segment: usize,
        message: &Memory<'a, impl Iterator<Item = &'a [u8]> + Clone>,
        sent: usize,
    ) {
        let mut notes = self.lock();
        notes.unused().write(segment, message, sent);
        self.any.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Up to [`MOST`] notes. The first `used` are in use, the oldest first; the memory of the others is
/// kept for the next ones.
#[derive(Debug, Default)]
struct Notes {
    notes: Vec<Note>,
    used: usize,
}

impl Notes {
    fn take<'a>(
        &mut self,
        segment: usize,
        message: &Memory<'a, impl Iterator<Item = &'a [u8]> + Clone>,
    ) -> usize {
        let used = &mut self.notes[..self.used];
        let Some(at) = used.iter().position(|note| note.is_of(segment, message)) else { return 0 };
        let sent = used[at].sent;
        used[at..].rotate_left(1);
        self.used -= 1;
        sent
    }

    fn unused(&mut self) -> &mut Note {
        if self.used == MOST {
            self.notes.rotate_left(1);
            self.used -= 1;
        }
        if self.used == self.notes.len() {
            self.notes.push(Note::default());
        }
        self.used += 1;
        &mut self.notes[self.used - 1]
    }
}

#[derive(Default)]
struct Note {
    segment: usize,
    name: Vec<u8>,
    control: Vec<u8>,
    payload: Vec<u8>,
    /// Datagrams that have left.
    sent: usize,
}

impl Note {
    fn write<'a>(
        &mut self,
        segment: usize,
        message: &Memory<'a, impl Iterator<Item = &'a [u8]> + Clone>,
        sent: usize,
    ) {
        (self.segment, self.sent) = (segment, sent);
        self.name.clear();
        self.name.extend_from_slice(message.name);
        self.control.clear();
        self.control.extend_from_slice(message.control);
        self.payload.clear();
        message.payload.clone().for_each(|buffer| self.payload.extend_from_slice(buffer));
    }

    fn is_of<'a>(
        &self,
        segment: usize,
        message: &Memory<'a, impl Iterator<Item = &'a [u8]> + Clone>,
    ) -> bool {
        let mut left = Some(&self.payload[..]);
        (self.segment, &self.name[..], &self.control[..])
            == (segment, message.name, message.control)
            && message.payload.clone().all(|buffer| {
                left = left.and_then(|left| left.strip_prefix(buffer));
                left.is_some()
            })
            && left == Some(&[])
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Note").field("sent", &self.sent).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts<'a> = std::iter::Copied<std::slice::Iter<'a, &'a [u8]>>;

    fn message<'a>(name: &'a [u8], payload: &'a [&'a [u8]]) -> Memory<'a, Parts<'a>> {
        Memory { name, control: &[], payload: payload.iter().copied() }
    }

    #[test]
    fn d23_a_message_goes_on_from_where_it_was_and_another_from_its_start() {
        let sends = PartialSends::default();
        let m = message(b"to", &[b"abc", b"def"]);
        sends.keep(2, &m, 2);
        assert!(sends.any());
        for other in [
            message(b"ot", &[b"abcdef"]),
            message(b"to", &[b"abcdeg"]),
            message(b"to", &[b"abcde"]),
            message(b"to", &[b"abcdef", b"g"]),
            message(b"toa", &[b"bcdef"]),
        ] {
            assert_eq!(sends.take(2, &other), 0);
        }
        assert_eq!(sends.take(3, &m), 0);
        assert_eq!(sends.take(2, &message(b"to", &[b"", b"abcdef"])), 2);
        assert_eq!((sends.take(2, &m), sends.any()), (0, false));
    }

    #[test]
    fn d23_many_messages_are_remembered_and_the_oldest_is_forgotten() {
        let sends = PartialSends::default();
        let payloads: Vec<[u8; 1]> = (0..MOST as u8 + 2).map(|i| [i]).collect();
        for (i, payload) in payloads.iter().enumerate() {
            sends.keep(1, &message(b"", &[payload]), i + 1);
        }
        let taken = |i: usize| sends.take(1, &message(b"", &[&payloads[i]]));
        assert_eq!((taken(0), taken(1)), (0, 0));
        // From both ends towards the middle.
        for i in 2..payloads.len() {
            let i = if i % 2 == 0 { i } else { payloads.len() + 2 - i };
            assert_eq!(taken(i), i + 1);
        }
        assert!(!sends.any());
        assert_eq!(sends.lock().notes.len(), MOST);
    }
}
