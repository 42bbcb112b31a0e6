//! Windows: one message a call, by socket2.
//!
//! There is no multi-message call, and no way to receive without waiting on a blocking socket. So
//! a receive takes exactly one message, and a send makes a call for each. Control messages are
//! not carried: sending one is `Unsupported`.

mod recv;

use std::io::{self, IoSlice};
use std::iter;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Range;
pub use std::os::windows::io::AsSocket;
pub(crate) use std::os::windows::io::{BorrowedSocket, OwnedSocket, RawSocket};
use std::time::Duration;

pub(crate) use recv::{RecvHeaders, RecvStorage, Row, SlotIter, SlotIterMut, Slots};
use socket2::{SockAddr, SockRef};

use super::numbers::OptionName;
use super::{
    Backend, CONTROL_SPACE, CallResult, DestRef, Families, GsoBatch, Layout, MAX_BATCH, Memory,
    Rejection, SendFlags, UnixAddr,
};

/// `WSACMSGHDR` (ws2def.h): a `size_t` length, level and type, all aligned to a pointer.
pub(crate) const CONTROL_LAYOUT: Layout = Layout {
    len_bytes: size_of::<usize>(),
    data_offset: (size_of::<usize>() + 8).next_multiple_of(size_of::<usize>()),
    align: size_of::<usize>(),
    big_endian: false,
};
/// `MSG_DONTROUTE` (winsock2.h).
const MSG_DONTROUTE: i32 = 4;
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

/// Control messages are not carried.
pub(crate) const SENDS_CONTROL: bool = false;

/// No memory: a send borrows one message at a time.
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

    pub(crate) fn begin(&mut self, _: bool) -> io::Result<SendHeaders<'_>> {
        Ok(SendHeaders { complete: None })
    }
}

/// One message at most.
pub(crate) struct SendHeaders<'a> {
    complete: Option<(Outgoing<'a>, GsoBatch)>,
}

/// A message to be sent: never more than one datagram, since no socket has segmentation here.
#[derive(Clone, Copy)]
struct Outgoing<'a> {
    dest: Option<SocketAddr>,
    data: Buffers<'a>,
}

#[derive(Clone, Copy)]
enum Buffers<'a> {
    One(&'a [u8]),
    Many(&'a [IoSlice<'a>]),
}

impl<'a> SendHeaders<'a> {
    pub(crate) fn len(&self) -> usize {
        usize::from(self.complete.is_some())
    }

    pub(crate) fn has_capacity(&self, _: usize) -> bool {
        self.complete.is_none()
    }

    pub(crate) fn push(&mut self, dest: DestRef<'_, '_>, data: &'a [u8]) -> OpenHeader<'_, 'a> {
        OpenHeader { headers: self, msg: Outgoing { dest: dest.get(), data: Buffers::One(data) } }
    }

    pub(crate) fn push_gathered(
        &mut self,
        dest: DestRef<'_, '_>,
        data: &'a [IoSlice<'a>],
    ) -> OpenHeader<'_, 'a> {
        OpenHeader { headers: self, msg: Outgoing { dest: dest.get(), data: Buffers::Many(data) } }
    }

    pub(crate) fn batch(&self, _: usize) -> &GsoBatch {
        const NONE: &GsoBatch = &GsoBatch { messages: 0, bytes: 0, segment: 0 };
        self.complete.as_ref().map_or(NONE, |(_, batch)| batch)
    }

    pub(crate) fn send(
        &mut self,
        _: Backend,
        socket: BorrowedSocket<'_>,
        _: Range<usize>,
        flags: SendFlags,
    ) -> CallResult {
        match self.complete.map_or(Ok(()), |(msg, _)| send_one(socket, msg, flags)) {
            Ok(()) => CallResult::moved(self.len()),
            Err(error) => {
                let reported_once = is_reported_once(socket, false, &error);
                CallResult { reported_once, ..CallResult::stopped(0, error) }
            }
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
        flags: SendFlags,
    ) -> (usize, CallResult) {
        (1, self.send(backend, socket, 0..1, flags))
    }

    pub(crate) fn memory(&self, _: usize) -> Memory<'_, iter::Empty<&[u8]>> {
        Memory { name: &[], control: &[], payload: iter::empty() }
    }
}

