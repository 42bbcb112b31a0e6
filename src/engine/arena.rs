//! The arena: storage for the headers of a batch, and the loop over system calls that moves one.

use std::io::{self, IoSliceMut};
use std::ops::Range;

use crate::ancillary::RecvMeta;
use crate::engine::progress::Progress;
use crate::engine::single;
use crate::recv::message::Message;
use crate::recv::msg::RecvMsg;
use crate::recv::received::ReceivedTotals;
use crate::send::coalesce::{Limits, Source};
use crate::send::msg::SendMsg;
use crate::send::outgoing::{Messages, Outgoing};
use crate::send::queue::SendQueue;
use crate::send::wire::wire;
use crate::sys::{
    self, AsSocket, Backend, BorrowedSocket, CallResult, Direction, MAX_BATCH, RecvFlags,
    RecvStorage, SendFlags, SendStorage, Storage, numbers,
};

/// Messages that a receive wires for its first system call: few enough to be cheap when one datagram
/// is waiting, enough that a second call is rare.
const FIRST_STEP: usize = 16;
/// Growth of the number of messages from call to call.
const GROWTH: usize = 8;
/// Messages that a send takes from an iterator of unknown length before it sends them.
const ITER_STEP: usize = 64;
/// Messages that a flush wires at a time, so that their headers stay in the first-level cache.
const FLUSH_STEP: usize = 256;

/// An arena: contiguous storage for the headers, addresses and control data of a batch.
///
/// The engine behind [`BatchSocket`](crate::BatchSocket), for programs that manage the memory of
/// headers themselves instead of using the thread's pool. It grows when a batch needs more than any
/// before it, up to 1,024 messages (longer batches move in parts), and shrinks only by
/// [`shrink_to`](Self::shrink_to). Sends and receives have memory of their own: a message takes about 700 bytes
/// in each direction, of which up to 200 are touched if there is no control data.
///
/// ```
/// use mmsg::{MmsgBuf, RecvMsg, SendMsg};
/// # use std::net::UdpSocket;
/// # let (a, b) = (UdpSocket::bind("[::1]:0")?, UdpSocket::bind("[::1]:0")?);
/// # let to = b.local_addr()?;
/// let mut arena = MmsgBuf::new();
/// let sent = arena.send(&a, &[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
/// let mut memory = [[0; 1500]; 4];
/// let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
/// let received = arena.recv(&b, &mut msgs)?;
/// assert_eq!((sent, received), (2, 2));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// It can move to another thread, but not while it is borrowed:
///
/// ```compile_fail,E0505
/// let mut arena = mmsg::MmsgBuf::new();
/// let in_use = &mut arena;
/// std::thread::spawn(move || drop(arena));
/// in_use.shrink_to(0);
/// ```
#[doc(alias("mmsghdr", "recvmmsg", "sendmmsg"))]
#[derive(Debug)]
pub struct MmsgBuf {
    send: SendStorage,
    recv: RecvStorage,
    backend: Option<Backend>,
    /// Messages of the last receive, as an estimate for the next.
    expected: usize,
    /// System calls that the last receive made.
    calls: usize,
}

impl MmsgBuf {
    /// An empty arena: no memory is allocated.
    #[must_use]
    pub const fn new() -> Self {
        Self::with(None)
    }

