//! Windows: one message a call, by socket2.
//!
//! There is no multi-message call, and no way to receive without waiting on a blocking socket. So
//! a receive takes exactly one message, and a send makes a call for each. Control messages are
//! not carried: sending one is `Unsupported`.

mod recv;

use std::borrow::Borrow;
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::ops::Range;
pub use std::os::windows::io::AsSocket;
pub(crate) use std::os::windows::io::{BorrowedSocket, OwnedSocket, RawSocket};
use std::time::Duration;

pub(crate) use recv::{RecvHeaders, RecvStorage, Row, SlotIter, SlotIterMut, Slots};
use socket2::{SockAddr, SockRef};

use super::numbers::OptionName;
use super::{
    Backend, CONTROL_SPACE, CallResult, Families, GsoBatch, Layout, MAX_BATCH, Memory, Rejection,
    UnixAddr,
};
use crate::ancillary::Unencodable;
use crate::offload::coalesce::{Limits, Source};
use crate::send::msg::{Content, SendBuffers, SendMsg};
use crate::send::outgoing::Outgoing;

/// `WSACMSGHDR` (ws2def.h): a `size_t` length, level and type, all aligned to a pointer.
pub(crate) const CONTROL_LAYOUT: Layout = Layout {
    len_bytes: size_of::<usize>(),
    data_offset: (size_of::<usize>() + 8).next_multiple_of(size_of::<usize>()),
    align: size_of::<usize>(),
    big_endian: false,
};
/// Bytes of the microseconds in a `struct timeval` (winsock2.h): a C long.
pub(crate) const MICROSECONDS_LEN: usize = 4;

/// Calls a macro for each type that is a datagram socket and owns it.
macro_rules! for_datagram_sockets {
    ($each:ident) => {
        $each!([] std::net::UdpSocket);
        $each!([] std::os::windows::io::OwnedSocket);
        $each!([] socket2::Socket);
        #[cfg(feature = "mio")]
        $each!([] mio::net::UdpSocket);
    };
}
pub(crate) use for_datagram_sockets;

/// Implements `AsSocket` for a type that has a socket.
macro_rules! lend_socket {
    ([$($generics:tt)*] $type:ty, |$this:ident| $socket:expr) => {
        impl<$($generics)*> std::os::windows::io::AsSocket for $type {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                let $this = self;
                $socket
            }
        }
    };
}
pub(crate) use lend_socket;

/// Borrows the socket.
pub(crate) fn borrow(socket: &(impl AsSocket + ?Sized)) -> BorrowedSocket<'_> {
    socket.as_socket()
}

/// There are no headers, only the number of messages that a call may send.
#[derive(Debug)]
pub(crate) struct SendStorage {
    capacity: usize,
}

impl SendStorage {
    pub(crate) const fn new() -> Self {
        Self { capacity: 0 }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn reserve(&mut self, n: usize) -> io::Result<()> {
        if n > self.capacity {
            self.capacity = n.next_power_of_two().min(MAX_BATCH);
        }
        Ok(())
    }

    pub(crate) fn shrink_to(&mut self, n: usize) {
        self.capacity = self.capacity.min(n);
    }

    pub(crate) fn send<'m, M: Outgoing<'m>>(
        &mut self,
        _: Backend,
        socket: BorrowedSocket<'_>,
        msgs: impl Iterator<Item = M>,
    ) -> (usize, CallResult) {
        let mut sent = 0;
        for msg in msgs.take(self.capacity) {
            if let Err(error) = send_one(socket, &msg) {
                return (sent + 1, send_stopped(sent, error));
            }
            sent += 1;
        }
        (sent, CallResult::moved(sent))
    }

    pub(crate) fn send_from<'m>(
        &mut self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        msgs: &mut dyn Iterator<Item = SendMsg<'m>>,
    ) -> (usize, CallResult) {
        self.send(backend, socket, msgs)
    }