/// A message that is not complete, and so is not sent.
pub(crate) struct OpenHeader<'h, 'a> {
    headers: &'h mut SendHeaders<'a>,
    msg: Outgoing<'a>,
}

impl<'a> OpenHeader<'_, 'a> {
    pub(crate) fn index(&self) -> usize {
        0
    }

    pub(crate) fn buffers(&self) -> usize {
        0
    }

    pub(crate) fn capacity_left(&self) -> usize {
        0
    }

    pub(crate) fn extend<R>(&mut self, fill: impl FnOnce(&mut Extension<'a>) -> R) -> R {
        fill(&mut Extension(PhantomData))
    }

    /// There are no such addresses.
    pub(crate) fn set_unix_dest(&mut self, _: UnixAddr<'_>) -> io::Result<bool> {
        Ok(false)
    }

    pub(crate) fn set_control(&mut self, _: &'a [u8]) {}

    /// Encodes to reject every option: this platform has none of their numbers.
    pub(crate) fn encode_control<E>(
        &mut self,
        encode: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        encode(&mut [0; CONTROL_SPACE]).map(|_| ())
    }

    pub(crate) fn share_control(&mut self, _: usize) {}

    pub(crate) fn complete(self, batch: GsoBatch, _: bool) {
        self.headers.complete = Some((self.msg, batch));
    }
}

/// Nothing joins a message here.
pub(crate) struct Extension<'a>(PhantomData<&'a [u8]>);

impl<'a> Extension<'a> {
    pub(crate) fn push(&mut self, _: &'a [u8]) {}
}

/// Sends one message of one buffer.
pub(crate) fn send_plain(
    socket: BorrowedSocket<'_>,
    dest: DestRef<'_, '_>,
    data: &[u8],
    flags: SendFlags,
) -> io::Result<()> {
    send_one(socket, Outgoing { dest: dest.get(), data: Buffers::One(data) }, flags)
}

fn send_one(socket: BorrowedSocket<'_>, msg: Outgoing<'_>, flags: SendFlags) -> io::Result<()> {
    if flags.contains(SendFlags::DONT_WAIT) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let native = if flags.contains(SendFlags::DONT_ROUTE) { MSG_DONTROUTE } else { 0 };
    let (socket, dest) = (SockRef::from(&socket), msg.dest.map(SockAddr::from));
    retry(|| match (&dest, msg.data) {
        (None, Buffers::One(data)) => socket.send_with_flags(data, native),
        (None, Buffers::Many(data)) => socket.send_vectored_with_flags(data, native),
        (Some(dest), Buffers::One(data)) => socket.send_to_with_flags(data, dest, native),
        (Some(dest), Buffers::Many(data)) => socket.send_to_vectored_with_flags(data, dest, native),
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

    /// The same for equal addresses, and different for many others.
    pub(crate) fn key(self) -> u64 {
        self.get().map_or(0, |addr| u64::from(addr.port()) + 1)
    }

    /// Some order of addresses.
    pub(crate) fn compare(self, other: RawAddrRef<'_>) -> std::cmp::Ordering {
        self.get().cmp(&other.get())
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

    pub(crate) fn encode(_: UnixAddr<'_>) -> Option<Self> {
        None
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &[]
    }

    pub(crate) fn lend(&self) -> RawAddrRef<'_> {
        self.0.lend()
    }

    pub(crate) fn space(&mut self) -> AddrSpace<'_> {
        self.0.space()
    }
}

pub(crate) fn unix_addr(_: &[u8]) -> Option<UnixAddr<'_>> {
    None
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

pub(crate) fn peer_is_v4(_: BorrowedSocket<'_>) -> bool {
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

/// "Connection refused" is about a datagram sent before.
pub(crate) fn is_reported_once(_: BorrowedSocket<'_>, _: bool, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

pub(crate) fn segmentation_rejected(_: &io::Error) -> Option<Rejection> {
    None
}
