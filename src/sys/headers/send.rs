//! The headers of a batch to send: their storage, and a builder that fills it.
//!
//! ```text
//! headers  [ header 0  ][ header 1  ] ...   name, buffers, control: pointers
//! names    [ name 0    ][ name 1    ] ...   destinations
//! iovecs   [ iovec 0   ][ iovec 1   ] ...   one for each header; a gathered message brings its own
//! controls [ control 0 ][ control 1 ] ...   CONTROL_SPACE bytes each, touched only if written to
//! copies   [ payloads copied together ... ]
//! ```
//!
//! Each call sets all pointers after the storage has grown. No pointer is followed between calls.

use std::io;
use std::marker::PhantomData;
use std::ptr;

use super::{WiredSends, grow};
use crate::sys::addr::{self, Name};
use crate::sys::layout::Control;
use crate::sys::native::header::{Buffer, Header};
use crate::sys::zeroed::Zeroed;
use crate::sys::{self, Backend, BorrowedSocket, CONTROL_SPACE, Dest, Payload, SendFlags};

/// Storage for the headers of a batch to send.
#[derive(Debug)]
pub(crate) struct SendStorage {
    pub(super) headers: Zeroed<Header>,
    names: Zeroed<Name>,
    iovecs: Zeroed<Buffer>,
    controls: Zeroed<Control>,
    copies: Zeroed<u8>,
}

impl SendStorage {
    pub(crate) const fn new() -> Self {
        Self {
            headers: Zeroed::empty(),
            names: Zeroed::empty(),
            iovecs: Zeroed::empty(),
            controls: Zeroed::empty(),
            copies: Zeroed::empty(),
        }
    }

