//! One message to be sent, into its header.

use std::borrow::Borrow;
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

/// Points a header at a message's destination: at a copy, or at the message's own `sockaddr`.
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

/// Points a header at a message's destination and its one buffer. False if the message is not plain:
/// then only the destination is wired.
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

/// Wires messages that are not plain, and encodes their control data.
pub(super) struct ControlWriter<'a, 's> {
    socket: BorrowedFd<'s>,
    controls: &'a mut [Control],
    /// The address of the first header.
    first: *const Header,
    /// The first message that cannot be sent, and why. Those after it are wired in vain, which costs
    /// plain messages nothing.
    pub(super) unsendable: Option<(usize, Unencodable)>,
    /// The control data written last: consecutive messages usually have the same options.
    last: Option<LastControl>,
}

/// Encoded options in an earlier header's control data, at which later headers may point, since the
/// kernel only reads it.
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
        Self { socket, controls, first, unsendable: None, last: None }
    }

    /// Points a header at the message's buffers and control data.
    ///
    /// Cold, and by value, so that the loop over plain messages keeps its registers.
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
        match &self.last {
            Some(last) if last.is(meta, family) && control.is_empty() => {
                hdr.msg_control = last.control;
                hdr.msg_controllen = last.len as _;
            }
            _ => self.write(header, msg.dest(), control, *meta),
        }
    }

    /// Encodes a message's options into its header's own control data.
    #[inline(never)]
    fn write(&mut self, header: &mut Header, dest: DestRef<'_, '_>, raw: &[u8], meta: SendMeta) {
        // A counter would cost plain messages, too.
        let i = (ptr::from_ref(header).addr() - self.first.addr()) / size_of::<Header>();
        let hdr = &mut header.msg_hdr;
        let wired = wire_control(hdr, &mut self.controls[i], dest, raw, meta, self.socket);
        if let Err(kind) = wired {
            self.unsendable = self.unsendable.or(Some((i, kind)));
        } else if raw.is_empty() {
            let (control, len) = (hdr.msg_control, hdr.msg_controllen as usize);
            self.last = Some(LastControl { meta, family: family(dest), control, len });
        }
    }
}

impl LastControl {
    #[inline(always)]
    fn is(&self, meta: &SendMeta, family: Option<bool>) -> bool {
        self.family == family && self.meta == *meta
    }
}

/// Whether a destination takes IPv4's control messages; `None` for a connected socket's peer.
#[inline(always)]
fn family(dest: DestRef<'_, '_>) -> Option<bool> {
    match dest {
        DestRef::Addr(None) => None,
        DestRef::Addr(Some(SocketAddr::V4(_))) => Some(true),
        _ => dest.get().map(|dest| dest.ip().to_canonical().is_ipv4()),
    }
}

/// Points a header at one buffer or several. Cold, so that the loop over plain messages keeps its
/// registers.
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

/// Points a header at a message's control messages: the caller's, or if the message has options, those
/// and the caller's together in the header's own control data.
#[cold]
#[inline(never)]
pub(super) fn wire_control(
    hdr: &mut libc::msghdr,
    own: &mut Control,
    dest: DestRef<'_, '_>,
    control: &[u8],
    meta: SendMeta,
    socket: BorrowedFd<'_>,
) -> Result<(), Unencodable> {
    let (start, len) = if meta == SendMeta::new() {
        (control.as_ptr().cast_mut(), control.len())
    } else {
        let written = meta.encode(is_v4(dest, socket), control, &mut own.0);
        (own.0.as_mut_ptr(), written?)
    };
    // Some systems check the pointer alone, and an empty slice's pointer is arbitrary.
    hdr.msg_control = if len == 0 { ptr::null_mut() } else { start.cast() };
    hdr.msg_controllen = len as _;
    Ok(())
}

/// Whether a message goes to an IPv4 address, or to one mapped to IPv6.
fn is_v4(dest: DestRef<'_, '_>, socket: BorrowedFd<'_>) -> bool {
    family(dest).unwrap_or_else(|| peer_is_v4(socket))
}
