//! One received message in memory that the caller lends, and a receive into it.

mod build;
mod contents;

use std::fmt;
use std::net::SocketAddr;
use std::{ptr, slice};

use crate::ancillary::{ControlSpace, RecvMeta};
use crate::recv::received::Received;
use crate::recv::space::RecvSpace;
use crate::sys::{MAX_BUFFERS, OwnedSocket, RawAddr, RecvHeaders, RecvResult, Row, UnixAddrBuf};

/// A buffer for one message, and after a receive the message in it.
///
/// A call sets the messages that its result counts; the others keep their contents. A `RecvMsg` can
/// be used for any number of calls.
///
/// ```
/// # use mmsg::{BatchSocket, RecvMsg};
/// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// # socket.send_to(b"hello", socket.local_addr()?)?;
/// let mut memory = [[0; 1500]; 8];
/// let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
/// let n = socket.recv_batch(&mut msgs)?;
/// for msg in &msgs[..n] {
///     println!("{} bytes from {:?}", msg.len(), msg.addr());
/// }
/// # assert_eq!(msgs[0].data(), b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A `RecvMsg` borrows its buffer for as long as it lives:
///
/// ```compile_fail,E0505
/// let mut buffer = vec![0; 1500];
/// let msg = mmsg::RecvMsg::new(&mut buffer);
/// drop(buffer);
/// println!("{}", msg.len());
/// ```
///
/// ```compile_fail,E0597
/// let msg = {
///     let mut buffer = [0; 1500];
///     mmsg::RecvMsg::new(&mut buffer)
/// };
/// println!("{}", msg.len());
/// ```
///
/// ```compile_fail,E0502
/// let mut buffer = [0; 1500];
/// let msg = mmsg::RecvMsg::new(&mut buffer);
/// println!("{}", buffer[0]);
/// println!("{}", msg.len());
/// ```
#[doc(alias("msghdr", "mmsghdr", "recvmsg"))]
pub struct RecvMsg<'a> {
    space: RecvSpace<'a>,
    source: RawAddr,
    received: Received,
    /// Valid if `has_meta`.
    meta: RecvMeta,
    has_meta: bool,
}

impl RecvMsg<'_> {
    /// Stores a message as if it had been received: for implementations of
    /// [`BatchSocket`](crate::BatchSocket) that stand in for a socket.
    ///
    /// Copies `data` into the buffers in order. If not all of it fits, the message is
    /// [`truncated`](Self::truncated).
    ///
    /// ```
    /// let mut buffer = [0; 4];
    /// let mut msg = mmsg::RecvMsg::new(&mut buffer);
    /// msg.fill(b"hello", "[::1]:53".parse().ok(), mmsg::RecvMeta::default());
    /// assert_eq!((msg.data(), msg.truncated(), msg.full_len()), (&b"hell"[..], true, Some(5)));
    /// ```
    pub fn fill(&mut self, data: &[u8], source: Option<SocketAddr>, meta: RecvMeta) {
        let mut rest = data;
        let mut copy = |buffer: &mut [u8]| {
            let (now, later) = rest.split_at(rest.len().min(buffer.len()));
            buffer[..now.len()].copy_from_slice(now);
            rest = later;
        };
        self.space.buffers_mut().iter_mut().for_each(|buffer| copy(buffer));
        let result = RecvResult {
            len: data.len(),
            truncated: !rest.is_empty(),
            control_truncated: false,
            source_len: 0,
            control_len: 0,
        };
        self.space.set_control_len(0);
        self.clear_fds();
        self.space.source_mut(&mut self.source).set(source.as_ref());
        (self.meta, self.has_meta) = (meta, true);
        self.received = Received::new(&result, &meta, || self.source());
    }

    /// Lends all that a receive may write to.
    #[inline]
    pub(crate) fn lend_to<'s>(&'s mut self, headers: &mut RecvHeaders<'s>) {
        let source = self.source.space();
        match &mut self.space {
            RecvSpace::Plain(buffer) => headers.push(slice::from_mut(buffer), source, None),
            RecvSpace::Full { buffers, extra } => {
                let source = extra.source.as_deref_mut().map_or(source, UnixAddrBuf::space);
                let control = extra.control.as_deref_mut().map(ControlSpace::bytes_mut);
                if extra.fds.is_some() {
                    headers.accept_fds();
                }
                headers.push(buffers.as_mut(), source, control);
            }
        }
    }

    /// Reads what a receive has left.
    #[inline]
    pub(crate) fn read_back(&mut self, row: Row<'_>) {
        let result = row.result();
        self.space.source_mut(&mut self.source).set_len(result.source_len);
        self.space.set_control_len(result.control_len);
        self.has_meta = result.control_len > 0;
        if self.has_meta {
            self.meta.set(self.space.control().map_or(row.control(), ControlSpace::as_bytes));
        }
        self.received = Received::new(&result, self.meta_ref(), || self.source());
        self.clear_fds();
    }

    /// Closes the descriptors of the message before.
    #[inline]
    pub(crate) fn clear_fds(&mut self) {
        if let Some(fds) = self.space.fds_mut() {
            fds.clear();
        }
    }

    /// Stores a received descriptor, or closes it.
    pub(crate) fn push_fd(&mut self, fd: OwnedSocket) {
        if let Some(fds) = self.space.fds_mut() {
            fds.push(fd);
        }
    }

    /// The address of the first buffer, which identifies the message's slot.
    pub(crate) fn start(&self) -> *const u8 {
        self.space.buffers().first().map_or(ptr::null(), |buffer| buffer.as_ptr())
    }

    /// Whether the system accepts the number of buffers.
    #[inline]
    pub(crate) fn can_be_filled(&self) -> bool {
        self.space.buffers().len() <= MAX_BUFFERS
    }

    /// Capacity of the buffers in bytes.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.space.capacity()
    }

    pub(crate) fn received(&self) -> Received {
        self.received
    }

    /// Everything about the message but its payload and its source.
    pub(crate) fn known(&self) -> (RecvResult, RecvMeta) {
        let Received { reported, truncation, .. } = self.received;
        let result = RecvResult {
            len: reported,
            truncated: truncation.data,
            control_truncated: truncation.control,
            source_len: 0,
            control_len: 0,
        };
        (result, *self.meta_ref())
    }

    #[inline]
    fn meta_ref(&self) -> &RecvMeta {
        if self.has_meta { &self.meta } else { &RecvMeta::NONE }
    }
}

impl fmt::Debug for RecvMsg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvMsg")
            .field("capacity", &self.capacity())
            .field("addr", &self.source())
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}
