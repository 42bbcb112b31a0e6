//! The arena: memory for the headers of a batch. Each thread keeps two.

use std::cell::Cell;
use std::io::{self, IoSliceMut};

use crate::ancillary::RecvMeta;
use crate::recv::datagram::Origin;
use crate::recv::message::Message;
use crate::recv::msg::{self, RecvMsg};
use crate::send::coalesce::{GsoBatch, Segmenting};
use crate::send::msg::SendMsg;
use crate::send::prepare::prepare;
use crate::sys::{self, BorrowedSocket, Flags, MAX_BATCH, RecvStorage, SendStorage};

/// The maximum bytes of payload that one call copies; a call with more to copy ends with a count. The copies stay in the
/// processor's cache until the kernel reads them.
pub(crate) const MAX_COPIES: usize = 128 << 10;

/// An arena: memory for the headers, addresses and control data of a batch.
///
/// The calls of [`BatchSocket`](crate::BatchSocket) use an arena of their thread. Keep one of your own to decide where that
/// memory lives and when it is freed. It grows to the largest batch so far, at most 1,024 messages, and never shrinks. Sends
/// and receives use separate memory: about 700 bytes per message in each direction, of which a call without control data
/// touches up to 200.
///
/// ```
/// # #[cfg(unix)] {
/// use mmsg::{Flags, MmsgBuf, RecvMsg, SendMsg};
/// use std::os::fd::AsFd; // On Windows `AsSocket`, for `as_socket`.
/// # use std::net::UdpSocket;
/// # let (a, b) = (UdpSocket::bind("[::1]:0")?, UdpSocket::bind("[::1]:0")?);
/// # let to = b.local_addr()?;
/// let mut arena = MmsgBuf::new();
/// let msgs = [SendMsg::to(to, b"one"), SendMsg::to(to, b"two")];
/// let sent = arena.send(a.as_fd(), &msgs, Flags::NONE)?;
/// let mut memory = [[0; 1500]; 4];
/// let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
/// let received = arena.recv(b.as_fd(), &mut msgs, Flags::NONE)?;
/// # assert_eq!(sent, 2);
/// assert_eq!(msgs[0].data(), b"one");
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// It takes a descriptor and calls the kernel: without GSO, without counters. With GRO on, give each message 65,535 bytes. An
/// [`Offload`](crate::Offload) in its place does not compile:
///
/// ```compile_fail,E0308
/// let offload = mmsg::Offload::new(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
/// mmsg::MmsgBuf::new().send(&offload, &[], mmsg::Flags::NONE).unwrap();
/// ```
///
/// An arena can move to another thread, but not while it is borrowed:
///
/// ```compile_fail,E0505
/// # use std::os::fd::AsFd;
/// let mut arena = mmsg::MmsgBuf::new();
/// let in_use = &mut arena;
/// std::thread::spawn(move || drop(arena));
/// in_use.recv(std::net::UdpSocket::bind("127.0.0.1:0").unwrap().as_fd(), &mut [], mmsg::Flags::NONE);
/// ```
#[doc(alias("mmsghdr", "recvmmsg", "sendmmsg", "MultiHeaders"))]
#[derive(Debug)]
pub struct MmsgBuf {
    send: SendStorage,
    recv: RecvStorage,
    /// The messages of each header of a send with GSO.
    batches: Vec<GsoBatch>,
    /// Memory to join the buffers of a message that is segmented in user space.
    pub(crate) gathered: Vec<u8>,
}