    /// Capacity in headers.
    pub(crate) fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Makes room for `n` headers, and for `copies` bytes of payload to copy.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`; the capacity is unchanged.
    #[inline]
    pub(crate) fn reserve(&mut self, n: usize, copies: usize) -> io::Result<()> {
        grow(self.capacity(), n, |n| self.resize(n))?;
        if copies > self.copies.len() {
            self.copies = Zeroed::try_new(copies.next_power_of_two())?;
        }
        Ok(())
    }

    /// Replaces the memory. Copies nothing, since each call writes every header that it uses.
    #[cold]
    fn resize(&mut self, n: usize) -> io::Result<()> {
        let (headers, names) = (Zeroed::try_new(n)?, Zeroed::try_new(n)?);
        let (iovecs, controls) = (Zeroed::try_new(n)?, Zeroed::try_new(n)?);
        (self.headers, self.names, self.iovecs, self.controls) = (headers, names, iovecs, controls);
        Ok(())
    }

    /// Shrinks to `n` headers and frees the memory for copies, if there is memory for the smaller storage.
    pub(crate) fn shrink_to(&mut self, n: usize) {
        if n < self.capacity() {
            let _ = self.resize(n);
        }
    }

    /// Begins a batch without headers.
    #[inline]
    pub(crate) fn begin(&mut self) -> SendHeaders<'_> {
        SendHeaders { storage: self, len: 0, copied: 0, lent: PhantomData }
    }
}

/// A builder of headers to send: `len` complete ones, and an open one after them.
///
/// Invariants:
/// 1. The name, buffers and control data of each opened header are readable for `'a`: they are borrowed for `'a`, or lie in
///    elements of the storage that are not written again.
/// 2. All writes to the storage go to single elements, so pointers to other elements stay valid (see [`Zeroed::at`]).
pub(crate) struct SendHeaders<'a> {
    pub(super) storage: &'a mut SendStorage,
    pub(super) len: usize,
    /// Bytes of `copies` in use.
    copied: usize,
    lent: PhantomData<&'a [u8]>,
}

impl<'a> SendHeaders<'a> {
    /// The number of complete headers.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len == self.storage.capacity()
    }

    /// Bytes of payload that can still be copied.
    #[inline]
    pub(crate) fn copies_left(&self) -> usize {
        self.storage.copies.len() - self.copied
    }

    /// Opens the next header, with a message's destination and payload. Returns false if the destination is no valid Unix
    /// address.
    #[inline]
    pub(crate) fn open(&mut self, dest: &Dest<'_>, payload: Payload<'a>) -> bool {
        let name = self.storage.names.at(self.len);
        let name_len = match dest {
            Dest::None => 0,
            Dest::Addr(addr) => addr::encode_addr(addr, name),
            Dest::Unix(addr) => match addr::encode_unix(*addr, name) {
                Some(len) => len,
                None => return false,
            },
        };
        let name = self.storage.names.pointer(self.len).cast_const().cast();
        let header = self.storage.headers.at(self.len);
        header.set_name(name, name_len);
        header.set_control(ptr::null(), 0);
        header.clear_flags();
        match payload {
            Payload::One(data) => self.set_buffer(data.as_ptr(), data.len()),
            // std documents that an `IoSlice` has the layout of a `Buffer`.
            Payload::Many(list) => header.set_buffers(list.as_ptr().cast(), list.len()),
        }
        true
    }

    #[inline]
    fn set_buffer(&mut self, start: *const u8, len: usize) {
        *self.storage.iovecs.at(self.len) = Buffer::new(start, len);
        let iovec = self.storage.iovecs.pointer(self.len);
        self.storage.headers.at(self.len).set_buffers(iovec, 1);
    }

    /// Whether `data` directly follows the open header's only buffer in memory.
    #[inline(always)]
    pub(crate) fn is_next(&mut self, data: &[u8]) -> bool {
        let buffer = self.storage.iovecs.at(self.len);
        buffer.start().wrapping_add(buffer.len()) == data.as_ptr()
    }

    /// Extends the open header's only buffer by `data`, which must be [next](Self::is_next).
    #[inline(always)]
    pub(crate) fn extend(&mut self, data: &'a [u8]) {
        assert!(self.is_next(data));
        let buffer = self.storage.iovecs.at(self.len);
        *buffer = Buffer::new(buffer.start(), buffer.len() + data.len());
    }

    /// Replaces the open header's buffers by a copy. `fill` writes it to the [free](Self::copies_left) memory for copies and
    /// returns its length.
    #[inline(always)]
    pub(crate) fn copy_with(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) {
        let (start, end) = (self.copied, self.storage.copies.len());
        let len = fill(self.storage.copies.range(start..end)).min(end - start);
        self.copied += len;
        let copy = self.storage.copies.pointer(start);
        self.set_buffer(copy, len);
    }

    /// Encodes control messages into the storage's memory for the open header. `encode` returns how many bytes it wrote.
    ///
    /// # Errors
    ///
    /// The error of `encode`.
    #[inline]
    pub(crate) fn encode_control<E>(
        &mut self,
        encode: impl FnOnce(&mut [u8; CONTROL_SPACE]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let len = encode(&mut self.storage.controls.at(self.len).0)?.min(CONTROL_SPACE);
        let control = self.storage.controls.pointer(self.len).cast_const().cast();
        self.storage.headers.at(self.len).set_control(control, len);
        Ok(())
    }

    /// Points the open header at the control data of complete header `other`. The kernel only reads it, so both can share it.
    #[inline]
    pub(crate) fn share_control(&mut self, other: usize) {
        assert!(other < self.len);
        let (control, len) = self.storage.headers[other].control();
        self.storage.headers.at(self.len).set_control(control, len);
    }

    /// Completes the open header.
    #[inline]
    pub(crate) fn complete(&mut self) {
        self.len += 1;
    }

    /// Sends the complete headers; see [`crate::sys::backend::send`].
    ///
    /// # Errors
    ///
    /// The error of the first message.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn send(
        self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        flags: SendFlags,
    ) -> io::Result<usize> {
        // SAFETY: invariant 1; `self` lives until the call has returned.
        let mut wired = unsafe { WiredSends::new(self.storage.headers.range(0..self.len)) };
        sys::backend::send(backend, socket, &mut wired, flags)
    }
}
