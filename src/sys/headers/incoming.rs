//! Room for one message, into its header; and what the kernel wrote there, out of it.

use std::os::fd::BorrowedFd;
use std::ptr;

use super::{Control, Header};
use crate::RecvMsg;
use crate::message::{Arrival, Cut};
use crate::sys::CONTROL_SPACE;
use crate::sys::addr::NAME_LEN;
use crate::sys::unix;

/// Points a header at the message's buffer, and at room for its address and control data; sets
/// every field that the kernel reads or writes. Says whether the message is plain: one buffer, and
/// none for control data.
#[inline]
pub(super) fn wire_room(header: &mut Header, msg: &mut RecvMsg<'_>, control: &mut Control) -> bool {
    let hdr = &mut header.msg_hdr;
    let plain = match msg.plain_room() {
        Some((buffer, source)) => {
            // IoSliceMut is an iovec by its documentation.
            hdr.msg_iov = ptr::from_mut(buffer).cast();
            hdr.msg_iovlen = 1;
            hdr.msg_control = control.0.as_mut_ptr().cast();
            hdr.msg_name = source.room().as_mut_ptr().cast();
            true
        }
        None => {
            wire_full_room(hdr, msg, control);
            false
        }
    };
    arm(header);
    plain
}

/// Points a header at buffers and room for control data of any kind.
#[cold]
fn wire_full_room(hdr: &mut libc::msghdr, msg: &mut RecvMsg<'_>, own: &mut Control) {
    let (buffers, control, source) = msg.full_room();
    hdr.msg_iov = buffers.as_mut_ptr().cast();
    hdr.msg_iovlen = buffers.len() as _;
    hdr.msg_control = control.unwrap_or(&mut own.0).as_mut_ptr().cast();
    hdr.msg_name = source.room().as_mut_ptr().cast();
}

/// What is to be seen in the headers of received messages, all together.
pub(super) struct Seen {
    /// Whether any came with control data.
    pub(super) control: bool,
    /// Whether anything was cut off any.
    pub(super) cut: bool,
    /// The number of messages that came before the end, if the socket was shut down.
    pub(super) end: Option<usize>,
}

#[inline]
pub(super) fn look_over(socket: BorrowedFd<'_>, headers: &[Header]) -> Seen {
    // All of them at once, without a branch for each: mostly there is nothing to be found.
    let (control, flags) = headers.iter().fold((0, 0), |(control, flags), header| {
        (control | header.msg_hdr.msg_controllen, flags | header.msg_hdr.msg_flags)
    });
    // Linux gives the end only to a call that waits, so as the first message; the BSDs give it to
    // every call, so as the last one, too.
    let ended = headers.first().is_some_and(is_end) || headers.last().is_some_and(is_end);
    let ended = ended && unix::is_inet(socket);
    let end = if ended { headers.iter().position(is_end) } else { None };
    Seen { control: control > 0, cut: flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0, end }
}

/// Tells `msg` what the kernel wrote into its header, if both are plain.
#[inline]
pub(super) fn arrive_plain(header: &Header, msg: &mut RecvMsg<'_>) {
    msg.source_mut().set_len(source_len(header));
    msg.set_arrival(Arrival::plain(header.msg_len as usize));
}

/// Tells `msg`, whose room is plain, what the kernel wrote into its header, with control data, and
/// did not cut.
#[inline]
pub(super) fn arrive_told(header: &Header, control: &Control, msg: &mut RecvMsg<'_>) {
    if !msg.told_mut().read_usual(&control.0, header.msg_hdr.msg_controllen as usize) {
        return arrive(header, control, msg);
    }
    msg.source_mut().set_len(source_len(header));
    msg.set_arrival(Arrival { told: true, ..Arrival::plain(header.msg_len as usize) });
}

/// Tells `msg` what the kernel wrote into its header and control data.
#[inline(never)]
pub(super) fn arrive(header: &Header, control: &Control, msg: &mut RecvMsg<'_>) {
    let segment_size = msg.read_control(control_of(header, control));
    msg.source_mut().set_len(source_len(header));
    let arrival = arrival(header, segment_size, || msg.addr().is_some());
    msg.set_arrival(arrival);
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
pub(super) fn arm(header: &mut Header) {
    let hdr = &mut header.msg_hdr;
    hdr.msg_namelen = NAME_LEN as _;
    hdr.msg_controllen = CONTROL_SPACE as _;
    hdr.msg_flags = 0;
}

/// What the kernel wrote into a header, with the segment size from its control data; `from_inet` says
/// whether the message came from an Internet address.
#[inline]
pub(super) fn arrival(
    header: &Header,
    segment_size: Option<u16>,
    from_inet: impl FnOnce() -> bool,
) -> Arrival {
    let hdr = &header.msg_hdr;
    // Two bits looked at: whatever else a system leaves in the flags does not matter.
    let is_set = |flag| hdr.msg_flags & flag != 0;
    let control = is_set(libc::MSG_CTRUNC);
    Arrival {
        reported: header.msg_len as usize,
        segment_size,
        told: hdr.msg_controllen > 0,
        cut: Cut {
            data: is_set(libc::MSG_TRUNC),
            control,
            // Only Internet sockets coalesce, and their messages have a source.
            segment_size: control && segment_size.is_none() && from_inet(),
        },
    }
}

/// Whether a header holds nothing and came from nowhere. An Internet socket gives that only when
/// it is shut down: its datagrams have a source, empty or not.
#[inline]
fn is_end(header: &Header) -> bool {
    header.msg_len == 0 && header.msg_hdr.msg_namelen == 0
}
