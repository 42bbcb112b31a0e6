//! Encodes and decodes control messages. Every read and write checks bounds first, and nothing is cast to a C struct.

use std::fmt;
use std::iter::FusedIterator;

use super::Layout;
use super::numbers::CmsgType;

/// One control message: level, type and payload.
///
/// ```
/// use mmsg::control::ControlBuf;
/// let mut control = ControlBuf::new();
/// control.push(1, 2, &7i32.to_ne_bytes())?;
/// let message = control.messages().next().expect("one was pushed");
/// assert_eq!((message.level, message.ty, message.int()), (1, 2, Some(7)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias("cmsghdr", "cmsg", "ControlMessageOwned"))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControlMessage<'a> {
    /// The originating protocol (`cmsg_level`), such as `IPPROTO_IP` or `SOL_SOCKET`.
    pub level: i32,
    /// The protocol's own type (`cmsg_type`), such as `IP_PKTINFO`.
    pub ty: i32,
    /// The payload, without padding.
    pub data: &'a [u8],
}

impl ControlMessage<'_> {
    /// The payload as a C int in this machine's byte order. `None` if the payload has another length.
    #[must_use]
    pub fn int(&self) -> Option<i32> {
        self.data.try_into().ok().map(i32::from_ne_bytes)
    }
}

impl fmt::Debug for ControlMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, ty, data } = self;
        write!(f, "ControlMessage {{ level: {level}, ty: {ty}, {} bytes }}", data.len())
    }
}

/// Iterates over the control messages in a buffer.
///
/// Stops at the first malformed message: one shorter than its header, or longer than the buffer. It never panics, and never
/// reads outside of the buffer.
///
/// ```
/// use mmsg::control::{ControlBuf, ControlMessages};
/// let mut control = ControlBuf::new();
/// control.push(1, 2, b"one")?;
/// control.push(1, 3, b"two")?;
/// let messages = ControlMessages::new(control.as_bytes());
/// assert!(messages.map(|message| message.ty).eq([2, 3]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias("cmsghdr", "cmsg", "CMSG_NXTHDR", "CMSG_FIRSTHDR"))]
#[derive(Clone)]
pub struct ControlMessages<'a> {
    rest: &'a [u8],
    layout: Layout,
}

impl<'a> ControlMessages<'a> {
    /// Iterates over `control`, bytes in this platform's layout as the kernel wrote them.
    #[must_use]
    pub fn new(control: &'a [u8]) -> Self {
        Self::with_layout(control, Layout::NATIVE)
    }

    /// The bytes that are not yet iterated over.
    pub(crate) fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn with_layout(control: &'a [u8], layout: Layout) -> Self {
        Self { rest: control, layout }
    }
}

impl<'a> Iterator for ControlMessages<'a> {
    type Item = ControlMessage<'a>;

    #[inline]
    fn next(&mut self) -> Option<ControlMessage<'a>> {
        match split_first(self.layout, self.rest) {
            Some((message, rest)) => {
                self.rest = rest;
                Some(message)
            }
            None => {
                // Nothing after a malformed message is decoded.
                self.rest = &[];
                None
            }
        }
    }
}

impl FusedIterator for ControlMessages<'_> {}

impl fmt::Debug for ControlMessages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// Splits the first message off `bytes`. The last message may lack its padding.
#[inline]
pub(crate) fn split_first(layout: Layout, bytes: &[u8]) -> Option<(ControlMessage<'_>, &[u8])> {
    let (header, _) = bytes.split_at_checked(layout.data_offset)?;
    let len = layout.read_len(header)?;
    let level = layout.read_int(header, layout.len_bytes)?;
    let ty = layout.read_int(header, layout.len_bytes + 4)?;
    // `get` rejects a length beyond the buffer and one shorter than the header.
    let data = bytes.get(layout.data_offset..len)?;
    let rest = &bytes[layout.space(data.len()).min(bytes.len())..];
    Some((ControlMessage { level, ty, data }, rest))
}

/// Writes one control message at `at` in `buf`, and returns the position after it and its padding. If the message does not
/// fit, returns `None` and writes nothing.
#[inline]
#[must_use]
pub(crate) fn append(
    layout: Layout,
    buf: &mut [u8],
    at: usize,
    (level, ty): CmsgType,
    payload: &[u8],
) -> Option<usize> {
    let end = at.checked_add(layout.space(payload.len()))?;
    let space = buf.get_mut(at..end)?;
    // The kernel reads the padding, too, so no old bytes may remain in it.
    space.fill(0);
    layout.write_len(space, layout.data_offset + payload.len());
    layout.write_int(space, layout.len_bytes, level);
    layout.write_int(space, layout.len_bytes + 4, ty);
    space[layout.data_offset..layout.data_offset + payload.len()].copy_from_slice(payload);
    Some(end)
}
