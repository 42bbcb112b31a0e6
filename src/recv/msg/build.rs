//! A message made of the memory that the caller lends.

use std::io::IoSliceMut;

use super::RecvMsg;
use crate::ancillary::{ControlBuf, RecvMeta};
use crate::recv::received::Received;
use crate::recv::space::{Extra, RecvSpace};
use crate::sys::{OwnedSocket, RawAddr, UnixAddrBuf};

impl<'a> RecvMsg<'a> {
    /// A message in one buffer.
    ///
    /// A datagram longer than the buffer is [`truncated`](Self::truncated). 65,535 bytes hold any UDP
    /// datagram and any coalesced message.
    #[must_use]
    #[inline]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        // Windows stores a buffer's length in 32 bits; no message is as long.
        let len = buffer.len().min(u32::MAX as usize);
        Self::with_space(RecvSpace::one(&mut buffer[..len]))
    }

    /// A message in several buffers, filled in order.
    ///
    /// Unix takes up to 1,024 buffers (`IOV_MAX`); with more the receive fails with `EMSGSIZE`, and
    /// nothing is received.
    ///
    /// ```
    /// use mmsg::{BatchSocket, RecvMsg};
    /// use std::io::IoSliceMut;
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// let (mut header, mut payload) = ([0; 2], [0; 1500]);
    /// let mut buffers = [IoSliceMut::new(&mut header), IoSliceMut::new(&mut payload)];
    /// let mut msg = RecvMsg::scatter(&mut buffers);
    /// socket.recv_batch(std::slice::from_mut(&mut msg))?;
    /// assert!(msg.slices().eq([&b"he"[..], b"llo"]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias("iovec", "readv"))]
    #[must_use]
    #[inline]
    pub fn scatter(buffers: &'a mut [IoSliceMut<'a>]) -> Self {
        Self::with_space(RecvSpace::many(buffers))
    }

    #[inline]
    fn with_space(space: RecvSpace<'a>) -> Self {
        Self {
            space,
            source: RawAddr::NONE,
            received: Received::NONE,
            meta: RecvMeta::NONE,
            has_meta: false,
        }
    }

    /// Receives raw control messages into `control`.
    ///
    /// Needed only for control messages that [`RecvMeta`] has no field for.
    ///
    /// ```
    /// use mmsg::control::ControlBuf;
    /// use mmsg::{Ancillary, BatchSocket, RecvMsg};
    /// # let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// # socket.send_to(b"hello", socket.local_addr()?)?;
    /// Ancillary::TIMESTAMP.require(&socket)?;
    /// let (mut buffer, mut control) = ([0; 1500], ControlBuf::new());
    /// let mut msg = RecvMsg::new(&mut buffer).with_control(&mut control);
    /// socket.recv_batch(std::slice::from_mut(&mut msg))?;
    /// for control in msg.control_messages() {
    ///     println!("level {}, type {}", control.level, control.ty);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn with_control(self, control: &'a mut ControlBuf<'_>) -> Self {
        control.clear();
        self.with_extra(|extra| extra.control = Some(control.space_mut()))
    }

    /// Receives the message's descriptors into `fds` (`SCM_RIGHTS`, on a Unix socket). Without `fds`
    /// a receive closes them.
    ///
    /// A receive that fills this message closes the descriptors still in `fds`, then adds the new
    /// ones. [`CONTROL_SPACE`](crate::control::CONTROL_SPACE) bytes of control data hold over 100 descriptors;
    /// the kernel closes any more, and the message is
    /// [`control_truncated`](Self::control_truncated). Descriptors of `SCM_PIDFD` are always closed.
    /// `OwnedSocket` is std's `OwnedFd`; on Windows, which has no such descriptors, its `OwnedSocket`.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use mmsg::control::ControlBuf;
    /// use mmsg::{BatchSocket, RecvMsg, SendMsg};
    /// use std::os::{fd::AsFd, unix::net::UnixDatagram};
    ///
    /// let (near, far) = UnixDatagram::pair()?;
    /// let file = std::fs::File::open("/dev/null")?;
    /// let mut control = ControlBuf::new();
    /// control.push_fds(&[file.as_fd()])?;
    /// near.send_batch(&[SendMsg::new(b"a file").with_control(&control)])?;
    ///
    /// let (mut buffer, mut fds) = ([0; 16], Vec::new());
    /// far.recv_batch(&mut [RecvMsg::new(&mut buffer).with_fds(&mut fds)])?;
    /// let file = std::fs::File::from(fds.pop().expect("one came"));
    /// # drop(file);
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias = "SCM_RIGHTS")]
    #[must_use]
    pub fn with_fds(self, fds: &'a mut Vec<OwnedSocket>) -> Self {
        fds.clear();
        self.with_extra(|extra| extra.fds = Some(fds))
    }

    /// Receives the source into `addr`, which has space for the address of a Unix socket; see
    /// [`unix_addr`](Self::unix_addr). Internet addresses need no such memory.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use mmsg::{BatchSocket, RecvMsg, UnixAddr, UnixAddrBuf};
    /// use std::os::unix::net::UnixDatagram;
    ///
    /// let (near, far) = UnixDatagram::pair()?;
    /// near.send(b"hello")?;
    /// let (mut buffer, mut addr) = ([0; 1500], UnixAddrBuf::new());
    /// let mut msg = RecvMsg::new(&mut buffer).with_unix_addr(&mut addr);
    /// far.recv_batch(std::slice::from_mut(&mut msg))?;
    /// assert_eq!(msg.unix_addr(), Some(UnixAddr::Unnamed));
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn with_unix_addr(self, addr: &'a mut UnixAddrBuf) -> Self {
        addr.space().set(None);
        self.with_extra(|extra| extra.source = Some(addr))
    }

    #[inline]
    fn with_extra(mut self, set: impl FnOnce(&mut Extra<'a>)) -> Self {
        self.space = self.space.with_extra(set);
        self
    }
}
