//! Control messages out of bytes: bounds first, exact lengths, no cast to a C struct.

use std::fmt;
use std::iter::FusedIterator;

use super::Layout;
use crate::sys::kinds::Kind;

/// One control message: what it is about, and its payload as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControlMessage<'a> {
    /// The originating protocol (`cmsg_level`), such as `IPPROTO_IP` or `SOL_SOCKET`.
    pub level: i32,
    /// The protocol's own type (`cmsg_type`), such as `IP_PKTINFO`.
    pub kind: i32,
    /// The payload, without padding.
    pub data: &'a [u8],
}

impl ControlMessage<'_> {
    /// The payload as one C int in this machine's byte order, `None` if it has another length.
    #[must_use]
    pub fn int(&self) -> Option<i32> {
        self.data.try_into().ok().map(i32::from_ne_bytes)
    }
}

/// Walks over the control messages in a buffer.
///
/// Stops at the first message that cannot be right: one that is shorter than its own header or
/// reaches beyond the buffer. Whatever the bytes, it neither panics nor reads outside of them.
#[derive(Clone)]
pub struct ControlMessages<'a> {
    rest: &'a [u8],
    layout: Layout,
}

impl<'a> ControlMessages<'a> {
    /// Walks over `control`, bytes in this platform's layout as the kernel wrote them.
    #[must_use]
    pub fn new(control: &'a [u8]) -> Self {
        Self::with_layout(control, Layout::NATIVE)
    }

    /// The messages not yet walked over.
    pub(super) fn as_bytes(&self) -> &'a [u8] {
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
                // After a malformed message nothing can be trusted.
                self.rest = &[];
                None
            }
        }
    }
}

/// The first message in `bytes`, and what follows it; the last message may lack its padding.
#[inline(always)]
pub(crate) fn split_first(layout: Layout, bytes: &[u8]) -> Option<(ControlMessage<'_>, &[u8])> {
    let (header, _) = bytes.split_at_checked(layout.data_offset)?;
    let len = layout.read_len(header)?;
    let level = layout.read_int(header, layout.len_bytes)?;
    let kind = layout.read_int(header, layout.len_bytes + 4)?;
    // `get` refuses a length beyond the buffer and one shorter than the header.
    let data = bytes.get(layout.data_offset..len)?;
    let rest = bytes.get(layout.space(data.len())..).unwrap_or_default();
    Some((ControlMessage { level, kind, data }, rest))
}

impl FusedIterator for ControlMessages<'_> {}

impl fmt::Debug for ControlMessages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

/// The header of a control message of this platform, without padding.
pub(super) type Header = [u8; HEADER];
const HEADER: usize = Layout::NATIVE.len_bytes + 8;

/// The header of a message of this kind with `payload` bytes: to be compared with as a whole, which
/// takes less than reading it.
pub(super) const fn header((level, kind): Kind, payload: usize) -> Header {
    const LAYOUT: Layout = Layout::NATIVE;
    let len = (LAYOUT.data_offset + payload).to_ne_bytes();
    // On a big-endian machine the low bytes of a `usize` are the last ones.
    let skip = if LAYOUT.big_endian { len.len() - min(len.len(), LAYOUT.len_bytes) } else { 0 };
    let (level, kind) = (level.to_ne_bytes(), kind.to_ne_bytes());
    let mut header = [0; HEADER];
    let mut i = 0;
    while i < LAYOUT.len_bytes {
        header[i] = len[skip + i];
        i += 1;
    }
    i = 0;
    while i < 4 {
        header[LAYOUT.len_bytes + i] = level[i];
        header[LAYOUT.len_bytes + 4 + i] = kind[i];
        i += 1;
    }
    header
}

/// `usize::min`, which is not `const`.
const fn min(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

/// Control messages of this platform that are expected in an order, each with a length.
pub(super) struct Row<'a> {
    rest: &'a [u8],
}

impl<'a> Row<'a> {
    #[inline(always)]
    pub(super) fn new(control: &'a [u8]) -> Self {
        Self { rest: control }
    }

    /// The next message's payload, if its header is this one, which is of a message of `N` bytes,
    /// which with header and padding are `SPACE`; goes on to the one after it then.
    #[inline(always)]
    pub(super) fn next<const N: usize, const SPACE: usize>(
        &mut self,
        header: &Header,
    ) -> Option<&'a [u8; N]> {
        const LAYOUT: Layout = Layout::NATIVE;
        const { assert!(SPACE == LAYOUT.space(N)) };
        let (message, after) = self.rest.split_first_chunk::<SPACE>()?;
        if message.first_chunk() != Some(header) {
            return None;
        }
        self.rest = after;
        message[LAYOUT.data_offset..].first_chunk()
    }

    /// What is left.
    #[inline(always)]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}
