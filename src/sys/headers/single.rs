//! One header on the stack, for a message or a GSO batch that goes by itself.

use std::slice;

use super::{WiredBuffers, WiredSends};
use crate::sys::addr::{self, NAME_LEN, Name};
use crate::sys::native::call;
use crate::sys::native::header::{Buffer, Header};
use crate::sys::zeroed::Plain;
use crate::sys::{BorrowedSocket, CallResult, DestRef, GsoBatch, SendFlags};

/// Bytes for control data: all options of a send together, but for a few that are rare.
const CONTROL_SPACE: usize = 160;

/// Aligned like a `cmsghdr`.
#[repr(align(8))]
struct Control([u8; CONTROL_SPACE]);

/// A header on the stack: the destination, the control data, and what it carries.
pub(crate) struct SingleHeader {
    name: Name,
    name_len: usize,
    control: Control,
    control_len: usize,
    batch: GsoBatch,
}

impl SingleHeader {
    /// A header without destination and control data.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        let control = Control([0; CONTROL_SPACE]);
        let batch = GsoBatch { messages: 0, bytes: 0, segment: 0 };
        Self { name: [0; NAME_LEN], name_len: 0, control, control_len: 0, batch }
    }

    /// Sets the destination, an Internet address or that of the socket's peer.
    #[inline(always)]
    pub(crate) fn set_dest(&mut self, dest: DestRef<'_, '_>) {
        self.name_len = addr::encode_dest(dest, &mut self.name);
    }

    /// Encodes control messages: `encode` returns how many bytes it wrote.
    ///
    /// # Errors
    ///
    /// That of `encode`.
    #[inline(always)]
    pub(crate) fn encode_control<E>(
        &mut self,
        encode: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        self.control_len = encode(&mut self.control.0)?;
        Ok(())
    }

    /// Sets what it carries.
    #[inline(always)]
    pub(crate) fn set_batch(&mut self, batch: GsoBatch) {
        self.batch = batch;
    }

    /// What it carries, if that was set.
    #[inline(always)]
    pub(crate) fn batch(&self) -> &GsoBatch {
        &self.batch
    }

    #[inline]
    pub(super) fn name(&self) -> &[u8] {
        &self.name[..self.name_len]
    }

    #[inline]
    pub(super) fn control(&self) -> &[u8] {
        &self.control.0[..self.control_len]
    }

    /// Sends a message of one buffer.
    #[inline]
    pub(crate) fn send(
        &self,
        socket: BorrowedSocket<'_>,
        data: &[u8],
        flags: SendFlags,
    ) -> CallResult {
        let buffer = Buffer::new(data.as_ptr(), data.len());
        self.send_buffers(socket, WiredBuffers { buffers: slice::from_ref(&buffer) }, flags)
    }

    /// Sends these buffers.
    #[inline(always)]
    pub(super) fn send_buffers(
        &self,
        socket: BorrowedSocket<'_>,
        data: WiredBuffers<'_>,
        flags: SendFlags,
    ) -> CallResult {
        let (name, control) = (self.name(), self.control());
        let mut header = Header::zeroed();
        header.set_name(name.as_ptr(), name.len());
        header.set_buffers(data.buffers.as_ptr(), data.buffers.len());
        header.set_control(control.as_ptr(), control.len());
        // The invariant: all of it is borrowed for the call.
        let wired = WiredSends { headers: slice::from_mut(&mut header) };
        call::send_only(socket, &wired, flags)
    }
}
