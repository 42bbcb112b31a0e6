//! The C structs of a message: its header, and the buffers that the header points at.

#![allow(unsafe_code)]

use std::ptr;

use windows_sys::Win32::Networking::WinSock::{MSG_CTRUNC, MSG_TRUNC, WSABUF, WSAMSG};

use crate::sys::control_message::CONTROL_SPACE;
use crate::sys::message::RecvResult;
use crate::sys::zeroed::Plain;

/// `WSABUF`. `IoSlice` and `IoSliceMut` have the same layout, as std documents.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Buffer(WSABUF);

// SAFETY: any bytes are a valid C struct of a raw pointer and a length.
unsafe impl Plain for Buffer {}

impl Buffer {
    /// `len` bytes at `start`. A length beyond `u32::MAX` becomes `u32::MAX`, which the system rejects, too.
    pub(crate) fn new(start: *const u8, len: usize) -> Self {
        Self(WSABUF { len: len.try_into().unwrap_or(u32::MAX), buf: start.cast_mut() })
    }

    pub(crate) fn start(&self) -> *const u8 {
        self.0.buf
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len as usize
    }
}

/// `WSAMSG`, and the number of bytes received.
#[repr(C)]
pub(crate) struct Header {
    pub(super) msg: WSAMSG,
    pub(super) received: u32,
}

// SAFETY: any bytes are a valid C struct of raw pointers, lengths and flags.
unsafe impl Plain for Header {
    /// A cache line: on most systems a header then lies in one.
    const ALIGN: usize = 64;
}

impl Header {
    /// Points at an address, or nowhere if `len` is 0.
    pub(crate) fn set_name(&mut self, name: *const u8, len: usize) {
        self.msg.name = if len == 0 { ptr::null_mut() } else { name.cast_mut().cast() };
        // At most the length of a `Name`, so the cast loses nothing.
        self.msg.namelen = len as i32;
    }

    #[cfg(test)]
    pub(crate) fn name(&self) -> (*const u8, usize) {
        (self.msg.name.cast_const().cast(), self.name_len())
    }

    pub(crate) fn name_len(&self) -> usize {
        usize::try_from(self.msg.namelen).unwrap_or(0)
    }

    pub(crate) fn set_buffers(&mut self, first: *const Buffer, count: usize) {
        self.msg.lpBuffers = first.cast_mut().cast();
        // More than 4 billion buffers would take 64 GiB.
        self.msg.dwBufferCount = count as u32;
    }

    pub(crate) fn buffers(&self) -> (*const Buffer, usize) {
        (self.msg.lpBuffers.cast_const().cast(), self.msg.dwBufferCount as usize)
    }

    /// Points at control data, or nowhere if `len` is 0.
    pub(crate) fn set_control(&mut self, control: *const u8, len: usize) {
        let start = if len == 0 { ptr::null_mut() } else { control.cast_mut() };
        // A control buffer is a few hundred bytes.
        self.msg.Control = WSABUF { len: len as u32, buf: start };
    }

    pub(crate) fn control(&self) -> (*const u8, usize) {
        (self.msg.Control.buf, self.msg.Control.len as usize)
    }

    pub(crate) fn clear_result(&mut self) {
        (self.received, self.msg.dwFlags) = (0, 0);
    }

    /// Bytes of the received message.
    pub(crate) fn len(&self) -> usize {
        self.received as usize
    }

    /// What the system reported about a received message.
    pub(crate) fn result(&self) -> RecvResult {
        RecvResult {
            len: self.len(),
            truncated: self.msg.dwFlags & MSG_TRUNC != 0,
            control_truncated: self.msg.dwFlags & MSG_CTRUNC != 0,
            source_len: self.name_len(),
            control_len: (self.msg.Control.len as usize).min(CONTROL_SPACE),
        }
    }

    /// Sets what [`result`](Self::result) returns, without control data.
    pub(crate) fn set_result(&mut self, result: RecvResult) {
        self.received = result.len.try_into().unwrap_or(u32::MAX);
        let truncated = if result.truncated { MSG_TRUNC } else { 0 };
        let control_truncated = if result.control_truncated { MSG_CTRUNC } else { 0 };
        self.msg.dwFlags = truncated | control_truncated;
        self.msg.namelen = result.source_len as i32;
        self.msg.Control.len = 0;
    }
}
