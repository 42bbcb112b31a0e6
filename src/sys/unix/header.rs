//! The C structs of a batch: one header a message, and the memory that it points to.

use crate::sys::CONTROL_SPACE;

/// `struct mmsghdr`.
#[cfg(all(mmsg_calls, not(mmsg_extern)))]
pub(super) type Header = libc::mmsghdr;

/// `struct mmsghdr` where the libc crate does not have it, or the system has no such calls.
#[cfg(not(all(mmsg_calls, not(mmsg_extern))))]
#[repr(C)]
pub(super) struct Header {
    pub(super) msg_hdr: libc::msghdr,
    pub(super) msg_len: libc::c_uint,
}

/// Control data of one message.
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; CONTROL_SPACE]);
