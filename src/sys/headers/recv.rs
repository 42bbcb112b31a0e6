//! The headers of a batch to receive: their storage, a builder that points them at borrowed memory, and their results.
//!
//! ```text
//! headers  [ header 0  ][ header 1  ] ...   name, buffers, control: pointers
//! names    [ name 0    ][ name 1    ] ...   a source address each
//! controls [ control 0 ][ control 1 ] ...   CONTROL_SPACE bytes each, touched only if written to
//! ```
//!
//! The caller provides the buffers, and may provide the memory for source and control data. Each call sets all pointers
//! after the storage has grown. No pointer is followed between calls.

use std::io::{self, IoSliceMut};
use std::marker::PhantomData;

use super::{WiredRecvs, grow};
use crate::sys::addr::{NAME_LEN, Name, RawAddrRef};
use crate::sys::layout::Control;
use crate::sys::native::header::Header;
use crate::sys::zeroed::Zeroed;
use crate::sys::{
    self, Backend, BorrowedSocket, CONTROL_SPACE, MAX_BUFFERS, RecvFlags, RecvResult, Taken,
    numbers,
};

/// Storage for the headers of a batch to receive.
#[derive(Debug)]
pub(crate) struct RecvStorage {
    pub(super) headers: Zeroed<Header>,
    pub(super) names: Zeroed<Name>,
    pub(super) controls: Zeroed<Control>,
}

impl RecvStorage {
    pub(crate) const fn new() -> Self {
        Self { headers: Zeroed::empty(), names: Zeroed::empty(), controls: Zeroed::empty() }
    }

    /// Capacity in headers.
    pub(crate) fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Makes room for `n` headers.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`; the capacity is unchanged.
    #[inline]
    pub(crate) fn reserve(&mut self, n: usize) -> io::Result<()> {
        grow(self.capacity(), n, |n| self.resize(n))
    }

    /// Replaces the memory. Copies nothing, since each call writes every header that it uses.
    #[cold]
    pub(super) fn resize(&mut self, n: usize) -> io::Result<()> {
        let (headers, names) = (Zeroed::try_new(n)?, Zeroed::try_new(n)?);
        self.controls = Zeroed::try_new(n)?;
        (self.headers, self.names) = (headers, names);
        Ok(())
    }

    /// Shrinks to `n` headers, if there is memory for the smaller storage.
    pub(crate) fn shrink_to(&mut self, n: usize) {
        if n < self.capacity() {
            let _ = self.resize(n);
        }
    }

    /// Begins a batch without headers.
    #[inline]
    pub(crate) fn begin(&mut self) -> RecvHeaders<'_> {
        RecvHeaders { storage: self, len: 0, lent: PhantomData }
    }

    /// The result of the last call for message `i`.
    #[inline]
    pub(crate) fn entry(&self, i: usize) -> RecvEntry<'_> {
        let (name, control) = (&self.names[i], &self.controls[i]);
        RecvEntry { result: self.headers[i].result(), name, control }
    }
}

/// A builder of headers to receive into.
///
/// Invariant: the name, buffers and control data of the first `len` headers are writable for `'a` and used by nobody else:
/// they are borrowed for `'a`, or lie in the storage.
pub(crate) struct RecvHeaders<'a> {
    storage: &'a mut RecvStorage,
    len: usize,
    lent: PhantomData<&'a mut [u8]>,
}

impl<'a> RecvHeaders<'a> {
    /// Points the next header at a message's buffers, and at memory for source and control data: the storage's own if the
    /// caller gives none. The caller has reserved capacity.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` for more buffers than a message may have. The kernel would receive the messages before it, and return the
    /// error from the next call.
    #[inline]
    pub(crate) fn push(
        &mut self,
        buffers: &'a mut [IoSliceMut<'_>],
        source: Option<&'a mut Name>,
        control: Option<&'a mut [u8; CONTROL_SPACE]>,
    ) -> io::Result<()> {
        if buffers.len() > MAX_BUFFERS {
            return Err(io::Error::from_raw_os_error(numbers::EMSGSIZE));
        }
        let name = match source {
            Some(name) => name.as_mut_ptr(),
            None => self.storage.names.pointer(self.len).cast(),
        };
        let control = match control {
            Some(control) => control.as_mut_ptr(),
            None => self.storage.controls.pointer(self.len).cast(),
        };
        let header = self.storage.headers.at(self.len);
        // std documents that an `IoSliceMut` has the layout of a `Buffer`.
        header.set_buffers(buffers.as_mut_ptr().cast(), buffers.len());
        header.set_name(name, NAME_LEN);
        header.set_control(control, CONTROL_SPACE);
        header.clear_flags();
        self.len += 1;
        Ok(())
    }

    /// Receives into the headers; see [`crate::sys::backend::recv`].
    ///
    /// # Errors
    ///
    /// The error of the first message.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn recv(
        self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        flags: RecvFlags,
    ) -> io::Result<Taken> {
        // SAFETY: the invariant, which `push` keeps; `self` lives until the call has returned.
        let mut wired = unsafe { WiredRecvs::new(self.storage.headers.range(0..self.len)) };
        sys::backend::recv(backend, socket, &mut wired, flags)
    }
}

/// The result of a receive for one message, with the storage's memory for its source and control data.
#[derive(Clone, Copy)]
pub(crate) struct RecvEntry<'a> {
    pub(crate) result: RecvResult,
    name: &'a Name,
    control: &'a Control,
}

impl<'a> RecvEntry<'a> {
    /// The source. Valid if it was received into the storage.
    #[inline]
    pub(crate) fn source(&self) -> RawAddrRef<'a> {
        RawAddrRef::new(self.name, self.result.source_len)
    }

    /// The control data. Valid if it was received into the storage.
    #[inline]
    pub(crate) fn control(&self) -> &'a [u8] {
        &self.control.0[..self.result.control_len]
    }
}
