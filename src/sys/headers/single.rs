//! One header on the stack, for a message that needs no storage.

use std::slice;

use super::WiredSends;
use crate::sys::addr::{self, NAME_LEN};
use crate::sys::native::call;
use crate::sys::native::header::{Buffer, Header};
use crate::sys::zeroed::Plain;
use crate::sys::{Backend, BorrowedSocket, CallResult, DestRef, SendFlags};

/// Sends a message of one buffer, with encoded control data.
#[inline]
pub(crate) fn send_single(
    socket: BorrowedSocket<'_>,
    dest: DestRef<'_, '_>,
    data: &[u8],
    control: &[u8],
    flags: SendFlags,
) -> CallResult {
    let mut name = [0; NAME_LEN];
    let name_len = addr::encode_dest(dest, &mut name);
    let buffer = Buffer::new(data.as_ptr(), data.len());
    let mut header = Header::zeroed();
    header.set_name(name.as_ptr(), name_len);
    header.set_buffers(&raw const buffer, 1);
    header.set_control(control.as_ptr(), control.len());
    // The invariant: all of it is borrowed for the call.
    let mut wired = WiredSends { headers: slice::from_mut(&mut header) };
    call::send(Backend::Msg, socket, &mut wired, flags)
}
