//! The send of a message that is alone: by a header on the stack, or none, without an arena.
//!
//! By that, one message with ECN bits and a source address sent through `Offload` and received takes 5 to 6 % less time,
//! and one without options sent by a plain socket 3.5 % less (15 bytes on loopback, Linux 6.18, medians of pairs).

use std::io;

use crate::ancillary::SendMeta;
use crate::engine::deferred_error;
use crate::send::content::{MsgOptions, SendBuffers};
use crate::send::msg::SendMsg;
use crate::sys::{self, BorrowedSocket, CallResult, DestRef, Direction, SendFlags};

/// Bytes for control data: all options of a send together, but for a few that are rare.
const SPACE: usize = 160;

/// Aligned like a `cmsghdr`.
#[repr(align(8))]
struct Space([u8; SPACE]);

/// A message of one buffer, to an Internet address, without raw control messages.
#[derive(Clone, Copy)]
pub(crate) struct Single<'m, 'a> {
    dest: DestRef<'m, 'a>,
    pub(crate) data: &'a [u8],
    pub(crate) options: MsgOptions<'a>,
}

impl<'m, 'a> Single<'m, 'a> {
    /// The message of a slice, if the slice has one message, and that is such a message.
    #[inline]
    pub(crate) fn of(msgs: &'m [SendMsg<'a>]) -> Option<Self> {
        let [msg] = msgs else { return None };
        let SendBuffers::One(data) = msg.buffers() else { return None };
        let (dest, options) = (msg.dest_ref(), msg.options());
        let is_such = !matches!(dest, DestRef::Unix(_)) && options.control().is_empty();
        is_such.then_some(Self { dest, data, options })
    }

    /// Sends it, with this segment size in place of that of its options. `None` if its options cannot be
    /// encoded here: an arena has more space for them, or returns the error.
    #[inline]
    pub(crate) fn send(
        &self,
        socket: BorrowedSocket<'_>,
        segment_size: Option<u16>,
        flags: SendFlags,
    ) -> Option<CallResult> {
        let Self { dest, data, options } = *self;
        if options.is_none() {
            return Some(sys::send_single(socket, dest, data, &[], flags));
        }
        let meta = SendMeta { segment_size, ..options.meta() };
        let is_v4 = dest.is_v4().unwrap_or_else(|| {
            // The segment size does not depend on the family, and to ask for the peer takes a system call.
            meta == (SendMeta { segment_size, ..SendMeta::new() }) || sys::peer_is_v4(socket)
        });
        let mut space = Space([0; SPACE]);
        let len = meta.encode(is_v4, &[], &mut space.0).ok()?;
        Some(sys::send_single(socket, dest, data, &space.0[..len], flags))
    }
}

/// Sends the message of a slice by a plain socket, if it can go by itself.
#[inline]
pub(crate) fn send(
    socket: BorrowedSocket<'_>,
    msgs: &[SendMsg<'_>],
    flags: SendFlags,
) -> Option<io::Result<usize>> {
    let single = Single::of(msgs)?;
    if let Some(error) = deferred_error::take(socket, Direction::Send) {
        return Some(Err(error));
    }
    if single.options.is_none() {
        return Some(sys::send_plain(socket, single.dest, single.data, flags).map(|()| 1));
    }
    let result = single.send(socket, single.options.segment_size(), flags)?;
    Some(result.error.map_or(Ok(1), Err))
}
