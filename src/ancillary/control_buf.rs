//! A buffer for raw control messages.

use std::fmt;
use std::io;

use super::invalid;
use crate::sys::numbers;
use crate::sys::{CONTROL_SPACE, ControlMessages, Layout, control_message};

/// A buffer of control messages, [`CONTROL_SPACE`] bytes, 8-byte aligned, without heap memory.
///
/// To send them, fill it with [`push`](Self::push) and pass it to [`SendMsg::with_control`](crate::SendMsg::with_control). To
/// receive them, pass it to [`RecvMsg::with_control`](crate::RecvMsg::with_control).
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
#[doc(alias("cmsghdr", "cmsg", "msg_control"))]
#[derive(Clone)]
#[repr(C, align(8))]
pub struct ControlBuf {
    bytes: [u8; CONTROL_SPACE],
    len: usize,
}

impl ControlBuf {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; CONTROL_SPACE], len: 0 }
    }

    /// Appends a control message: `level` (`cmsg_level`), `ty` (`cmsg_type`) and its payload.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, and nothing is written, if the message does not fit in the rest of [`CONTROL_SPACE`], or if it
    /// is `SCM_RIGHTS`: the numbers in it could be descriptors of other owners.
    pub fn push(&mut self, level: i32, ty: i32, payload: &[u8]) -> io::Result<()> {
        if Some((level, ty)) == numbers::RIGHTS {
            return Err(invalid("SCM_RIGHTS is not supported: this crate passes no descriptors"));
        }
        let ty = (level, ty);
        let end = control_message::append(Layout::NATIVE, &mut self.bytes, self.len, ty, payload);
        self.len = end.ok_or_else(|| {
            let needed = self.len.saturating_add(payload.len());
            invalid(format!("control messages take more than {needed} bytes of {CONTROL_SPACE}"))
        })?;
        Ok(())
    }

    /// Replaces the messages by those that a receive brought.
    pub(crate) fn set(&mut self, control: &[u8]) {
        self.len = control.len().min(CONTROL_SPACE);
        self.bytes[..self.len].copy_from_slice(&control[..self.len]);
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
}

impl Default for ControlBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ControlBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlBuf").field("messages", &self.messages()).finish()
    }
}
