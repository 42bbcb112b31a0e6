//! The trait that users call.

use std::array;
use std::io;

#[cfg(doc)]
use crate::BatchSocketExt;
use crate::send_msg::Outgoing;
use crate::sys::{self, AsSocket};
use crate::{RecvBatch, RecvFlags, RecvMsg, SendMsg, SendQueue, pool};

/// A datagram socket that moves messages in batches.
///
/// The calls that take any iterator and any closure, [`send_iter`](BatchSocketExt::send_iter) and
/// [`send_each`](BatchSocketExt::send_each), are in [`BatchSocketExt`], which every `BatchSocket`
/// has: import both.
///
/// Implemented for everything that lends a socket ([`AsFd`](std::os::fd) on Unix, `AsSocket` on
/// Windows): the UDP sockets of std, socket2, mio and tokio, Unix datagram sockets, borrowed
/// descriptors, and references and `Arc`s of these. Implement it for a type of your own to stand
/// in for a socket in tests: the two required methods are enough.
///
/// No call allocates once the thread has made one of the same size before, and `&dyn BatchSocket`
/// does as well as the type itself.
///
/// # What a call comes to
///
/// - A receive takes at least one message. On a blocking socket it waits for the first (at most
///   for the socket's read timeout) and never for a whole batch; on a non-blocking one it says
///   [`WouldBlock`](io::ErrorKind::WouldBlock).
/// - `Ok(n)` of a send: the first `n` messages are with the kernel, and of the others none. Call
///   again with the rest, and the next error, if it was one, is about the first of these.
/// - An error is about the first message of the call: before it, nothing was moved. If an error
///   follows a partial transfer, the call returns the count and the next call returns the error. A
///   message that cannot be sent meets its error again; an error that the system tells only once is
///   kept for the socket, whichever of its descriptors is used next, for up to a minute.
/// - A call for no messages gives `Ok(0)` and makes no system call. For a receive on an Internet
///   socket, `Ok(0)` with room for messages means that it was shut down. A Unix socket gives empty
///   messages then, as its peer may.
/// - Interrupted system calls are made again, for what is left of the socket's timeout. Batches of more
///   than 1,024 are moved in parts.
///
/// # Errors that Linux drops
///
/// On a connected socket, an ICMP error about an earlier datagram ("connection refused") fails one
/// later call. If it arrives during a `sendmmsg`, that call ends early and the kernel forgets the
/// error. The rest of the batch is sent all the same, and a peer that refuses further datagrams is
/// heard of by a later call; the one error is gone. To hear of every one, turn on
/// [`Ancillary::ERRORS`](crate::Ancillary::ERRORS) and call [`drain_errors`](crate::drain_errors), or
/// use [`Backend::Msg`](crate::Backend::Msg), which makes a call for each message.
///
/// # Unix sockets
///
/// RecvSpace for control data is offered with every receive, so a peer of a Unix socket can pass
/// descriptors (`SCM_RIGHTS`). They are marked close-on-exec on Linux, and nothing closes them but
/// who reads them out of a [`ControlBuf`](crate::ControlBuf) or a
/// [`Message`](crate::Message): take care whom such a socket listens to.
///
/// # Platforms
///
/// Linux, Android, FreeBSD and NetBSD move many messages in a system call; other Unix systems one
/// in each; Windows receives one message a call, whatever room it is given.
pub trait BatchSocket {
    /// Receives at least one message into `msgs`, and what else is waiting, as far as there is
    /// room. Returns how many; the others are left as they were.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let (mut a, mut b) = ([0; 1500], [0; 1500]);
    /// let mut msgs = [RecvMsg::new(&mut a), RecvMsg::new(&mut b)];
    /// let n = socket.recv_batch(&mut msgs)?;
    /// assert_eq!((n, msgs[0].data()), (1, &b"hello"[..]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is waiting, on a non-blocking socket or after the read timeout;
    /// `OutOfMemory` if there is no memory for the headers; else what the system says of the socket.
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize>;

    /// Sends messages in order and returns how many the kernel has taken.
    ///
    /// ```
    /// use mmsg::{BatchSocket, SendMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # let to = socket.local_addr()?;
    /// let n = socket.send_batch(&[SendMsg::to(to, b"one"), SendMsg::to(to, b"two")])?;
    /// assert_eq!(n, 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What the system says of the first message; nothing was sent then. An error of a later one
    /// ends the batch before it: the count says where.
    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize>;

