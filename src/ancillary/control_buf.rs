//! Room for raw control messages, for those that the crate has no name for.

use std::fmt;
use std::io;

use super::{CONTROL_SPACE, ControlMessages, Layout, encode};

/// A buffer of control messages, [`CONTROL_SPACE`] bytes, 8-byte aligned, without heap memory.
///
/// For a send, fill it with [`push`](Self::push) and hand it to
/// [`SendMsg::with_control`](crate::SendMsg::with_control). For a receive, hand it to
/// [`RecvMsg::with_control`](crate::RecvMsg::with_control), and the kernel's messages are in it
/// after the call.
///
/// ```
/// use mmsg::ControlBuf;
///
/// let mut control = ControlBuf::new();
/// control.push(1, 2, b"payload")?;
/// let message = control.messages().next().expect("one was pushed");
/// assert_eq!((message.level, message.kind, message.data), (1, 2, &b"payload"[..]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
#[repr(C, align(8))]
pub struct ControlBuf {
    bytes: [u8; CONTROL_SPACE],
    len: usize,
}

impl ControlBuf {
    /// Empty.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; CONTROL_SPACE], len: 0 }
    }

    /// Appends a control message: `level` (`cmsg_level`), `kind` (`cmsg_type`) and its payload.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where it does not fit in what is left of [`CONTROL_SPACE`]; nothing is
    /// written then.
    pub fn push(&mut self, level: i32, kind: i32, payload: &[u8]) -> io::Result<()> {
        self.len =
            encode::append(Layout::NATIVE, &mut self.bytes, self.len, (level, kind), payload)
                .ok_or(io::ErrorKind::InvalidInput)?;
        Ok(())
    }

    /// Forgets all messages.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The messages, in order.
    #[must_use]
    pub fn messages(&self) -> ControlMessages<'_> {
        ControlMessages::new(self.as_bytes())
    }

    /// The messages as bytes, in this platform's layout.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// All the room there is, for the kernel to write into.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Takes the first `len` bytes of the room as written by the kernel.
    pub(crate) fn set_len(&mut self, len: usize) {
        self.len = len.min(CONTROL_SPACE);
    }
}

impl Default for ControlBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ControlBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ControlBuf").field(&self.messages()).finish()
    }
}
