//! Windows: one message a call, by socket2.
//!
//! There is no multi-message call, and no way to receive without waiting on a blocking socket. So
//! a receive takes exactly one message, and a send makes a call for each. Control messages are
//! not carried: sending one is `Unsupported`.

#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::io;
use std::iter;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::ops::Range;
use std::option;
pub(crate) use std::os::windows::io::{AsSocket, BorrowedSocket, OwnedSocket, RawSocket};
use std::time::Duration;

use socket2::{MaybeUninitSlice, SockAddr, SockRef};

use super::numbers::OptionName;
use super::{
    Backend, CONTROL_SPACE, CallResult, Families, GsoBatch, Layout, MAX_BATCH, Memory, Rejection,
};
use crate::ancillary::Unencodable;
use crate::offload::coalesce::{Limits, Source};
use crate::recv::datagram::{Datagram, Message, Meta, Received, Truncation};
use crate::recv::flags::RecvFlags;
use crate::recv::msg::RecvMsg;
use crate::recv::scattered::Parts;
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
/// `MSG_PEEK` (winsock2.h).
const MSG_PEEK: i32 = 2;

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

/// There are no headers, only the number of messages that a call may receive.
#[derive(Debug)]
pub(crate) struct RecvStorage {
    capacity: usize,
}

impl RecvStorage {
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

    pub(crate) fn recv(
        &mut self,
        _: Backend,
        socket: BorrowedSocket<'_>,
        msgs: &mut [RecvMsg<'_>],
        flags: RecvFlags,
    ) -> CallResult {
        let Some(msg) = msgs.first_mut() else { return CallResult::moved(0) };
        let received = match msg.plain_space() {
            Some((buffer, _)) => recv_one(socket, &mut [uninit(buffer)], flags),
            None => {
                let (buffers, ..) = msg.full_space();
                // The one allocation of this platform: socket2 wants slices of its own.
                let mut slices: Vec<_> = buffers.iter_mut().map(|buffer| uninit(buffer)).collect();
                recv_one(socket, &mut slices, flags)
            }
        };
        match received {
            Ok((received, source)) => {
                msg.read_control(&[]);
                *msg.source_mut() = source;
                msg.set_received(received);
                CallResult::moved(1)
            }
            Err(error) => CallResult::stopped(0, error),
        }
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

fn recv_one(
    socket: BorrowedSocket<'_>,
    slices: &mut [MaybeUninitSlice<'_>],
    flags: RecvFlags,
) -> io::Result<(Received, RawAddr)> {
    if flags.contains(RecvFlags::DONT_WAIT) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let native = if flags.contains(RecvFlags::PEEK) { MSG_PEEK } else { 0 };
    let socket = SockRef::from(&socket);
    let (len, flags, addr) = retry(|| socket.recv_from_vectored_with_flags(slices, native))?;
    let truncation = Truncation { data: flags.is_truncated(), ..Truncation::NONE };
    let received = Received { reported: len, segment_size: None, truncation, has_meta: false };
    Ok((received, RawAddr(addr.as_socket())))
}

/// The same bytes as a slice that may be left uninitialised.
fn uninit(buffer: &mut [u8]) -> MaybeUninitSlice<'_> {
    // SAFETY: the same layout. socket2 promises of its receive calls that they write no
    // uninitialised bytes into the buffers, so the `&mut [u8]` stays one.
    MaybeUninitSlice::new(unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) })
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
}

impl RawAddrRef<'_> {
    pub(crate) fn get(self) -> Option<SocketAddr> {
        self.0.get()
    }

    #[allow(dead_code)] // Compared only by GSO.
    pub(crate) fn same(self, other: RawAddrRef<'_>) -> bool {
        self.get() == other.get()
    }
}

/// What [`Slots::singles`] goes through.
pub(crate) type Singles<'a> = option::IntoIter<Datagram<'a>>;

/// Payload memory, and the messages received into it.
#[derive(Debug)]
pub(crate) struct Slots {
    payload: Vec<u8>,
    received: Vec<(Received, RawAddr)>,
    slot_len: usize,
}

impl Slots {
    /// # Errors
    ///
    /// `OutOfMemory`.
    pub(crate) fn try_new(slots: usize, slot_len: usize) -> io::Result<Self> {
        let (mut payload, mut received) = (Vec::new(), Vec::new());
        payload.try_reserve_exact(slots * slot_len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        received.try_reserve_exact(slots).map_err(|_| io::ErrorKind::OutOfMemory)?;
        payload.resize(slots * slot_len, 0);
        received.resize(slots, (Received::NONE, RawAddr::NONE));
        Ok(Self { payload, received, slot_len })
    }

    /// No descriptor comes with a message here.
    pub(crate) fn accept_fds(&mut self, _: bool) {}

    pub(crate) fn accepts_fds(&self) -> bool {
        false
    }

    pub(crate) fn take_fds(&mut self, _: usize) -> impl Iterator<Item = OwnedSocket> {
        [].into_iter()
    }

    pub(crate) fn add_fds(&mut self, _: usize, _: impl Iterator<Item = OwnedSocket>) {}

    pub(crate) fn close_fds(&mut self) {}

    pub(crate) fn recv(
        &mut self,
        _: Backend,
        socket: BorrowedSocket<'_>,
        range: Range<usize>,
        flags: RecvFlags,
    ) -> CallResult {
        let i = range.start;
        let slot = &mut self.payload[i * self.slot_len..][..self.slot_len];
        match recv_one(socket, &mut [uninit(slot)], flags) {
            Ok(received) => {
                self.received[i] = received;
                CallResult::moved(1)
            }
            Err(error) => CallResult::stopped(0, error),
        }
    }

    /// The datagrams among the first `n` messages, if all of them are whole.
    pub(crate) fn singles(&self, n: usize) -> Option<Singles<'_>> {
        // A receive brings one message or none.
        let datagram = (n > 0).then(|| {
            let (received, source) = &self.received[0];
            let data = &self.payload[..self.slot_len.min(received.reported)];
            (!received.truncation.data)
                .then(|| Datagram::whole(data, source.lend(), Meta::new(None, &[])))
        });
        match datagram {
            None => Some(None.into_iter()),
            Some(whole) => whole.map(|datagram| Some(datagram).into_iter()),
        }
    }

    pub(crate) fn message(&self, i: usize) -> Message<'_> {
        let (received, source) = &self.received[i];
        let data = Parts::one(self.payload(i, received.reported));
        Message::new(data, source.lend(), *received, Meta::new(None, &[]))
    }

    pub(crate) fn received_in(&self, i: usize) -> (Received, usize) {
        let (received, _) = self.received[i];
        (received, received.reported.min(self.slot_len))
    }

    /// The first `len` bytes of slot `i`, or all if it has fewer.
    pub(crate) fn payload(&self, i: usize, len: usize) -> &[u8] {
        &self.payload[i * self.slot_len..][..self.slot_len.min(len)]
    }

    pub(crate) fn slot_len(&self) -> usize {
        self.slot_len
    }

    pub(crate) fn buffers(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.payload.chunks_exact_mut(self.slot_len)
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
