//! The layout of control messages as plain numbers, so that any machine can test every platform's; and the space that
//! a message needs for all of them.

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
    /// Whether the numbers of the header are big-endian.
    pub(crate) big_endian: bool,
}

impl Layout {
    /// This platform's layout.
    pub(crate) const NATIVE: Self = super::CONTROL_LAYOUT;

    /// Bytes of a message with `payload` bytes of payload, padding included (`CMSG_SPACE`).
    #[inline(always)]
    pub(crate) const fn space(self, payload: usize) -> usize {
        // The alignment is a power of two.
        (self.data_offset + payload + self.align - 1) & !(self.align - 1)
    }

    /// Reads a C int at `at`. `None` beyond the end.
    #[inline(always)]
    pub(crate) fn read_int(self, bytes: &[u8], at: usize) -> Option<i32> {
        let raw = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(if self.big_endian { i32::from_be_bytes(raw) } else { i32::from_le_bytes(raw) })
    }

    /// Reads `cmsg_len` at the start of `bytes`. A length beyond `usize` becomes `usize::MAX`, which no buffer holds.
    #[inline(always)]
    pub(crate) fn read_len(self, bytes: &[u8]) -> Option<usize> {
        if self.len_bytes == 4 {
            // A negative int is over 2 GiB as a socklen_t, which no buffer holds either.
            return self.read_int(bytes, 0).map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        }
        let raw = *bytes.first_chunk::<8>()?;
        let len = if self.big_endian { u64::from_be_bytes(raw) } else { u64::from_le_bytes(raw) };
        Some(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// Writes a C int at `at`; the caller has checked the bounds.
    pub(crate) fn write_int(self, bytes: &mut [u8], at: usize, value: i32) {
        let raw = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        bytes[at..at + 4].copy_from_slice(&raw);
    }

    /// Writes `cmsg_len` at the start of `bytes`; the caller has checked the bounds.
    pub(crate) fn write_len(self, bytes: &mut [u8], len: usize) {
        if self.len_bytes == 4 {
            // A control buffer is a few hundred bytes, so the length fits an int.
            return self.write_int(bytes, 0, i32::try_from(len).unwrap_or(i32::MAX));
        }
        let wide = len as u64;
        let raw = if self.big_endian { wide.to_be_bytes() } else { wide.to_le_bytes() };
        bytes[..8].copy_from_slice(&raw);
    }
}

/// Payload lengths of the control messages that one received datagram can have. [`CONTROL_SPACE`] holds all of them.
const PAYLOADS: [usize; 16] = [
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
    32, // IPV6_PATHMTU: struct ip6_mtuinfo
    4,  // SO_MARK
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
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; CONTROL_SPACE]);
