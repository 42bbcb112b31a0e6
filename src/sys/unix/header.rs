//! The C structs of a message: its header, and the buffers that the header points at.

#![allow(unsafe_code)]
// The widths of the lengths in C's structs differ between systems.
#![allow(clippy::unnecessary_cast)]

use std::ptr;

use crate::sys::control_message::CONTROL_SPACE;
use crate::sys::message::RecvResult;
use crate::sys::zeroed::Plain;

/// `struct mmsghdr`.
#[cfg(mmsg_calls)]
pub(super) type Raw = libc::mmsghdr;

/// The same where the system lacks the calls.
#[cfg(not(mmsg_calls))]
#[repr(C)]
pub(super) struct Raw {
    pub(super) msg_hdr: libc::msghdr,
    pub(super) msg_len: libc::c_uint,
}

/// `struct iovec`. `IoSlice` and `IoSliceMut` have the same layout, as std documents.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Buffer(libc::iovec);

// SAFETY: any bytes are a valid C struct of a raw pointer and a length.
unsafe impl Plain for Buffer {}

impl Buffer {
    /// `len` bytes at `start`.
    #[inline(always)]
    pub(crate) fn new(start: *const u8, len: usize) -> Self {
        Self(libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len })
    }

    #[inline(always)]
    pub(crate) fn start(&self) -> *const u8 {
        self.0.iov_base.cast_const().cast()
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.0.iov_len
    }
}

/// The header of one message.
#[repr(transparent)]
pub(crate) struct Header(pub(super) Raw);

// SAFETY: any bytes are a valid C struct of raw pointers, lengths and flags.
unsafe impl Plain for Header {
    /// A cache line: on most systems a header then lies in one.
    const ALIGN: usize = 64;
}

impl Header {
    /// Points at an address, or nowhere if `len` is 0.
    #[inline(always)]
    pub(crate) fn set_name(&mut self, name: *const u8, len: usize) {
        let hdr = &mut self.0.msg_hdr;
        hdr.msg_name = if len == 0 { ptr::null_mut() } else { name.cast_mut().cast() };
        hdr.msg_namelen = len as _;
    }

    #[cfg(test)]
    pub(crate) fn name(&self) -> (*const u8, usize) {
        (self.0.msg_hdr.msg_name.cast_const().cast(), self.name_len())
    }

    #[inline(always)]
    pub(crate) fn name_len(&self) -> usize {
        self.0.msg_hdr.msg_namelen as usize
    }

    #[inline(always)]
    pub(crate) fn set_buffers(&mut self, first: *const Buffer, count: usize) {
        let hdr = &mut self.0.msg_hdr;
        hdr.msg_iov = first.cast_mut().cast();
        hdr.msg_iovlen = count as _;
    }

    #[inline(always)]
    pub(crate) fn buffers(&self) -> (*const Buffer, usize) {
        let hdr = &self.0.msg_hdr;
        (hdr.msg_iov.cast_const().cast(), hdr.msg_iovlen as usize)
    }

    /// Points at control data, or nowhere if `len` is 0, since some systems check only the pointer.
    #[inline(always)]
    pub(crate) fn set_control(&mut self, control: *const u8, len: usize) {
        let hdr = &mut self.0.msg_hdr;
        hdr.msg_control = if len == 0 { ptr::null_mut() } else { control.cast_mut().cast() };
        hdr.msg_controllen = len as _;
    }

    #[inline(always)]
    pub(crate) fn control(&self) -> (*const u8, usize) {
        let hdr = &self.0.msg_hdr;
        (hdr.msg_control.cast_const().cast(), hdr.msg_controllen as usize)
    }

    #[inline(always)]
    pub(crate) fn clear_result(&mut self) {
        (self.0.msg_len, self.0.msg_hdr.msg_flags) = (0, 0);
    }

    /// Bytes of the received message.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.0.msg_len as usize
    }

    /// What the system reported about a received message. Ignores other bits that it may leave in the flags.
    #[inline(always)]
    pub(crate) fn result(&self) -> RecvResult {
        let hdr = &self.0.msg_hdr;
        RecvResult {
            len: self.len(),
            truncated: hdr.msg_flags & libc::MSG_TRUNC != 0,
            control_truncated: hdr.msg_flags & libc::MSG_CTRUNC != 0,
            source_len: self.name_len(),
            control_len: (hdr.msg_controllen as usize).min(CONTROL_SPACE),
        }
    }

    /// Sets what [`result`](Self::result) returns, without control data.
    pub(crate) fn set_result(&mut self, result: RecvResult) {
        self.0.msg_len = result.len.min(u32::MAX as usize) as _;
        let hdr = &mut self.0.msg_hdr;
        let truncated = if result.truncated { libc::MSG_TRUNC } else { 0 };
        let control_truncated = if result.control_truncated { libc::MSG_CTRUNC } else { 0 };
        hdr.msg_flags = truncated | control_truncated;
        hdr.msg_namelen = result.source_len as _;
        hdr.msg_controllen = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::zeroed::Zeroed;

    /// The result of a receive of five bytes that left these flags.
    fn received(flags: libc::c_int) -> RecvResult {
        let mut headers = Zeroed::<Header>::try_new(1).expect("there is memory");
        let header = headers.at(0);
        header.0.msg_len = 5;
        header.0.msg_hdr.msg_flags = flags;
        header.result()
    }

    /// Whether payload and control data are truncated.
    fn truncated(flags: libc::c_int) -> (bool, bool) {
        let result = received(flags);
        (result.truncated, result.control_truncated)
    }

    #[test]
    fn stray_bits_in_the_flags_do_not_matter() {
        for bit in 0..32 {
            let flag = 1i32.rotate_left(bit);
            let result = received(flag);
            assert_eq!((result.len, result.control_len), (5, 0), "{flag:#x}");
            assert_eq!(result.truncated, flag == libc::MSG_TRUNC, "{flag:#x}");
            assert_eq!(result.control_truncated, flag == libc::MSG_CTRUNC, "{flag:#x}");
        }
        // What FreeBSD leaves there, and everything at once.
        #[cfg(mmsg_calls)]
        assert_eq!(truncated(libc::MSG_WAITFORONE), (false, false));
        assert_eq!(truncated(!0), (true, true));
        assert_eq!(truncated(!(libc::MSG_TRUNC | libc::MSG_CTRUNC)), (false, false));
    }
}
