//! Segments GSO batches for unit tests, since Wine cannot.

#![allow(unsafe_code)]

use std::io;
use std::os::windows::io::BorrowedSocket;

use socket2::SockRef;

use crate::sys::addr::decode_addr;
use crate::sys::fault::{self, Call};
use crate::sys::headers::PreparedSends;
use crate::sys::{ControlMessages, numbers};

/// Sends the datagrams of a message that asks for segmentation. `None` if the message does not ask, or if no test turned
/// this on.
pub(in super::super) fn send(
    socket: BorrowedSocket<'_>,
    prepared: &PreparedSends<'_>,
    i: usize,
) -> Option<io::Result<()>> {
    if !fault::segments() {
        return None;
    }
    let (name, control, payload) = contents(prepared, i);
    // The system uses the last segment size.
    let size = ControlMessages::new(control)
        .filter(|message| Some((message.level, message.ty)) == numbers::SEGMENT)
        .last()?;
    let size = u32::from_ne_bytes(size.data.try_into().ok()?) as usize;
    let (socket, dest) = (SockRef::from(&socket), decode_addr(name));
    Some(fault::next(Call::SendMsg, 1).and_then(|_| {
        payload.chunks(size).try_for_each(|datagram| match dest {
            Some(dest) => socket.send_to(datagram, &dest.into()).map(drop),
            None => socket.send(datagram).map(drop),
        })
    }))
}

/// The destination, the control data and a copy of the payload of message `i`.
fn contents<'w>(prepared: &'w PreparedSends<'_>, i: usize) -> (&'w [u8], &'w [u8], Vec<u8>) {
    let bytes = |(start, len): (*const u8, usize)| -> &'w [u8] {
        // SAFETY: the header meets the invariant of PreparedSends.
        if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start, len) } }
    };
    let payload =
        prepared.buffers(i).iter().flat_map(|b| bytes((b.start(), b.len()))).copied().collect();
    let header = &prepared.as_slice()[i];
    (bytes(header.name()), bytes(header.control()), payload)
}
