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

#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::ptr;

use crate::sys::addr::{self, NAME_LEN, Name};
use crate::sys::control_message::{CONTROL_SPACE, Control};
use crate::sys::message::{Dest, Payload};
use crate::sys::native::header::{Buffer, Header};
use crate::sys::zeroed::{Zeroed, grow};

/// Storage for the headers of a batch to send.
#[derive(Debug)]
pub(crate) struct SendStorage {
    headers: Zeroed<Header>,
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

    /// Begins a batch without headers.
    #[inline]
    pub(crate) fn begin(&mut self) -> SendHeaders<'_> {
        SendHeaders { storage: self, len: 0, copied: 0, borrowed: PhantomData }
    }
}

/// A builder of headers to send. [`open`](Self::open) begins each; [`OpenHeader::complete`] adds it.
///
/// Invariants:
/// 1. The name, buffers and control data of each opened header are readable for `'a`: they are borrowed for `'a`, or lie in
///    elements of the storage that are not written again.
/// 2. All writes to the storage go to single elements, so pointers to other elements stay valid (see [`Zeroed::at`]).
/// 3. The first `len` headers have been opened.
pub(crate) struct SendHeaders<'a> {
    storage: &'a mut SendStorage,
    len: usize,
    /// Bytes of `copies` in use.
    copied: usize,
    borrowed: PhantomData<&'a [u8]>,
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

    /// Opens the next header, with a message's destination and payload. `None` if the destination is no valid Unix address.
    #[inline]
    pub(crate) fn open(
        &mut self,
        dest: &Dest<'_>,
        payload: Payload<'a>,
    ) -> Option<OpenHeader<'_, 'a>> {
        let SendStorage { headers, names, iovecs, .. } = &mut *self.storage;
        let (header, name, iovec) = (headers.at(self.len), names.at(self.len), iovecs.at(self.len));
        let name_len = match dest {
            Dest::None => 0,
            Dest::Addr(addr) => addr::encode_addr(addr, name),
            Dest::Unix(addr) => addr::encode_unix(*addr, name)?,
        };
        header.set_name(names.pointer(self.len).cast_const().cast(), name_len.min(NAME_LEN));
        header.set_control(ptr::null(), 0);
        header.clear_result();
        match payload {
            Payload::One(data) => {
                *iovec = Buffer::new(data.as_ptr(), data.len());
                header.set_buffers(iovecs.pointer(self.len), 1);
            }
            // std documents that an `IoSlice` has the layout of a `Buffer`.
            Payload::Many(list) => header.set_buffers(list.as_ptr().cast(), list.len()),
        }
        Some(OpenHeader { headers: self })
    }

    /// The complete headers, for the call.
    #[inline]
    pub(crate) fn prepared(self) -> PreparedSends<'a> {
        // SAFETY: invariants 1 and 3. The storage is borrowed for `'a`, so nothing writes to it before the call.
        unsafe { PreparedSends::new(self.storage.headers.range(0..self.len)) }
    }

    /// The payloads of the complete headers, as the kernel would read them.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn payloads(self) -> Vec<Vec<u8>> {
        // SAFETY: invariant 1.
        let read = |b: &Buffer| unsafe { std::slice::from_raw_parts(b.start(), b.len()) };
        let prepared = self.prepared();
        let payload = |i| prepared.buffers(i).iter().flat_map(read).copied().collect();
        (0..prepared.as_slice().len()).map(payload).collect()
    }
}

/// The header after the complete ones. Dropping it leaves it out.
pub(crate) struct OpenHeader<'h, 'a> {
    headers: &'h mut SendHeaders<'a>,
}

