//! Wiring for trains: many datagrams in one message, cut apart again by the kernel.
//!
//! A run's messages share a header. Their buffers become a row of iovecs; neighbours in memory
//! become one, and small ones that are no neighbours are copied together, since the kernel takes
//! longer over an iovec than a copy of so few bytes takes.

use std::borrow::Borrow;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;

use libc::iovec;

use super::outgoing::{wire_buffers, wire_control, wire_dest};
use super::{Control, Header, Headers, Row, SendHeaders};
use crate::ancillary::Refused;
use crate::segment::{Limits, Run};
use crate::send_msg::{Content, Outgoing};
use crate::sys::zeroed::Zeroed;
use crate::sys::{Backend, Moved, Train, TrainStep, unix};

/// Messages of up to this length are copied together: ARCHITECTURE.md has what was measured.
const COPY_MAX: usize = 512;

/// What wiring trains needs beside the headers; no memory until the first train is sent.
pub(super) struct Trains {
    /// What goes in each header.
    wired: Vec<Train>,
    /// The buffers of all headers, one after the other.
    iovecs: Zeroed<iovec>,
    /// Copies of small messages: [`COPY_MAX`] bytes for each message that there is room for.
    copies: Zeroed<u8>,
}

impl Trains {
    pub(super) const fn new() -> Self {
        Self { wired: Vec::new(), iovecs: Zeroed::empty(), copies: Zeroed::empty() }
    }

    /// Follows the headers, if there was a train: no later call is to grow what this one can.
    pub(super) fn resize(&mut self, capacity: usize) {
        if !self.copies.is_empty() {
            *self = Self::new();
            self.reserve(capacity);
        }
    }

    fn reserve(&mut self, capacity: usize) {
        if self.iovecs.len() < capacity {
            self.iovecs = Zeroed::new(capacity);
            self.copies = Zeroed::new(capacity * COPY_MAX);
        }
        self.wired.clear();
        self.wired.reserve(capacity);
    }
}

impl Headers {
    /// Sends messages in order, runs of them as trains, as many as there is room for. What the
    /// contract in [`crate::sys`] says of a send goes for each message.
    #[inline]
    pub(crate) fn send_trains<'m, M: Outgoing<'m>>(
        &mut self,
        backend: Backend,
        socket: BorrowedFd<'_>,
        msgs: impl Iterator<Item = M>,
        limits: Limits,
    ) -> TrainStep {
        let mut wired = self.wire_trains(socket, msgs, limits);
        let refused = wired.refused;
        let mut step = unix::send(backend, socket, &mut wired);
        let (sent, left) = self.trains.wired.split_at(step.count);
        let moved: Moved = sent.iter().collect();
        let waiting: usize = left.iter().map(|train| train.count).sum();
        if let (true, None, Some(kind)) = (left.is_empty(), &step.error, refused) {
            step.error = Some(kind.into());
        }
        step.count = sent.iter().map(|train| train.count).sum();
        TrainStep {
            offered: step.count + waiting + usize::from(refused.is_some()),
            step,
            moved,
            stopped_at: left.first().copied(),
        }
    }

    #[inline]
    fn wire_trains<'a, 'm: 'a, M: Outgoing<'m>>(
        &'a mut self,
        socket: BorrowedFd<'_>,
        msgs: impl Iterator<Item = M>,
        limits: Limits,
    ) -> SendHeaders<'a> {
        let capacity = self.capacity();
        self.trains.reserve(capacity);
        let mut wiring = Wiring {
            socket,
            rows: &mut self.rows,
            controls: &mut self.controls,
            buffers: Buffers {
                first: self.trains.iovecs.as_mut_ptr(),
                row: &mut self.trains.iovecs,
                used: 0,
                copies_start: self.trains.copies.as_mut_ptr(),
                copies: &mut self.trains.copies,
                copied: 0,
            },
            headers: &mut self.headers,
            wired: &mut self.trains.wired,
            run_start: 0,
        };
        // A message takes at most one header and one iovec: there is room for this many.
        let mut msgs = msgs.take(capacity);
        let mut result = Ok(());
        let mut next = msgs.next();
        while let (Ok(()), Some(msg)) = (result, &next) {
            if limits.refuse(msg) {
                break;
            }
            result = wiring.begin(msg);
            if result.is_err() {
                break;
            }
            let mut run = Run::start(msg, limits);
            let mut tail = wiring.buffers.tail();
            let buffers = &mut wiring.buffers;
            next = run.join(&mut msgs, |data| buffers.push(&mut tail, data));
            buffers.close(tail);
            result = wiring.end(&run);
        }
        let count = self.trains.wired.len();
        self.wired(count, result.err().map(|kind| (count, kind)))
    }
}

