//! Encodes and decodes control messages. Each read and write checks bounds first, and nothing is cast to a C struct: the
//! layout is plain numbers, so any machine can test every platform's.

use std::fmt;
use std::iter::FusedIterator;

use super::native::{CMSG_ALIGN, CMSG_DATA_OFFSET, CMSG_LEN_BYTES};
use super::numbers::CmsgType;
use super::zeroed::Aligned;

/// One control message: level, type and payload.
///
/// ```
/// use mmsg::control::ControlBuf;
/// let mut control = ControlBuf::new();
/// control.push(1, 2, &7i32.to_ne_bytes())?;
/// let message = control.messages().next().expect("one was pushed");
/// assert_eq!((message.level, message.ty, message.data), (1, 2, &7i32.to_ne_bytes()[..]));
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
/// use mmsg::control::ControlBuf;
/// let mut control = ControlBuf::new();
/// control.push(1, 2, b"one")?;
/// control.push(1, 3, b"two")?;
/// assert!(control.messages().map(|message| message.ty).eq([2, 3]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias("cmsghdr", "cmsg", "CMSG_NXTHDR", "CMSG_FIRSTHDR"))]
#[derive(Clone)]
pub struct ControlMessages<'a> {
    rest: &'a [u8],
    layout: Layout,
}

impl<'a> ControlMessages<'a> {
    /// Iterates over `control`: bytes in this platform's layout (`msg_control`), as a system call or io_uring left them.
    ///
    /// Descriptors in them (`SCM_RIGHTS`) stay open.
    ///
    /// ```
    /// use mmsg::control::{ControlBuf, ControlMessages};
    /// let mut control = ControlBuf::new();
    /// control.push(1, 2, b"one")?;
    /// let copy = control.as_bytes().to_vec();
    /// assert!(ControlMessages::new(&copy).eq(control.messages()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
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

/// The layout of a control message: of its `struct cmsghdr`, payload and padding.
///
/// A control message is its length (header and payload without padding), its level and its type, both C ints; then
/// padding up to `data_offset`, the payload, and padding to `align`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of `cmsg_len`: a `size_t` for the Linux kernel, a 32-bit `socklen_t` elsewhere.
    pub(crate) len_bytes: usize,
    /// Bytes from the start of the message to its payload (`CMSG_LEN(0)`).
    pub(crate) data_offset: usize,
    /// Each message begins at a multiple of this.
    pub(crate) align: usize,
}

impl Layout {
    /// This platform's layout.
    pub(crate) const NATIVE: Self =
        Self { len_bytes: CMSG_LEN_BYTES, data_offset: CMSG_DATA_OFFSET, align: CMSG_ALIGN };

    /// Bytes of a message with `payload` bytes of payload, padding included (`CMSG_SPACE`).
    #[inline(always)]
    pub(crate) const fn space(self, payload: usize) -> usize {
        // The alignment is a power of two.
        (self.data_offset + payload + self.align - 1) & !(self.align - 1)
    }

    /// Reads a C int at `at`. `None` beyond the end.
    #[inline(always)]
    pub(crate) fn read_int(self, bytes: &[u8], at: usize) -> Option<i32> {
        Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
    }

    /// Reads `cmsg_len` at the start of `bytes`. A length beyond `usize` becomes `usize::MAX`, which no buffer holds.
    #[inline(always)]
    pub(crate) fn read_len(self, bytes: &[u8]) -> Option<usize> {
        if self.len_bytes == 4 {
            // A negative int is over 2 GiB as a socklen_t, which no buffer holds either.
            return self.read_int(bytes, 0).map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        }
        Some(usize::try_from(u64::from_ne_bytes(*bytes.first_chunk()?)).unwrap_or(usize::MAX))
    }

    /// Writes a C int at `at`; the caller has checked the bounds.
    pub(crate) fn write_int(self, bytes: &mut [u8], at: usize, value: i32) {
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// Writes `cmsg_len` at the start of `bytes`; the caller has checked the bounds.
    pub(crate) fn write_len(self, bytes: &mut [u8], len: usize) {
        if self.len_bytes == 4 {
            // A control buffer is a few hundred bytes, so the length fits an int.
            return self.write_int(bytes, 0, i32::try_from(len).unwrap_or(i32::MAX));
        }
        bytes[..8].copy_from_slice(&(len as u64).to_ne_bytes());
    }
}

/// Payload lengths of the control messages that one received datagram can have. [`CONTROL_SPACE`] holds all of them.
const PAYLOADS: [usize; 14] = [
    12, // IP_PKTINFO: struct in_pktinfo
    20, // IPV6_PKTINFO: struct in6_pktinfo
    4,  // IP_TOS, one byte on Linux, an int elsewhere
    4,  // IPV6_TCLASS
    4,  // IP_TTL
    4,  // IPV6_HOPLIMIT
    16, // SO_TIMESTAMPNS: struct timespec with 64-bit fields
    48, // SO_TIMESTAMPING: three of them
    4,  // UDP_GRO
    4,  // SO_RXQ_OVFL
    16, // IP_RECVORIGDSTADDR: struct sockaddr_in
    28, // IPV6_RECVORIGDSTADDR: struct sockaddr_in6
    44, // IP_RECVERR, IPV6_RECVERR: struct sock_extended_err and a sockaddr_in6
    12, // SCM_CREDENTIALS on a Unix socket: struct ucred
];

/// Bytes of control data that every receive has space for: enough for all metadata of a message at once.
pub const CONTROL_SPACE: usize = {
    let (mut sum, mut i) = (0, 0);
    while i < PAYLOADS.len() {
        sum += Layout::NATIVE.space(PAYLOADS[i]);
        i += 1;
    }
    sum.next_multiple_of(8)
};

// musl before 1.2.4 answers ENOMEM for a send with more (src/network/sendmsg.c).
const _: () = assert!(CONTROL_SPACE <= 1024);

/// Control data of one message.
pub(super) type Control = Aligned<CONTROL_SPACE>;
