//! The headers of a batch to be received: contiguous storage, and its wiring to the buffers of one call.
//!
//! ```text
//! headers  [ mmsghdr 0 ][ mmsghdr 1 ] ...   name, iovec, control: pointers
//! controls [ control 0 ][ control 1 ] ...   CONTROL_SPACE bytes each, touched only if written to
//! ```
//!
//! The messages themselves hold their buffers and their source address.
//!
//! All pointers are set anew by each wiring, after any growth, from the borrows that the wired
//! headers hold. Between calls they are numbers that nobody follows.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

use super::RecvHeaders;
use super::recv::{read_back, read_back_plain, summarize, wire_space};
use crate::recv::flags::RecvFlags;
use crate::recv::msg::RecvMsg;
use crate::sys::unix::call;
use crate::sys::unix::fds::ReceivedFds;
use crate::sys::unix::header::{Control, Header};
use crate::sys::unix::zeroed::Zeroed;
use crate::sys::{Backend, CallResult, MAX_BATCH};

/// Storage for the headers of a batch to be received.
pub(crate) struct RecvStorage {
    headers: Zeroed<Header>,
    controls: Zeroed<Control>,
    /// Descriptors that came with the messages of a receive, until the messages have them.
    fds: ReceivedFds,
}

impl RecvStorage {
    pub(crate) const fn new() -> Self {
        Self { headers: Zeroed::empty(), controls: Zeroed::empty(), fds: ReceivedFds::new() }
    }

    /// Capacity in messages.
    pub(crate) fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Grows to `n` messages, at most [`MAX_BATCH`].
    ///
    /// # Errors
    ///
    /// `OutOfMemory`; the capacity is unchanged.
    #[inline]
    pub(crate) fn reserve(&mut self, n: usize) -> io::Result<()> {
        if n <= self.capacity() {
            return Ok(());
        }
        self.resize(n.next_power_of_two().min(MAX_BATCH))
    }

    /// Shrinks to `n` messages, if there is memory for the smaller storage.
    pub(crate) fn shrink_to(&mut self, n: usize) {
        if n < self.capacity() {
            let _ = self.resize(n);
        }
    }

    /// Copies nothing: every wiring writes all that it uses.
    #[cold]
    fn resize(&mut self, n: usize) -> io::Result<()> {
        let headers = Zeroed::try_new(n)?;
        self.controls = Zeroed::try_new(n)?;
        self.headers = headers;
        Ok(())
    }

    /// Receives into `msgs`, up to the capacity; see the contract in [`crate::sys`].
    #[inline]
    pub(crate) fn recv(
        &mut self,
        backend: Backend,
        socket: BorrowedFd<'_>,
        msgs: &mut [RecvMsg<'_>],
        flags: RecvFlags,
    ) -> CallResult {
        let (mut wired, plain_space) = self.wire_recv(msgs);
        let result = call::recv(backend, socket, &mut wired, flags);
        let summary = summarize(socket, &self.headers[..result.count]);
        // Messages in the error queue may have neither payload nor source.
        let end = summary.end.filter(|_| !flags.contains(RecvFlags::ERROR_QUEUE));
        let result = result.ended_at(end);
        if !plain_space {
            hand_out(&mut self.fds, &mut msgs[..result.count]);
        }
        let read = self.headers[..result.count].iter().zip(&*self.controls).zip(msgs);
        if !plain_space || summary.truncated || summary.control {
            read.for_each(|((header, control), msg)| read_back(header, control, msg));
        } else {
            read.for_each(|((header, _), msg)| read_back_plain(header, msg));
        }
        result
    }

    /// Points the first headers at memory for payload, addresses and control data, and sets every field
    /// that the kernel reads or writes. Also returns whether all messages are plain: one buffer each and
    /// no memory of their own for control data.
    #[inline]
    pub(super) fn wire_recv<'a>(
        &'a mut self,
        msgs: &'a mut [RecvMsg<'_>],
    ) -> (RecvHeaders<'a>, bool) {
        let count = msgs.len().min(self.capacity());
        let mut plain = true;
        for ((header, control), msg) in self.headers.iter_mut().zip(&mut *self.controls).zip(msgs) {
            if !wire_space(header, msg, control) {
                plain = false;
            }
        }
        let fds = (!plain).then(|| self.fds.begin(0));
        (RecvHeaders { headers: &mut self.headers[..count], fds, buffers: PhantomData }, plain)
    }
}

/// Gives each message its descriptors; a message that accepts none closes them.
fn hand_out(fds: &mut ReceivedFds, msgs: &mut [RecvMsg<'_>]) {
    msgs.iter_mut().for_each(RecvMsg::clear_fds);
    for (i, fd) in fds.drain() {
        if let Some(msg) = msgs.get_mut(i) {
            msg.push_fd(fd);
        }
    }
}

impl fmt::Debug for RecvStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvStorage").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}