    /// An empty arena that uses `backend`, whatever the process-wide choice is.
    ///
    /// ```
    /// use mmsg::{Backend, MmsgBuf, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let mut arena = MmsgBuf::with_backend(Backend::Msg); // a system call for each message
    /// assert_eq!(arena.send(&socket, &[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub const fn with_backend(backend: Backend) -> Self {
        Self::with(Some(backend))
    }

    const fn with(backend: Option<Backend>) -> Self {
        Self { send: SendStorage::new(), recv: RecvStorage::new(), backend, expected: 0, calls: 0 }
    }

    /// Messages that the larger of the arena's two parts, one for sends and one for receives, has memory
    /// for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.send.capacity().max(self.recv.capacity())
    }

    /// Frees the memory beyond what `messages` need.
    pub fn shrink_to(&mut self, messages: usize) {
        self.send.shrink_to(messages);
        self.recv.shrink_to(messages);
    }

    /// Receives at least one message, and further waiting ones up to the length of `msgs`, like
    /// [`BatchSocket::recv_batch`](crate::BatchSocket::recv_batch).
    ///
    /// # Errors
    ///
    /// Those of `BatchSocket::recv_batch`.
    pub fn recv(&mut self, socket: &impl AsSocket, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        self.recv_with(socket, msgs, RecvFlags::NONE)
    }

    /// Like [`recv`](Self::recv), with flags.
    ///
    /// ```
    /// use mmsg::{MmsgBuf, RecvFlags, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let mut buffer = [0; 1500];
    /// let nothing = MmsgBuf::new().recv_with(
    ///     &socket,
    ///     &mut [RecvMsg::new(&mut buffer)],
    ///     RecvFlags::DONT_WAIT,
    /// );
    /// assert_eq!(nothing.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`recv`](Self::recv).
    pub fn recv_with(
        &mut self,
        socket: &impl AsSocket,
        msgs: &mut [RecvMsg<'_>],
        flags: RecvFlags,
    ) -> io::Result<usize> {
        self.recv_on(sys::borrow(socket), msgs, flags)
    }

    /// Sends messages in order, like [`BatchSocket::send_batch`](crate::BatchSocket::send_batch).
    ///
    /// # Errors
    ///
    /// Those of `BatchSocket::send_batch`.
    pub fn send(&mut self, socket: &impl AsSocket, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        self.send_with(socket, msgs, SendFlags::NONE)
    }

    /// Like [`send`](Self::send), with flags.
    ///
    /// ```
    /// use mmsg::{MmsgBuf, SendFlags, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let msgs = [SendMsg::to(socket.local_addr()?, b"hello")];
    /// let sent = MmsgBuf::new().send_with(&socket, &msgs, SendFlags::DONT_WAIT)?;
    /// # assert_eq!(sent, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send).
    pub fn send_with(
        &mut self,
        socket: &impl AsSocket,
        msgs: &[SendMsg<'_>],
        flags: SendFlags,
    ) -> io::Result<usize> {
        let socket = sys::borrow(socket);
        single::send(socket, msgs, flags).unwrap_or_else(|| self.send_on(socket, msgs, flags))
    }

    pub(crate) fn recv_on(
        &mut self,
        socket: BorrowedSocket<'_>,
        msgs: &mut [RecvMsg<'_>],
        flags: RecvFlags,
    ) -> io::Result<usize> {
        let (mut progress, first) = self.begin_recv(socket, msgs.len(), flags)?;
        if progress.goes_on() {
            let result = self.recv_step(socket, &mut msgs[..first], flags);
            self.add_step(&mut progress, first, result)?;
        }
        if !progress.goes_on() {
            self.expected = progress.count;
            return Ok(progress.count);
        }
        self.recv_rest(progress, first, flags, |arena, range, flags| {
            arena.recv_step(socket, &mut msgs[range], flags)
        })
    }

    /// Receives a message into each buffer, adds each that came to `totals`, and gives it to `each`.
    #[inline(always)]
    pub(crate) fn recv_slices_on(
        &mut self,
        socket: BorrowedSocket<'_>,
        buffers: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
        totals: &mut ReceivedTotals,
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> io::Result<usize> {
        let (mut progress, first) = self.begin_recv(socket, buffers.len(), flags)?;
        if progress.goes_on() {
            let result =
                self.recv_slices_step(socket, &mut buffers[..first], 0, flags, totals, each);
            self.add_step(&mut progress, first, Ok(result))?;
        }
        if !progress.goes_on() {
            self.expected = progress.count;
            return Ok(progress.count);
        }
        self.recv_rest(progress, first, flags, |arena, range, flags| {
            let first = range.start;
            Ok(arena.recv_slices_step(socket, &mut buffers[range], first, flags, totals, each))
        })
    }

    /// Makes one call for these buffers, of which the first is number `first`, and reads them back. Always inlined, so
    /// that what the call returned stays in registers.
    #[inline(always)]
    fn recv_slices_step(
        &mut self,
        socket: BorrowedSocket<'_>,
        buffers: &mut [IoSliceMut<'_>],
        first: usize,
        flags: RecvFlags,
        totals: &mut ReceivedTotals,
        each: &mut dyn FnMut(usize, Message<'_>),
    ) -> CallResult {
        let backend = self.backend();
        let result = self.recv.recv_buffers(backend, socket, buffers, flags);
        let rows = self.recv.rows(result.count);
        for (i, (buffer, row)) in buffers.iter().zip(rows).enumerate() {
            let mut meta = RecvMeta::default();
            if !row.control().is_empty() {
                meta.add(row.control());
            }
            let message = Message::of_row(buffer, row, &meta);
            totals.add(&message.received(), message.len());
            each(first + i, message);
        }
        result
    }

    /// Begins a receive of up to `most` messages. Returns its progress, and how many messages the first call is for.
    #[inline]
    fn begin_recv<'s>(
        &mut self,
        socket: BorrowedSocket<'s>,
        most: usize,
        flags: RecvFlags,
    ) -> io::Result<(Progress<'s>, usize)> {
        self.calls = 0;
        let most = flags.most(most);
        let progress = Progress::begin(socket, Direction::Receive, most)?;
        // For the whole receive at once: the next one of its size finds all that it needs.
        self.recv.reserve(most.min(MAX_BATCH))?;
        let first = most.min(FIRST_STEP.max(self.expected)).min(MAX_BATCH);
        Ok((progress, first))
    }

    /// Goes on with a receive whose first call was for `reach` messages.
    ///
    /// The first call, which usually receives all, is not in this loop: the loop's variables would take it 40 instructions.
    #[cold]
    #[inline(never)]
    fn recv_rest(
        &mut self,
        mut progress: Progress<'_>,
        mut reach: usize,
        flags: RecvFlags,
        mut step: impl FnMut(&mut Self, Range<usize>, RecvFlags) -> io::Result<CallResult>,
    ) -> io::Result<usize> {
        while progress.goes_on() {
            reach = MAX_BATCH.min(reach * GROWTH);
            let range = progress.count..progress.most.min(progress.count + reach);
            let (offered, flags) = (range.len(), progress.flags(flags));
            let result = step(self, range, flags);
            self.add_step(&mut progress, offered, result)?;
        }
        self.expected = progress.count;
        Ok(progress.count)
    }

    /// Adds the result of a call for `offered` messages.
    #[inline]
    fn add_step(
        &mut self,
        progress: &mut Progress<'_>,
        offered: usize,
        result: io::Result<CallResult>,
    ) -> io::Result<()> {
        let added = match result {
            Ok(result) => progress.add(offered, result),
            Err(error) => progress.stop(error),
        };
        self.calls = progress.calls;
        added
    }

    /// Makes one call for these messages, and reads them back. Rejects all of them if the system would
    /// reject one: it would receive the messages before that one and return the error from the socket's
    /// next call.
    fn recv_step(
        &mut self,
        socket: BorrowedSocket<'_>,
        msgs: &mut [RecvMsg<'_>],
        flags: RecvFlags,
    ) -> io::Result<CallResult> {
        if !msgs.iter().all(RecvMsg::can_be_filled) {
            return Err(io::Error::from_raw_os_error(numbers::EMSGSIZE));
        }
        let backend = self.backend();
        let mut headers = self.recv.wire();
        msgs.iter_mut().for_each(|msg| msg.lend_to(&mut headers));
        let result = headers.recv(backend, socket, flags);
        let received = &mut msgs[..result.count];
        for (i, msg) in received.iter_mut().enumerate() {
            msg.read_back(self.recv.row(i));
        }
        for (i, fd) in self.recv.drain_fds() {
            if let Some(msg) = received.get_mut(i) {
                msg.push_fd(fd);
            }
        }
        Ok(result)
    }

    #[inline]
    pub(crate) fn send_on(
        &mut self,
        socket: BorrowedSocket<'_>,
        msgs: &[SendMsg<'_>],
        flags: SendFlags,
    ) -> io::Result<usize> {
        let mut progress = Progress::begin(socket, Direction::Send, msgs.len())?;
        self.reserve(msgs.len())?;
        self.send_all(socket, &mut progress, &mut Source::new(msgs.iter()), flags)?;
        Ok(progress.count)
    }

    pub(crate) fn send_iter_on<'m>(
        &mut self,
        socket: BorrowedSocket<'_>,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> io::Result<usize> {
        let mut progress = Progress::begin_iter(socket, msgs)?;
        self.reserve(msgs.size_hint().0.max(ITER_STEP))?;
        self.send_all(socket, &mut progress, &mut Source::new(msgs), SendFlags::NONE)?;
        Ok(progress.count)
    }

    pub(crate) fn flush_on(
        &mut self,
        socket: BorrowedSocket<'_>,
        queue: &mut SendQueue,
    ) -> io::Result<usize> {
        let mut progress = Progress::begin(socket, Direction::Send, queue.len())?;
        self.reserve(queue.len().min(FLUSH_STEP))?;
        while progress.goes_on() {
            let before = progress.count;
            let result = self.send_all(
                socket,
                &mut progress,
                &mut Source::new(queue.stage()),
                SendFlags::NONE,
            );
            queue.advance(progress.count - before);
            result?;
        }
        Ok(progress.count)
    }

    /// Sends messages until there are no more or the call is over.
    #[inline]
    fn send_all<'m, M: Outgoing<'m>>(
        &mut self,
        socket: BorrowedSocket<'_>,
        progress: &mut Progress<'_>,
        msgs: &mut Source<impl Messages<'m, Item = M>>,
        flags: SendFlags,
    ) -> io::Result<()> {
        while progress.goes_on() && !msgs.is_empty() {
            let backend = self.backend();
            let mut headers = self.send.begin();
            let unsendable = wire(&mut headers, socket, msgs, Limits::PLAIN);
            let wired = headers.len();
            if wired > 0 {
                let result = headers.send(backend, socket, 0..wired, flags);
                progress.add(wired, result)?;
            }
            if let Some(error) = unsendable.filter(|_| progress.goes_on()) {
                progress.stop(error.after(progress.count))?;
            }
        }
        Ok(())
    }

    /// System calls that the last receive made.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// Grows for a send of `messages`, up to what one system call can carry.
    pub(crate) fn reserve(&mut self, messages: usize) -> io::Result<()> {
        self.send.reserve(messages.min(MAX_BATCH))
    }

    /// The headers of messages to be sent.
    pub(crate) fn send_storage(&mut self) -> &mut SendStorage {
        &mut self.send
    }

    /// Reads the error queue into `msgs`; 0 if it is empty.
    pub(crate) fn recv_errors_on(
        &mut self,
        socket: BorrowedSocket<'_>,
        msgs: &mut [RecvMsg<'_>],
    ) -> io::Result<usize> {
        let flags = RecvFlags::ERROR_QUEUE | RecvFlags::DONT_WAIT;
        self.recv.reserve(msgs.len())?;
        let result = self.recv_step(socket, msgs, flags)?;
        match result.error {
            Some(error) if result.count == 0 && error.kind() != io::ErrorKind::WouldBlock => {
                Err(error)
            }
            _ => Ok(result.count),
        }
    }

    /// The backend of the next call: the call before may have found that multi-message calls are
    /// missing.
    #[inline]
    fn backend(&self) -> Backend {
        self.backend.unwrap_or_else(Backend::current)
    }
}

impl Default for MmsgBuf {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
impl MmsgBuf {
    /// Grows as a batch of `messages` does.
    pub(crate) fn reserve_for_test(&mut self, messages: usize) {
        self.send.reserve(messages).expect("there is memory");
    }
}
