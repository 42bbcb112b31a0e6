//! Wires one message's buffers into a header, and reads back what the kernel wrote.

use std::os::fd::BorrowedFd;
use std::ptr;

use crate::recv::datagram::{Received, Truncation};
use crate::recv::msg::RecvMsg;
use crate::sys::CONTROL_SPACE;
use crate::sys::unix::addr::NAME_LEN;
use crate::sys::unix::header::{Control, Header};
use crate::sys::unix::socket::is_inet;

/// Points a header at memory for payload, address and control data, and sets every field that the kernel
/// reads or writes. Returns whether the message is plain: one buffer and no memory of its own for
/// control data.
#[inline]
pub(super) fn wire_space(
    header: &mut Header,
    msg: &mut RecvMsg<'_>,
    control: &mut Control,
) -> bool {
    let hdr = &mut header.msg_hdr;
    let plain = match msg.plain_space() {
        Some((buffer, source)) => {
            // IoSliceMut is an iovec by its documentation.
            hdr.msg_iov = ptr::from_mut(buffer).cast();
            hdr.msg_iovlen = 1;
            hdr.msg_control = control.0.as_mut_ptr().cast();
            hdr.msg_name = source.space_mut().as_mut_ptr().cast();
            true
        }
        None => {
            wire_full_space(hdr, msg, control);
            false
        }
    };
    reset(header);
    plain
}

/// The same for a message that is not plain.
#[cold]
fn wire_full_space(hdr: &mut libc::msghdr, msg: &mut RecvMsg<'_>, own: &mut Control) {
    let (buffers, control, source) = msg.full_space();
    hdr.msg_iov = buffers.as_mut_ptr().cast();
    hdr.msg_iovlen = buffers.len() as _;
    hdr.msg_control = control.unwrap_or(&mut own.0).as_mut_ptr().cast();
    hdr.msg_name = source.space_mut().as_mut_ptr().cast();
}

/// A summary of the headers of one receive.
pub(super) struct BatchSummary {
    /// Whether any has control data.
    pub(super) control: bool,
    /// Whether any is truncated.
    pub(super) truncated: bool,
    /// The number of messages that came before the end, if the socket was shut down.
    pub(super) end: Option<usize>,
}

#[inline]
pub(super) fn summarize(socket: BorrowedFd<'_>, headers: &[Header]) -> BatchSummary {
    // One fold without branches: usually there is neither.
    let (control, flags) = headers.iter().fold((0, 0), |(control, flags), header| {
        (control | header.msg_hdr.msg_controllen, flags | header.msg_hdr.msg_flags)
    });
    // Linux reports the end only to a call that waits, as the first message; the BSDs to every call,
    // so also as the last one.
    let ended = headers.first().is_some_and(is_end) || headers.last().is_some_and(is_end);
    let ended = ended && is_inet(socket);
    let end = if ended { headers.iter().position(is_end) } else { None };
    BatchSummary {
        control: control > 0,
        truncated: flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
        end,
    }
}

/// Reads a header back into its message; neither has control data.
#[inline]
pub(super) fn read_back_plain(header: &Header, msg: &mut RecvMsg<'_>) {
    msg.source_mut().set_len(source_len(header));
    msg.set_received(Received::plain(header.msg_len as usize));
}

/// Reads a header and its control data back into its message.
pub(super) fn read_back(header: &Header, control: &Control, msg: &mut RecvMsg<'_>) {
    let segment_size = msg.read_control(control_of(header, control));
    msg.source_mut().set_len(source_len(header));
    let received = received(header, segment_size, || msg.addr().is_some());
    msg.set_received(received);
}

/// Bytes of the address that the kernel wrote.
#[inline]
pub(super) fn source_len(header: &Header) -> usize {
    header.msg_hdr.msg_namelen as usize
}

/// The control data that the kernel wrote.
#[inline]
pub(super) fn control_of<'a>(header: &Header, control: &'a Control) -> &'a [u8] {
    &control.0[..(header.msg_hdr.msg_controllen as usize).min(CONTROL_SPACE)]
}

/// Sets the fields of a header that a receive overwrites. Its name points at [`NAME_LEN`] bytes
/// and its control data at [`CONTROL_SPACE`].
#[inline]
pub(super) fn reset(header: &mut Header) {
    let hdr = &mut header.msg_hdr;
    hdr.msg_namelen = NAME_LEN as _;
    hdr.msg_controllen = CONTROL_SPACE as _;
    hdr.msg_flags = 0;
}

/// What the kernel reported in a header, with the segment size from its control data; `from_inet` returns
/// whether the source is an Internet address.
#[inline]
pub(super) fn received(
    header: &Header,
    segment_size: Option<u16>,
    from_inet: impl FnOnce() -> bool,
) -> Received {
    let hdr = &header.msg_hdr;
    // Systems may leave other bits in the flags.
    let is_set = |flag| hdr.msg_flags & flag != 0;
    let control = is_set(libc::MSG_CTRUNC);
    Received {
        reported: header.msg_len as usize,
        segment_size,
        has_meta: hdr.msg_controllen > 0,
        truncation: Truncation {
            data: is_set(libc::MSG_TRUNC),
            control,
            // Only Internet sockets coalesce, and their messages have a source.
            segment_size: control && segment_size.is_none() && from_inet(),
        },
    }
}

/// Whether a header has neither payload nor source. An Internet socket reports that only when it is shut
/// down: even its empty datagrams have a source.
#[inline]
fn is_end(header: &Header) -> bool {
    header.msg_len == 0 && header.msg_hdr.msg_namelen == 0
}