impl Default for MmsgBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl MmsgBuf {
    /// An empty arena: no memory is allocated.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            send: SendStorage::new(),
            recv: RecvStorage::new(),
            batches: Vec::new(),
            gathered: Vec::new(),
        }
    }

    /// Receives messages into `msgs`, like [`BatchSocket::recv_batch`](crate::BatchSocket::recv_batch): waits for the first,
    /// unless `flags` say otherwise, and takes the others that are there. Returns how many came.
    ///
    /// # Errors
    ///
    /// The errors of `BatchSocket::recv_batch`.
    #[doc(alias = "ReadBatch")]
    #[inline]
    pub fn recv(
        &mut self,
        socket: BorrowedSocket<'_>,
        msgs: &mut [RecvMsg<'_>],
        flags: Flags,
    ) -> io::Result<usize> {
        msg::recv(&mut self.recv, socket, msgs, flags)
    }

    /// Sends messages in order, like [`BatchSocket::send_batch`](crate::BatchSocket::send_batch). Returns how many the kernel
    /// accepted.
    ///
    /// # Errors
    ///
    /// The errors of `BatchSocket::send_batch`. `InvalidInput` with [`Flags::PEEK`], before the call.
    #[doc(alias = "WriteBatch")]
    #[inline]
    pub fn send(
        &mut self,
        socket: BorrowedSocket<'_>,
        msgs: &[SendMsg<'_>],
        flags: Flags,
    ) -> io::Result<usize> {
        if flags.contains(Flags::PEEK) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "PEEK is for receives"));
        }
        self.try_send(socket, &msgs[..msgs.len().min(MAX_BATCH)], None, flags)
    }

    /// Receives a message into each buffer, and calls `each` with the index and the message of each that came.
    #[inline]
    pub(crate) fn recv_slices(
        &mut self,
        socket: BorrowedSocket<'_>,
        buffers: &mut [IoSliceMut<'_>],
        flags: Flags,
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        let offered = buffers.len().min(flags.max_recv());
        self.recv.reserve(offered)?;
        let mut headers = self.recv.begin();
        for buffer in &mut buffers[..offered] {
            headers.push_slice(buffer);
        }
        let count = sys::recv(socket, headers.prepared(), flags)?.count;
        for (i, buffer) in buffers[..count].iter().enumerate() {
            let result = self.recv.result(i);
            let (source, control) = (self.recv.source(i, &result), self.recv.control(i, &result));
            let mut meta = None;
            RecvMeta::decode(control, &mut meta);
            let meta = meta.as_ref().unwrap_or(&RecvMeta::NONE);
            each(i, Message::new(buffer, &result, Origin { source, meta }, control));
        }
        Ok(count)
    }

    /// Sends messages as GSO batches, by one system call.
    #[inline]
    pub(crate) fn send_gso(
        &mut self,
        socket: BorrowedSocket<'_>,
        msgs: &[SendMsg<'_>],
        segmenting: &Segmenting<'_>,
        flags: Flags,
    ) -> GsoSend<'_> {
        self.batches.clear();
        let (sent, error) = match self.try_send(socket, msgs, Some(segmenting), flags) {
            Ok(sent) => (sent, None),
            Err(error) => (0, Some(error)),
        };
        let (sent, rest) = self.batches.split_at(sent);
        GsoSend { sent, next: rest.first().copied(), error }
    }

    /// Sends messages by one system call, with `segmenting` as GSO batches.
    #[inline(always)]
    fn try_send(
        &mut self,
        socket: BorrowedSocket<'_>,
        msgs: &[SendMsg<'_>],
        segmenting: Option<&Segmenting<'_>>,
        flags: Flags,
    ) -> io::Result<usize> {
        let joins = segmenting.is_some_and(|with| with.max_segments > 1 && msgs.len() > 1);
        self.send.reserve(msgs.len(), if joins { MAX_COPIES } else { 0 })?;
        let batches = if segmenting.is_some() { msgs.len() } else { 0 };
        self.batches.try_reserve(batches).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut headers = self.send.begin();
        prepare(&mut headers, &mut self.batches, socket, msgs, segmenting)?;
        sys::send(socket, headers.prepared(), flags)
    }
}

/// The outcome of a send with GSO.
pub(crate) struct GsoSend<'a> {
    /// The headers that the kernel took.
    pub(crate) sent: &'a [GsoBatch],
    /// The header after them.
    pub(crate) next: Option<GsoBatch>,
    /// Its error, reported only if the first header fails. Without a header, why there is none.
    pub(crate) error: Option<io::Error>,
}

/// An arena on the heap, or none. A vector, since only its allocation may fail.
type Kept = Vec<MmsgBuf>;

// The first arena serves a thread's calls, the second one calls that a closure makes within them.
thread_local!(static ARENAS: [Cell<Kept>; 2] = const { [Cell::new(Vec::new()), Cell::new(Vec::new())] });

/// Runs `call` with an arena of this thread. A panic frees the arena.
///
/// If both arenas are in use, or gone because the thread ends, a new one serves.
///
/// # Errors
///
/// `OutOfMemory` if there is no memory for a new arena; the error of `call`.
#[inline]
pub(crate) fn with<R>(call: impl FnOnce(&mut MmsgBuf) -> io::Result<R>) -> io::Result<R> {
    let kept = ARENAS.try_with(|[first, second]| match first.take() {
        none if none.is_empty() => second.take(),
        arena => arena,
    });
    let mut arena = kept.unwrap_or_default();
    if arena.is_empty() {
        arena.try_reserve_exact(1).map_err(|_| io::ErrorKind::OutOfMemory)?;
        arena.push(MmsgBuf::new());
    }
    let result = call(&mut arena[0]);
    let _ = ARENAS.try_with(|[first, second]| {
        let inner = first.replace(arena);
        if !inner.is_empty() {
            second.set(inner);
        }
    });
    result
}

#[cfg(test)]
mod tests {
    use super::{Flags, MmsgBuf, SendMsg, sys};
    use std::net::UdpSocket;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Grows the arena by a send of this many messages.
    fn grow(arena: &mut MmsgBuf, messages: usize) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
        let msg = SendMsg::to(socket.local_addr().expect("it is bound"), b"");
        arena
            .send(sys::borrow(&socket), &vec![msg; messages], Flags::NONE)
            .expect("loopback takes them");
    }

    /// Runs `call` with an arena of this thread.
    fn with<R>(call: impl FnOnce(&mut MmsgBuf) -> R) -> R {
        super::with(|arena| Ok(call(arena))).expect("there is memory")
    }

    #[test]
    fn an_arena_comes_back_and_is_lent_again() {
        with(|arena| grow(arena, 100));
        assert_eq!(with(|arena| arena.send.capacity()), 128);
    }

    #[test]
    fn a_call_within_a_call_gets_another_arena() {
        for round in 0..3 {
            with(|outer| {
                assert_eq!(outer.send.capacity(), if round == 0 { 0 } else { 2 });
                grow(outer, 2);
                with(|inner| {
                    assert_eq!(inner.send.capacity(), if round == 0 { 0 } else { 4 });
                    grow(inner, 4);
                });
            });
        }
    }

    #[test]
    fn calls_nested_three_deep_allocate_each_time() {
        for _ in 0..2 {
            let innermost = with(|_| with(|_| with(|arena| arena.send.capacity())));
            assert_eq!(innermost, 0);
            with(|outer| {
                grow(outer, 2);
                with(|inner| {
                    grow(inner, 2);
                    with(|third| grow(third, 2));
                });
            });
        }
    }

    #[test]
    fn a_panic_frees_the_arena() {
        with(|arena| grow(arena, 8));
        let panicked = catch_unwind(AssertUnwindSafe(|| with(|_| panic!("expected"))));
        assert!(panicked.is_err());
        assert_eq!(with(|arena| arena.send.capacity()), 0);
    }
}
