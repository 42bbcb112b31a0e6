//! Control messages out of bytes: bounds first, exact lengths, no cast to a C struct.

use std::fmt;
use std::iter::FusedIterator;

use super::Layout;

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

    pub(crate) fn with_layout(control: &'a [u8], layout: Layout) -> Self {
        Self { rest: control, layout }
    }
}

impl<'a> Iterator for ControlMessages<'a> {
    type Item = ControlMessage<'a>;

    fn next(&mut self) -> Option<ControlMessage<'a>> {
        let Self { rest, layout } = self;
        let parsed = (|| {
            let len = layout.read_len(rest)?;
            let level = layout.read_int(rest, layout.len_bytes)?;
            let kind = layout.read_int(rest, layout.len_bytes + 4)?;
            // `get` refuses a length beyond the buffer and one shorter than the header.
            let data = rest.get(layout.data_offset..len)?;
            Some(ControlMessage { level, kind, data })
        })();
        // The last message may lack its padding; after a malformed one nothing can be trusted.
        *rest = parsed
            .and_then(|message| rest.get(layout.space(message.data.len())..))
            .unwrap_or_default();
        parsed
    }
}

impl FusedIterator for ControlMessages<'_> {}

impl fmt::Debug for ControlMessages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
