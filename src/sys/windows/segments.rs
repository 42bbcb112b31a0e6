//! Segmentation for unit tests, in place of the system's: Wine has none, and the tests look at the
//! datagrams of each batch that the library sends.

use std::io;
use std::os::windows::io::BorrowedSocket;

use socket2::SockRef;

use crate::sys::addr::socket_addr;
use crate::sys::fault::{self, Call};
use crate::sys::headers::WiredSends;
use crate::sys::{ControlMessages, numbers};

/// Sends the datagrams of a message that asks for segmentation; `None` if it does not, or if tests have
/// not asked for this.
pub(super) fn send(
    socket: BorrowedSocket<'_>,
    wired: &WiredSends<'_>,
    i: usize,
) -> Option<io::Result<()>> {
    if !fault::segments() {
        return None;
    }
    let (name, control, payload) = wired.contents(i);
    // The system uses the last one that it finds.
    let size = ControlMessages::new(control)
        .filter(|message| Some((message.level, message.ty)) == numbers::SEGMENT)
        .last()?;
    let size = u32::from_ne_bytes(size.data.try_into().ok()?) as usize;
    let (socket, dest) = (SockRef::from(&socket), socket_addr(name));
    Some(fault::next(Call::SendMsg, 1).and_then(|_| {
        payload.chunks(size).try_for_each(|datagram| match dest {
            Some(dest) => socket.send_to(datagram, &dest.into()).map(drop),
            None => socket.send(datagram).map(drop),
        })
    }))
}