    /// Takes one message: there are no headers to keep more.
    pub(crate) fn wire_batches<'m, M: Outgoing<'m>>(
        &mut self,
        _: BorrowedSocket<'_>,
        msgs: &mut Source<impl Iterator<Item = M>>,
        _: Limits,
    ) -> io::Result<WiredBatches<'m>> {
        let msg = msgs.take().map(|msg| msg.to_msg());
        if msg.is_none() {
            msgs.put_back(None);
        }
        let bytes = msg.map_or(0, |msg| msg.len());
        Ok(WiredBatches { msg, batch: GsoBatch { messages: 1, bytes, segment: bytes } })
    }
}

/// A message to be sent, and never more than one datagram: no socket has segmentation here.
pub(crate) struct WiredBatches<'m> {
    msg: Option<SendMsg<'m>>,
    batch: GsoBatch,
}

impl WiredBatches<'_> {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.msg.is_some())
    }

    pub(crate) fn batch(&self, _: usize) -> &GsoBatch {
        &self.batch
    }

    pub(crate) fn unsendable(&self) -> Option<Unencodable> {
        None
    }

    pub(crate) fn send(
        &mut self,
        _: Backend,
        socket: BorrowedSocket<'_>,
        _: Range<usize>,
    ) -> CallResult {
        match self.msg.map_or(Ok(()), |msg| send_one(socket, &msg)) {
            Ok(()) => CallResult::moved(1),
            Err(error) => send_stopped(0, error),
        }
    }

    pub(crate) fn reserve_segments(&mut self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn send_segments(
        &mut self,
        backend: Backend,
        socket: BorrowedSocket<'_>,
        _: usize,
        _: usize,
    ) -> (usize, CallResult) {
        (1, self.send(backend, socket, 0..1))
    }

    pub(crate) fn memory(&self, _: usize) -> Memory<'_, iter::Empty<&[u8]>> {
        Memory { name: &[], control: &[], payload: iter::empty() }
    }
}

/// Sends a message of these bytes, to `dest` if there is one.
pub(crate) fn send_plain(
    socket: BorrowedSocket<'_>,
    dest: Option<&SocketAddr>,
    data: &[u8],
) -> io::Result<()> {
    let msg = SendMsg::new(data);
    send_one(socket, &dest.map_or(msg, |dest| msg.with_dest(*dest)))
}

/// A send that ended before message number `count`.
fn send_stopped(count: usize, error: io::Error) -> CallResult {
    // "Connection refused" is about a datagram sent before.
    let reported_once = error.kind() == io::ErrorKind::ConnectionRefused;
    CallResult { reported_once, ..CallResult::stopped(count, error) }
}

fn send_one<'m>(socket: BorrowedSocket<'_>, msg: &impl Outgoing<'m>) -> io::Result<()> {
    let buffers = match (msg.plain(), *msg.content().borrow()) {
        (Some(data), _) | (None, Content::Plain(data)) => SendBuffers::One(data),
        (None, Content::Full { buffers, control, meta }) => {
            // Rejects every option: this platform has none of their numbers.
            let v4 = msg.dest().get().is_some_and(|dest| dest.ip().to_canonical().is_ipv4());
            let encoded = meta.encode(v4, &[], &mut [0; CONTROL_SPACE]);
            encoded.map_err(|error| error.after(0))?;
            if !control.is_empty() {
                let reason = "this platform sends no control messages";
                return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
            }
            buffers
        }
    };
    let dest = msg.dest().get();
    let (socket, dest) = (SockRef::from(&socket), dest.map(SockAddr::from));
    retry(|| match (&dest, buffers) {
        (None, SendBuffers::One(data)) => socket.send(data),
        (None, SendBuffers::Many(data)) => socket.send_vectored(data),
        (Some(dest), SendBuffers::One(data)) => socket.send_to(data, dest),
        (Some(dest), SendBuffers::Many(data)) => socket.send_to_vectored(data, dest),
    })?;
    Ok(())
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// An address, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawAddr(Option<SocketAddr>);

/// A borrowed [`RawAddr`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawAddrRef<'a>(&'a RawAddr);

impl RawAddr {
    pub(crate) const NONE: Self = Self(None);

    pub(crate) fn new(addr: Option<&SocketAddr>) -> Self {
        Self(addr.copied())
    }

    pub(crate) fn get(&self) -> Option<SocketAddr> {
        self.0
    }

