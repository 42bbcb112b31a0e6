//! A buffer for raw control messages.

use std::fmt;
use std::io;
use std::marker::PhantomData;

use super::SendMeta;
use crate::sys::numbers::{self, CmsgType};
use crate::sys::{self, BorrowedSocket, CONTROL_SPACE, ControlMessages, Layout, control_message};

/// A buffer of control messages, [`CONTROL_SPACE`] bytes, 8-byte aligned, without heap memory.
///
/// For a send, fill it with [`push`](Self::push) and pass it to
/// [`SendMsg::with_control`](crate::SendMsg::with_control). For a receive, pass it to
/// [`RecvMsg::with_control`](crate::RecvMsg::with_control); after the call it holds the kernel's
/// messages.
///
/// ```
/// use mmsg::control::ControlBuf;
///
/// let mut control = ControlBuf::new();
/// control.push(1, 2, b"payload")?;
/// let message = control.messages().next().expect("one was pushed");
/// assert_eq!((message.level, message.ty, message.data), (1, 2, &b"payload"[..]));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The buffer borrows descriptors to be sent over a Unix socket:
///
/// ```compile_fail,E0505
/// use std::os::fd::AsFd;
/// let file = std::fs::File::open("/dev/null")?;
/// let mut control = mmsg::control::ControlBuf::new();
/// control.push_fds(&[file.as_fd()])?;
/// drop(file);
/// println!("{control:?}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias("cmsghdr", "cmsg", "msg_control"))]
#[derive(Clone)]
pub struct ControlBuf<'fd> {
    space: ControlSpace,
    meta: SendMeta,
    /// The descriptors whose numbers are in `space`.
    fds: PhantomData<BorrowedSocket<'fd>>,
}

impl<'fd> ControlBuf<'fd> {
    /// Empty.
    #[must_use]
    pub const fn new() -> Self {
        let space = ControlSpace { bytes: [0; CONTROL_SPACE], len: 0 };
        Self { space, meta: SendMeta::new(), fds: PhantomData }
    }