impl<'a> OpenHeader<'_, 'a> {
    /// The number of complete headers before it.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.headers.len
    }

    #[inline]
    fn header(&mut self) -> &mut Header {
        self.headers.storage.headers.at(self.headers.len)
    }

    /// Bytes of payload that can still be copied.
    #[inline]
    pub(crate) fn copies_left(&self) -> usize {
        self.headers.storage.copies.len() - self.headers.copied
    }

    /// Extends the header's only buffer by slices, each of which begins where the buffer ends. `next` gets that place.
    #[inline(always)]
    pub(crate) fn extend(&mut self, mut next: impl FnMut(*const u8) -> Option<&'a [u8]>) {
        let buffer = self.headers.storage.iovecs.at(self.headers.len);
        let (start, mut len) = (buffer.start(), buffer.len());
        while let Some(data) = next(start.wrapping_add(len)) {
            assert!(data.as_ptr() == start.wrapping_add(len));
            len += data.len();
        }
        *buffer = Buffer::new(start, len);
    }

    /// Replaces the header's buffers by a copy. `fill` writes it to the [free](Self::copies_left) memory for copies and
    /// returns its length.
    #[inline(always)]
    pub(crate) fn copy_with(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) {
        let SendHeaders { storage, len: i, copied, .. } = &mut *self.headers;
        let SendStorage { headers, iovecs, copies, .. } = &mut **storage;
        let (start, end) = (*copied, copies.len());
        let len = fill(copies.range(start..end)).min(end - start);
        *copied += len;
        *iovecs.at(*i) = Buffer::new(copies.pointer(start), len);
        headers.at(*i).set_buffers(iovecs.pointer(*i), 1);
    }

    /// Encodes control messages into the storage's memory. `encode` returns how many bytes it wrote.
    ///
    /// # Errors
    ///
    /// The error of `encode`.
    #[inline]
    pub(crate) fn encode_control<E>(
        &mut self,
        encode: impl FnOnce(&mut [u8; CONTROL_SPACE]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let controls = &mut self.headers.storage.controls;
        let len = encode(&mut controls.at(self.headers.len).0)?.min(CONTROL_SPACE);
        let control = controls.pointer(self.headers.len).cast_const().cast();
        self.header().set_control(control, len);
        Ok(())
    }

    /// Points at the control data of complete header `other`. The kernel only reads it, so both can share it.
    #[inline]
    pub(crate) fn share_control(&mut self, other: usize) {
        assert!(other < self.headers.len);
        let (control, len) = self.headers.storage.headers[other].control();
        self.header().set_control(control, len);
    }

    /// Adds the header to the complete ones.
    #[inline]
    pub(crate) fn complete(self) {
        self.headers.len += 1;
    }
}

/// Headers to send. Safe code can only read them.
///
/// Invariant 1 (ARCHITECTURE.md), which makes the system call sound: each header's name, buffers and control data are
/// readable for `'h`, with the lengths in the header.
pub(crate) struct PreparedSends<'h> {
    headers: &'h mut [Header],
}

impl<'h> PreparedSends<'h> {
    /// # Safety
    ///
    /// The headers meet the invariant.
    #[inline]
    unsafe fn new(headers: &'h mut [Header]) -> Self {
        debug_assert!(headers.iter().all(|header| {
            let (first, count) = header.buffers();
            header.name_len() <= NAME_LEN && (count == 0 || !first.is_null())
        }));
        Self { headers }
    }

    #[inline]
    pub(in crate::sys) fn as_slice(&self) -> &[Header] {
        self.headers
    }

    /// For the system call, which writes only the reported lengths.
    #[inline]
    #[cfg(mmsg_calls)]
    pub(in crate::sys) fn as_mut_ptr(&mut self) -> *mut Header {
        self.headers.as_mut_ptr()
    }

    /// The buffers of message `i`.
    #[cfg(any(unix, test, fuzzing))]
    pub(in crate::sys) fn buffers(&self, i: usize) -> &[Buffer] {
        let (first, count) = self.headers[i].buffers();
        if count == 0 {
            return &[];
        }
        // SAFETY: by the invariant `first` points at `count` buffers that are readable for `'h`.
        unsafe { std::slice::from_raw_parts(first, count) }
    }
}
