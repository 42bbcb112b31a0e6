//! One message to be sent, into its header.

use std::borrow::Borrow;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr;

use libc::iovec;

use crate::ancillary::{SendMeta, Unencodable};
use crate::send::msg::{Content, SendBuffers};
use crate::send::outgoing::{DestRef, Outgoing};
use crate::sys::unix::addr::{self, Name};
use crate::sys::unix::header::{Control, Header, Row};
use crate::sys::unix::socket::peer_is_v4;

/// Points a header at a message's destination: a copy of it, or itself where it is ready.
#[inline]
pub(super) fn wire_dest(hdr: &mut libc::msghdr, copy: &mut Name, dest: DestRef<'_, '_>) {
    let name = match dest {
        DestRef::Addr(addr) => addr.map(|addr| {
            let len = addr::encode(addr, copy);
            (&*copy, len)
        }),
        DestRef::Ready(dest) => dest.parts(),
    };
    (hdr.msg_name, hdr.msg_namelen) = match name {
        Some((name, len)) => (ptr::from_ref(name).cast_mut().cast(), len as _),
        None => (ptr::null_mut(), 0),
    };
}

/// Points a header at a message's address and its one buffer. False if there is more to it than
/// that: then the address alone is done.
#[inline]
pub(super) fn wire_plain<'m>(header: &mut Header, row: &mut Row, msg: &impl Outgoing<'m>) -> bool {
    let (hdr, iovec) = (&mut header.msg_hdr, &mut row.iovec);
    wire_dest(hdr, &mut row.name, msg.dest());
    let Some(data) = msg.plain() else { return false };
    iovec.iov_base = data.as_ptr().cast_mut().cast();
    iovec.iov_len = data.len();
    hdr.msg_iov = iovec;
    hdr.msg_iovlen = 1;
    hdr.msg_control = ptr::null_mut();
    hdr.msg_controllen = 0;
    true
}

/// Wires what is more than plain.
pub(super) struct ControlWriter<'a, 's> {
    socket: BorrowedFd<'s>,
    controls: &'a mut [Control],
    /// The address of the first header.
    first: *const Header,
    /// The first message that cannot be sent, and why. Those after it are wired for nothing: what
    /// plain messages cost matters more.
    pub(super) unsendable: Option<(usize, io::ErrorKind)>,
    /// Wishes that are written out already: one message after the other has the same, mostly.
    written: Option<LastControl>,
}

/// Wishes as control messages in the room of an earlier header, which later ones may point at, too:
/// the kernel only reads them.
struct LastControl {
    meta: SendMeta,
    family: Option<bool>,
    control: *mut libc::c_void,
    len: usize,
}

impl<'a, 's> ControlWriter<'a, 's> {
    pub(super) fn new(
        socket: BorrowedFd<'s>,
        controls: &'a mut [Control],
        first: *const Header,
    ) -> Self {
        Self { socket, controls, first, unsendable: None, written: None }
    }

    /// Points a header at the message's buffers and control data. Takes the message as it comes: one
    /// that is lent lives in memory, not in registers, also where it turns out to be plain.
    ///
    /// Said to be cold so that the loop over plain messages has the registers to itself: that is an
    /// instruction a message there, and none here.
    #[cold]
    #[inline(never)]
    pub(super) fn wire<'m>(&mut self, header: &mut Header, row: &mut Row, msg: impl Outgoing<'m>) {
        let content = msg.content();
        let Content::Full { buffers, control, meta } = content.borrow() else { return };
        let hdr = &mut header.msg_hdr;
        match buffers {
            SendBuffers::One(data) => {
                row.iovec.iov_base = data.as_ptr().cast_mut().cast();
                row.iovec.iov_len = data.len();
                hdr.msg_iov = &mut row.iovec;
                hdr.msg_iovlen = 1;
            }
            SendBuffers::Many(_) => wire_buffers(hdr, &mut row.iovec, *buffers),
        }
        let family = family(msg.dest());
        match &self.written {
            Some(written) if written.is(meta, family) && control.is_empty() => {
                hdr.msg_control = written.control;
                hdr.msg_controllen = written.len as _;
            }
            _ => self.write(header, msg.dest(), control, *meta),
        }
    }

    /// Writes a message's wishes into its header's own room.
    #[inline(never)]
    fn write(&mut self, header: &mut Header, dest: DestRef<'_, '_>, raw: &[u8], meta: SendMeta) {
        // Counting would cost plain messages, too.
        let i = (ptr::from_ref(header).addr() - self.first.addr()) / size_of::<Header>();
        let hdr = &mut header.msg_hdr;
        let wired = wire_control(hdr, &mut self.controls[i], dest, raw, meta, self.socket);
        if let Err(kind) = wired {
            self.unsendable = self.unsendable.or(Some((i, kind)));
        } else if raw.is_empty() {
            let (control, len) = (hdr.msg_control, hdr.msg_controllen as usize);
            self.written = Some(LastControl { meta, family: family(dest), control, len });
        }
    }
}

impl LastControl {
    #[inline(always)]
    fn is(&self, meta: &SendMeta, family: Option<bool>) -> bool {
        self.family == family && self.meta == *meta
    }
}

/// Whether a destination has its wishes by IPv4's control messages; `None` for the socket's peer,
/// of whom the system knows.
#[inline(always)]
fn family(dest: DestRef<'_, '_>) -> Option<bool> {
    match dest {
        DestRef::Addr(None) => None,
        DestRef::Addr(Some(SocketAddr::V4(_))) => Some(true),
        _ => dest.get().map(|dest| dest.ip().to_canonical().is_ipv4()),
    }
}

/// Points a header at buffers of any kind. Called cold, so that plain messages have the
/// processor's registers to themselves.
#[cold]
#[inline(never)]
pub(super) fn wire_buffers(hdr: &mut libc::msghdr, iovec: &mut iovec, buffers: SendBuffers<'_>) {
    match buffers {
        SendBuffers::One(data) => {
            iovec.iov_base = data.as_ptr().cast_mut().cast();
            iovec.iov_len = data.len();
            hdr.msg_iov = iovec;
            hdr.msg_iovlen = 1;
        }
        SendBuffers::Many(data) => {
            // IoSlice is an iovec by its documentation.
            hdr.msg_iov = data.as_ptr().cast_mut().cast();
            hdr.msg_iovlen = data.len() as _;
        }
    }
}

/// Points a header at a message's control messages: the ones that the caller has made, or those
/// and the message's wishes together, written into the header's own room.
#[cold]
#[inline(never)]
pub(super) fn wire_control(
    hdr: &mut libc::msghdr,
    own: &mut Control,
    dest: DestRef<'_, '_>,
    control: &[u8],
    meta: SendMeta,
    socket: BorrowedFd<'_>,
) -> Result<(), io::ErrorKind> {
    let (start, len) = if meta == SendMeta::new() {
        (control.as_ptr().cast_mut(), control.len())
    } else {
        let written = meta.encode(is_v4(dest, socket), control, &mut own.0);
        (own.0.as_mut_ptr(), written.map_err(Unencodable::kind)?)
    };
    // Some systems look at the pointer alone, and a slice of no bytes points anywhere.
    hdr.msg_control = if len == 0 { ptr::null_mut() } else { start.cast() };
    hdr.msg_controllen = len as _;
    Ok(())
}

/// Whether a message goes to an IPv4 address, or to one mapped to IPv6.
fn is_v4(dest: DestRef<'_, '_>, socket: BorrowedFd<'_>) -> bool {
    family(dest).unwrap_or_else(|| peer_is_v4(socket))
}