    /// Sets options for a message that is sent with these control messages. They are encoded before the
    /// control messages, and both together take at most [`CONTROL_SPACE`].
    ///
    /// ```
    /// use mmsg::SendMeta;
    /// use mmsg::control::ControlBuf;
    ///
    /// let mut control = ControlBuf::new().with_meta(SendMeta::new().with_hop_limit(1));
    /// control.push(1, 2, b"payload")?;
    /// assert_eq!((control.meta().hop_limit, control.messages().count()), (Some(1), 1));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub const fn with_meta(mut self, meta: SendMeta) -> Self {
        self.meta = meta;
        self
    }

    /// The options set by [`with_meta`](Self::with_meta). A receive leaves them as they are.
    #[must_use]
    pub const fn meta(&self) -> SendMeta {
        self.meta
    }

    /// Appends a control message: `level` (`cmsg_level`), `ty` (`cmsg_type`) and its payload.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, and nothing is written, if it does not fit in the rest of [`CONTROL_SPACE`], or
    /// for `SCM_RIGHTS`: use [`push_fds`](Self::push_fds), which borrows the descriptors.
    pub fn push(&mut self, level: i32, ty: i32, payload: &[u8]) -> io::Result<()> {
        if Some((level, ty)) == numbers::RIGHTS {
            let reason = "descriptors are pushed by ControlBuf::push_fds";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        self.space.push((level, ty), payload)
    }

    /// Appends descriptors, of which the receiver on a Unix socket gets duplicates (`SCM_RIGHTS`). A
    /// message may have one such list. They are std's `BorrowedFd`s, as `as_fd` returns them; the
    /// signature has the name for all platforms.
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// use mmsg::{BatchSocket, SendMsg, control::ControlBuf};
    /// use std::{fs::File, os::fd::AsFd, os::unix::net::UnixDatagram};
    ///
    /// let (near, far) = UnixDatagram::pair()?;
    /// let files = [File::open("/dev/null")?, File::open("/dev/zero")?];
    /// let mut control = ControlBuf::new();
    /// control.push_fds(&files.each_ref().map(|file| file.as_fd()))?;
    /// near.send_batch(&[SendMsg::new(b"two files").with_control(&control)])?;
    /// # assert_eq!(far.recv(&mut [0; 16])?, 9);
    /// # }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// A [`SendQueue`](crate::SendQueue) rejects messages with descriptors, since it outlives the
    /// borrow.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if they do not fit in the rest of [`CONTROL_SPACE`], `Unsupported` on Windows;
    /// nothing is written.
    #[doc(alias = "SCM_RIGHTS")]
    pub fn push_fds(&mut self, fds: &[BorrowedSocket<'fd>]) -> io::Result<()> {
        let rights = numbers::RIGHTS.ok_or_else(|| {
            let reason = "this platform has no SCM_RIGHTS";
            io::Error::new(io::ErrorKind::Unsupported, reason)
        })?;
        let mut numbers = [0; CONTROL_SPACE];
        let mut len = 0;
        for fd in fds {
            let number = sys::raw(*fd).to_ne_bytes();
            let space = numbers.get_mut(len..len + number.len());
            let space = space.ok_or_else(|| no_space(size_of_val(&number) * fds.len()))?;
            space.copy_from_slice(&number);
            len += number.len();
        }
        self.space.push(rights, &numbers[..len])
    }

    /// Removes all messages and options.
    pub fn clear(&mut self) {
        self.space.len = 0;
        self.meta = SendMeta::new();
    }

    /// The messages, in order.
    ///
    /// The numbers of received descriptors read as -1 (see
    /// [`RecvMsg::with_fds`](crate::RecvMsg::with_fds)).
    #[must_use]
    pub fn messages(&self) -> ControlMessages<'_> {
        self.space.messages()
    }

    /// The messages as bytes, in this platform's layout.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.space.as_bytes()
    }

    /// Those options by reference.
    pub(crate) fn meta_ref(&self) -> &SendMeta {
        &self.meta
    }

    /// A copy that borrows no descriptors: empty if there are any.
    pub(crate) fn without_fds(&self) -> ControlBuf<'static> {
        let mut copy = ControlBuf::new().with_meta(self.meta);
        if !has_fds(self.as_bytes()) {
            copy.space = self.space.clone();
        }
        copy
    }

    /// The memory without the borrow of descriptors, for the kernel to write.
    pub(crate) fn space_mut(&mut self) -> &mut ControlSpace {
        &mut self.space
    }
}

/// Whether there are descriptors among these control messages.
pub(crate) fn has_fds(control: &[u8]) -> bool {
    ControlMessages::new(control)
        .any(|message| Some((message.level, message.ty)) == numbers::RIGHTS)
}

/// The memory of a [`ControlBuf`].
#[derive(Clone)]
#[repr(C, align(8))]
pub(crate) struct ControlSpace {
    bytes: [u8; CONTROL_SPACE],
    len: usize,
}

impl ControlSpace {
    fn push(&mut self, ty: CmsgType, payload: &[u8]) -> io::Result<()> {
        self.len = control_message::append(Layout::NATIVE, &mut self.bytes, self.len, ty, payload)
            .ok_or_else(|| no_space(self.len + Layout::NATIVE.space(payload.len())))?;
        Ok(())
    }

    pub(crate) fn messages(&self) -> ControlMessages<'_> {
        ControlMessages::new(self.as_bytes())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// All bytes, for the kernel to write.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8; CONTROL_SPACE] {
        &mut self.bytes
    }

    /// Sets how many bytes the kernel wrote.
    pub(crate) fn set_len(&mut self, len: usize) {
        self.len = len.min(CONTROL_SPACE);
    }
}

fn no_space(needed: usize) -> io::Error {
    let reason = format!("control messages take {needed} bytes of CONTROL_SPACE, {CONTROL_SPACE}");
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

impl Default for ControlBuf<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ControlBuf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ControlBuf");
        debug.field("messages", &self.messages()).field("meta", &self.meta).finish()
    }
}