/// The rows that are being wired.
struct Wiring<'a, 's> {
    socket: BorrowedFd<'s>,
    headers: &'a mut [Header],
    rows: &'a mut [Row],
    controls: &'a mut [Control],
    buffers: Buffers<'a>,
    wired: &'a mut Vec<Train>,
    /// Where the iovecs of the run begin that is being wired.
    run_start: usize,
}

impl Wiring<'_, '_> {
    /// Wires the first message of a run as if it were the only one.
    #[inline]
    fn begin<'m>(&mut self, msg: &impl Outgoing<'m>) -> Result<(), io::ErrorKind> {
        let i = self.wired.len();
        let hdr = &mut self.headers[i].msg_hdr;
        wire_dest(hdr, &mut self.rows[i].name, msg.dest());
        self.run_start = self.buffers.used;
        let iovec = &mut self.buffers.row[self.run_start];
        let content = msg.content();
        match *content.borrow() {
            Content::Plain(data) => {
                iovec.iov_base = data.as_ptr().cast_mut().cast();
                iovec.iov_len = data.len();
                hdr.msg_iovlen = 1;
                hdr.msg_control = ptr::null_mut();
                hdr.msg_controllen = 0;
                hdr.msg_iov = self.buffers.first.wrapping_add(self.run_start);
            }
            Content::Full { buffers, control, meta } => {
                wire_buffers(hdr, iovec, buffers);
                if content.borrow().one_buffer().is_some() {
                    // The row's own address: more of its elements may follow.
                    hdr.msg_iov = self.buffers.first.wrapping_add(self.run_start);
                }
                wire_control(hdr, &mut self.controls[i], msg.dest(), control, meta, self.socket)?;
            }
        }
        hdr.msg_flags = 0;
        self.buffers.used += 1;
        Ok(())
    }

    /// Completes the header of a run: its buffers, and where the kernel is to cut it.
    #[inline]
    fn end(&mut self, run: &Run<'_>) -> Result<(), io::ErrorKind> {
        if run.count() > 1 {
            self.end_train(run)?;
        }
        self.wired.push(Train::from(run));
        Ok(())
    }

    fn end_train(&mut self, run: &Run<'_>) -> Result<(), io::ErrorKind> {
        let i = self.wired.len();
        let (hdr, room) = (&mut self.headers[i].msg_hdr, &mut self.controls[i].0);
        hdr.msg_iovlen = (self.buffers.used - self.run_start) as _;
        let (meta, control) = run.wishes();
        let v4 = || match run.dest() {
            Some(dest) => dest.ip().to_canonical().is_ipv4(),
            None => unix::peer_is_v4(self.socket),
        };
        // Only what depends on the family asks for it.
        let v4 = run.is_plain() || v4();
        let len = meta.encode(v4, control, room).map_err(Refused::kind)?;
        hdr.msg_control = room.as_mut_ptr().cast();
        hdr.msg_controllen = len as _;
        Ok(())
    }
}

/// The buffers of all headers in a row.
struct Buffers<'a> {
    /// The address of the row, and not of a borrow of it: headers keep it while the row is
    /// written to.
    first: *mut iovec,
    row: &'a mut [iovec],
    used: usize,
    /// The same of the copies.
    copies_start: *mut u8,
    copies: &'a mut [u8],
    copied: usize,
}

impl Buffers<'_> {
    /// Begins with the bytes of a run's first message, which are in the row already.
    #[inline(always)]
    fn tail(&self) -> Tail {
        let first = &self.row[self.used - 1];
        let (start, len) = (first.iov_base.cast(), first.iov_len);
        Tail { used: self.used, start, len, copied: self.copied }
    }

    /// Adds the bytes of a run's next message.
    #[inline(always)]
    fn push(&mut self, tail: &mut Tail, data: &[u8]) {
        let mut start = data.as_ptr().cast_mut();
        let end = tail.start.wrapping_add(tail.len);
        if start != end && data.len() <= COPY_MAX {
            self.copies[tail.copied..tail.copied + data.len()].copy_from_slice(data);
            start = self.copies_start.wrapping_add(tail.copied);
            tail.copied += data.len();
        }
        if start == end {
            tail.len += data.len();
        } else {
            self.close(*tail);
            *tail = Tail { used: tail.used + 1, start, len: data.len(), ..*tail };
        }
    }

    /// Writes the last buffer into the row.
    #[inline(always)]
    fn close(&mut self, tail: Tail) {
        let last = &mut self.row[tail.used - 1];
        last.iov_base = tail.start.cast();
        last.iov_len = tail.len;
        (self.used, self.copied) = (tail.used, tail.copied);
    }
}

/// The last buffer of a row that grows: apart from it, so that a loop has it in registers.
#[derive(Clone, Copy)]
struct Tail {
    /// Buffers in the row, this one included.
    used: usize,
    start: *mut u8,
    len: usize,
    copied: usize,
}
