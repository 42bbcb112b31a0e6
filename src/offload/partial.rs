//! Messages segmented in user space of which a part has been sent.
//!
//! Such a message has been sent when its last datagram has. A call that has to end before that leaves
//! a note here, and when the message is offered again the send continues after the datagrams that have left.
//! A message is found by its contents and its destination, not by its sender: if several threads send equal
//! messages, it makes no difference which of them is completed first.
//!
//! A note holds a hash of contents and destination and no copy, so that thousands of notes take little memory. The
//! hash's key is this socket's alone: no peer can make two messages collide.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sys::{self, BorrowedSocket, Memory};

/// Messages that are remembered: 96 KiB. Beyond that the oldest is forgotten, which its caller has most
/// likely given up.
const MOST: usize = 4_096;

#[derive(Default)]
pub(super) struct PartialSends {
    /// Whether there are notes. While there are none, a call pays one load.
    any: AtomicBool,
    /// The oldest first.
    notes: Mutex<VecDeque<Note>>,
    keys: [RandomState; 2],
}

#[derive(Clone, Copy)]
struct Note {
    id: [u64; 2],
    /// Datagrams that have left.
    sent: usize,
}

impl PartialSends {
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Reserves memory for the most notes that there may be. Called before the first datagram of a message
    /// leaves: afterwards it is too late for an error.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`.
    #[cold]
    pub(super) fn reserve(&self) -> io::Result<()> {
        let mut notes = self.lock();
        let more = MOST - notes.len();
        notes.try_reserve_exact(more).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    /// Takes the note of this message, which is segmented every `segment` bytes. Returns the number of
    /// its datagrams that have left, 0 if there is no note.
    #[cold]
    pub(super) fn take<'a>(
        &self,
        socket: BorrowedSocket<'_>,
        segment: usize,
        message: &Memory<'a, impl Iterator<Item = &'a [u8]> + Clone>,
    ) -> usize {
        let id = self.id(socket, segment, message);
        let mut notes = self.lock();
        let found = notes.iter().position(|note| note.id == id);
        let sent = found.and_then(|at| notes.remove(at)).map_or(0, |note| note.sent);
        self.any.store(!notes.is_empty(), Ordering::Release);
        sent
    }

    /// Notes that `sent` datagrams of this message have left.
    #[cold]
    pub(super) fn keep<'a>(
        &self,
        socket: BorrowedSocket<'_>,
        segment: usize,
        message: &Memory<'a, impl Iterator<Item = &'a [u8]> + Clone>,
        sent: usize,
    ) {
        let id = self.id(socket, segment, message);
        let mut notes = self.lock();
        if notes.len() == MOST {
            notes.pop_front();
        }
        notes.push_back(Note { id, sent });
        self.any.store(true, Ordering::Release);
    }

    /// What a message is found by: 128 bits, so that no two of them are ever the same.
    fn id<'a>(
        &self,
        socket: BorrowedSocket<'_>,
        segment: usize,
        message: &Memory<'a, impl Iterator<Item = &'a [u8]> + Clone>,
    ) -> [u64; 2] {
        // Without a destination it goes where the socket is connected to by then.
        let peer = if message.name.is_empty() { sys::peer(socket) } else { None };
        // Several sockets may be lent to one state.
        let cookie = sys::socket_cookie(socket);
        self.keys.each_ref().map(|key| {
            let mut hasher = key.build_hasher();
            (cookie, segment, &peer, message.name, message.control).hash(&mut hasher);
            // Bytes alone: how they lie in buffers is to make no difference.
            message.payload.clone().for_each(|buffer| hasher.write(buffer));
            hasher.finish()
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PartialSends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialSends").field("any", &self.any()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    type Parts<'a> = std::iter::Copied<std::slice::Iter<'a, &'a [u8]>>;

    fn message<'a>(name: &'a [u8], payload: &'a [&'a [u8]]) -> Memory<'a, Parts<'a>> {
        Memory { name, control: &[], payload: payload.iter().copied() }
    }

    fn socket() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").expect("a loopback socket")
    }

    #[test]
    fn d23_a_message_goes_on_from_where_it_was_and_another_from_its_start() {
        let (sends, socket) = (PartialSends::default(), socket());
        let take = |segment, message: &_| sends.take(sys::borrow(&socket), segment, message);
        let m = message(b"to", &[b"abc", b"def"]);
        sends.keep(sys::borrow(&socket), 2, &m, 2);
        assert!(sends.any());
        for other in [
            message(b"ot", &[b"abcdef"]),
            message(b"to", &[b"abcdeg"]),
            message(b"to", &[b"abcde"]),
            message(b"to", &[b"abcdef", b"g"]),
            message(b"toa", &[b"bcdef"]),
            Memory { control: b"a", ..message(b"to", &[b"bcdef"]) },
            Memory { control: b"c", ..m.clone() },
        ] {
            assert_eq!(take(2, &other), 0);
        }
        assert_eq!(take(3, &m), 0);
        assert_eq!(take(2, &message(b"to", &[b"", b"abcdef"])), 2);
        assert_eq!((take(2, &m), sends.any()), (0, false));
    }

    /// The hasher's own blocks are of 8 bytes.
    #[test]
    fn d23_a_message_is_the_same_in_whatever_buffers_it_lies() {
        let (sends, socket) = (PartialSends::default(), socket());
        let socket = sys::borrow(&socket);
        let data: Vec<u8> = (0..100).collect();
        for (i, len) in (1..data.len()).enumerate() {
            sends.keep(socket, 10, &message(b"to", &[&data]), i + 1);
            let parts: Vec<_> = data.chunks(len).collect();
            assert_eq!(sends.take(socket, 10, &message(b"to", &parts)), i + 1);
        }
    }

    #[test]
    fn d23_without_a_destination_the_peer_tells_messages_apart() {
        let (sends, near, far) = (PartialSends::default(), socket(), [socket(), socket()]);
        let connect = |i: usize| {
            let to = far[i].local_addr().expect("it is bound");
            near.connect(to).expect("connecting does nothing but remember");
        };
        let m = message(b"", &[b"abcdef"]);
        let with_dest = message(b"to", &[b"abcdef"]);
        let near_socket = sys::borrow(&near);
        connect(0);
        sends.keep(near_socket, 2, &m, 1);
        sends.keep(near_socket, 2, &with_dest, 2);
        connect(1);
        assert_eq!(sends.take(near_socket, 2, &m), 0);
        assert_eq!(sends.take(near_socket, 2, &with_dest), 2);
        connect(0);
        assert_eq!(sends.take(near_socket, 2, &m), 1);
    }

    #[test]
    fn d23_many_messages_are_remembered_and_the_oldest_is_forgotten() {
        let (sends, socket) = (PartialSends::default(), socket());
        let socket = sys::borrow(&socket);
        sends.reserve().expect("there is memory");
        let capacity = sends.lock().capacity();
        let payloads: Vec<_> = (0..MOST + 2).map(usize::to_be_bytes).collect();
        for (i, payload) in payloads.iter().enumerate() {
            sends.keep(socket, 1, &message(b"to", &[payload]), i + 1);
        }
        let taken = |i: usize| sends.take(socket, 1, &message(b"to", &[&payloads[i]]));
        assert_eq!((taken(0), taken(1)), (0, 0));
        // From both ends towards the middle.
        for i in 2..payloads.len() {
            let i = if i % 2 == 0 { i } else { payloads.len() + 2 - i };
            assert_eq!(taken(i), i + 1);
        }
        assert!(!sends.any());
        sends.reserve().expect("there is memory");
        assert_eq!(sends.lock().capacity(), capacity);
    }
}