    pub(crate) fn lend(&self) -> RawAddrRef<'_> {
        RawAddrRef(self)
    }

    pub(crate) fn space(&mut self) -> AddrSpace<'_> {
        AddrSpace(self)
    }
}

/// Memory for an address.
pub(crate) struct AddrSpace<'a>(&'a mut RawAddr);

impl AddrSpace<'_> {
    pub(crate) fn set(&mut self, addr: Option<&SocketAddr>) {
        *self.0 = RawAddr::new(addr);
    }

    /// The receive has written the address.
    pub(crate) fn set_len(&mut self, _: usize) {}
}

impl RawAddrRef<'_> {
    pub(crate) fn get(self) -> Option<SocketAddr> {
        self.0.get()
    }

    pub(crate) fn unix(self) -> Option<UnixAddr<'static>> {
        None
    }

    #[allow(dead_code)] // Compared only by GSO.
    pub(crate) fn same(self, other: RawAddrRef<'_>) -> bool {
        self.get() == other.get()
    }
}

/// Memory for a source. No datagram of a Unix socket comes here.
#[derive(Clone, Debug)]
pub struct UnixAddrBuf(RawAddr);

impl UnixAddrBuf {
    /// Empty.
    #[must_use]
    pub const fn new() -> Self {
        Self(RawAddr::NONE)
    }

    /// `None`: no datagram has a Unix address here.
    #[must_use]
    pub fn addr(&self) -> Option<UnixAddr<'_>> {
        None
    }

    pub(crate) fn lend(&self) -> RawAddrRef<'_> {
        self.0.lend()
    }

    pub(crate) fn space(&mut self) -> AddrSpace<'_> {
        self.0.space()
    }
}

impl Default for UnixAddrBuf {
    fn default() -> Self {
        Self::new()
    }
}

pub(crate) fn raw(socket: BorrowedSocket<'_>) -> RawSocket {
    use std::os::windows::io::AsRawSocket;
    socket.as_raw_socket()
}

/// There is none.
pub(crate) fn socket_cookie(_: BorrowedSocket<'_>) -> Option<u64> {
    None
}

/// No option of [`super::numbers`] is for Windows, so that nobody asks.
pub(crate) fn families(_: BorrowedSocket<'_>) -> io::Result<Families> {
    Ok(Families { v4: false, v6: false })
}

pub(crate) fn has_error_queue(_: BorrowedSocket<'_>) -> io::Result<bool> {
    Ok(false)
}

pub(crate) fn has_transmit_times(_: BorrowedSocket<'_>) -> io::Result<bool> {
    Ok(false)
}

pub(crate) fn option(_: BorrowedSocket<'_>, _: Option<OptionName>) -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn set_option(_: BorrowedSocket<'_>, _: Option<OptionName>, _: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn clock_time(_: i32) -> io::Result<Duration> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn set_option_bytes(
    _: BorrowedSocket<'_>,
    _: Option<OptionName>,
    _: &[u8],
) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn set_transmit_clock(_: BorrowedSocket<'_>, _: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn is_about_the_option(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// No control message carries an address.
pub(crate) fn socket_addr(_: &[u8]) -> Option<SocketAddr> {
    None
}

/// No message has a TOS here.
pub(crate) fn rejects_tos(_: BorrowedSocket<'_>) -> bool {
    false
}

/// Asked only where there is GSO.
pub(crate) fn kernel_release() -> Option<String> {
    None
}

/// There is none.
pub(crate) fn has_segmentation(_: BorrowedSocket<'_>) -> bool {
    false
}

pub(crate) fn has_arrivals(_: BorrowedSocket<'_>) -> bool {
    false
}

pub(crate) fn peer(_: BorrowedSocket<'_>) -> Option<SockAddr> {
    None
}

pub(crate) fn conflicting_option(_: BorrowedSocket<'_>) -> Option<(&'static str, i32)> {
    None
}

pub(crate) fn reports_send_times(_: BorrowedSocket<'_>) -> bool {
    false
}

pub(crate) fn segmentation_rejected(_: &io::Error) -> Option<Rejection> {
    None
}