    /// Receives as [`recv_batch`](Self::recv_batch) does, with flags.
    ///
    /// # Errors
    ///
    /// As `recv_batch`; `Unsupported` where the implementation knows no flags.
    fn recv_batch_with(&self, msgs: &mut [RecvMsg<'_>], flags: RecvFlags) -> io::Result<usize> {
        if flags.is_empty() {
            self.recv_batch(msgs)
        } else {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Receives a batch into memory that is ready for it, and returns the number of messages.
    ///
    /// After an error the batch is empty. Implementations that do not override it fill at most 32
    /// slots a call.
    ///
    /// # Errors
    ///
    /// As [`recv_batch`](Self::recv_batch).
    fn recv_into(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.recv_by(|msgs| self.recv_batch(msgs))
    }

    /// Receives as [`recv_into`](Self::recv_into) does, with flags.
    ///
    /// # Errors
    ///
    /// As there; `Unsupported` where the implementation knows no flags.
    fn recv_into_with(&self, batch: &mut RecvBatch, flags: RecvFlags) -> io::Result<usize> {
        batch.recv_by(|msgs| self.recv_batch_with(msgs, flags))
    }

    /// [`BatchSocketExt::send_iter`] in a form that `dyn BatchSocket` can have.
    ///
    /// # Errors
    ///
    /// As [`send_batch`](Self::send_batch).
    fn send_iter_dyn<'m>(&self, msgs: &mut dyn Iterator<Item = SendMsg<'m>>) -> io::Result<usize> {
        const STEP: usize = 32;
        let mut msgs = msgs.fuse();
        let mut sent = 0;
        loop {
            let mut count = 0;
            let step: [SendMsg<'m>; STEP] = array::from_fn(|_| {
                let msg = msgs.next();
                count += usize::from(msg.is_some());
                msg.unwrap_or(SendMsg::new(&[]))
            });
            if count == 0 {
                return Ok(sent);
            }
            let taken = match self.send_batch(&step[..count]) {
                Ok(taken) => taken.min(count),
                Err(error) if sent == 0 => return Err(error),
                Err(_) => return Ok(sent),
            };
            sent += taken;
            if taken < STEP {
                return Ok(sent);
            }
        }
    }

    /// Sends what is in the queue, in order, and returns how many datagrams the kernel has taken.
    /// The others stay, in order, and none of them is moved in memory.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket takes none now; else what the system says of the datagram at
    /// the [`front`](SendQueue::front), which stays there:
    /// [`pop_front`](SendQueue::pop_front) gives up on it.
    fn flush(&self, queue: &mut SendQueue) -> io::Result<usize> {
        let mut sent = 0;
        while !queue.is_empty() {
            const STEP: usize = 32;
            let mut msgs = [SendMsg::new(&[]); STEP];
            let mut count = 0;
            for (msg, queued) in msgs.iter_mut().zip(queue.stage()) {
                *msg = queued.to_msg();
                count += 1;
            }
            let taken = match self.send_batch(&msgs[..count]) {
                Ok(taken) => taken.min(count),
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            };
            queue.advance(taken);
            sent += taken;
            if taken < count {
                break;
            }
        }
        Ok(sent)
    }

    /// [`BatchSocketExt::send_each`] in a form that `dyn BatchSocket` can have.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the socket does not take the first message now. Every other error goes to
    /// `on_error`.
    fn send_each_dyn<'m>(
        &self,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
        on_error: &mut dyn FnMut(usize, io::Error),
    ) -> io::Result<usize> {
        let mut msgs = msgs.fuse();
        let mut handled = 0;
        let mut offer = Offer::new();
        loop {
            let mut step = [SendMsg::new(&[]); Offer::MOST];
            let mut count = 0;
            for (slot, msg) in step.iter_mut().zip(&mut msgs) {
                *slot = msg;
                count += 1;
            }
            if count == 0 {
                return Ok(handled);
            }
            let mut left = &step[..count];
            while !left.is_empty() {
                let offered = offer.of(left);
                match self.send_batch(offered) {
                    // Nothing sent and no error: an implementation that will not go on.
                    Ok(0) => return Ok(handled),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return if handled == 0 { Err(error) } else { Ok(handled) };
                    }
                    result => {
                        let done = offer.answered(offered.len(), result, |error| {
                            on_error(handled, error);
                        });
                        handled += done;
                        left = &left[done..];
                    }
                }
            }
        }
    }
}

/// How many messages a send that goes on past errors offers at a time: one after an error, since the
/// next one often fails, too, and costs alone what `send_to` does; then twice as many each time.
pub(crate) struct Offer {
    count: usize,
}

impl Offer {
    /// As many as a GSO batch has at most, and still little to have on the stack.
    const MOST: usize = 64;

    pub(crate) const fn new() -> Self {
        Self { count: Self::MOST }
    }

    /// The first of these messages.
    pub(crate) fn of<'s, 'm>(&self, msgs: &'s [SendMsg<'m>]) -> &'s [SendMsg<'m>] {
        &msgs[..self.count.min(msgs.len())]
    }

    /// Learns from the result of a send of `offered` messages. Gives the number of messages dealt with:
    /// those that were sent, or the one that failed.
    pub(crate) fn answered(
        &mut self,
        offered: usize,
        result: io::Result<usize>,
        failed: impl FnOnce(io::Error),
    ) -> usize {
        match result {
            Ok(sent) if sent >= offered => {
                self.count = (2 * self.count).min(Self::MOST);
                offered
            }
            // After a short count the next message is about to fail.
            Ok(sent) => {
                self.count = 1;
                sent
            }
            Err(error) => {
                self.count = 1;
                failed(error);
                1
            }
        }
    }
}

/// By the thread's pool of arenas.
impl<S: AsSocket + ?Sized> BatchSocket for S {
    #[inline]
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        self.recv_batch_with(msgs, RecvFlags::NONE)
    }

    #[inline]
    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        pool::send(sys::borrow(self), msgs)
    }

    #[inline]
    fn recv_batch_with(&self, msgs: &mut [RecvMsg<'_>], flags: RecvFlags) -> io::Result<usize> {
        pool::with(|arena| arena.recv_on(sys::borrow(self), msgs, flags))
    }

    #[inline]
    fn recv_into(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.recv_on(sys::borrow(self), RecvFlags::NONE)
    }

    #[inline]
    fn recv_into_with(&self, batch: &mut RecvBatch, flags: RecvFlags) -> io::Result<usize> {
        batch.recv_on(sys::borrow(self), flags)
    }

    #[inline]
    fn send_iter_dyn<'m>(&self, msgs: &mut dyn Iterator<Item = SendMsg<'m>>) -> io::Result<usize> {
        pool::with(|arena| arena.send_iter_on(sys::borrow(self), msgs))
    }

    #[inline]
    fn flush(&self, queue: &mut SendQueue) -> io::Result<usize> {
        pool::with(|arena| arena.flush_on(sys::borrow(self), queue))
    }
}
