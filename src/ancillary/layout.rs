//! How control messages lie in memory, as numbers, so that every platform's layout can be tested
//! on any machine.

/// The shape of a `struct cmsghdr` and of what surrounds it.
///
/// A control message is its length (header and payload, no padding), its level and its type, each
/// of the latter a C int; then padding up to `data_offset`, the payload, and padding to `align`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of `cmsg_len`: a `size_t` for the Linux kernel, a 32-bit `socklen_t` elsewhere.
    pub(crate) len_bytes: usize,
    /// Where the payload begins, seen from the message's first byte (`CMSG_LEN(0)`).
    pub(crate) data_offset: usize,
    /// What the distance from one message to the next is a multiple of.
    pub(crate) align: usize,
    /// Whether the numbers of the header are big-endian.
    pub(crate) big_endian: bool,
}

impl Layout {
    /// This platform's.
    pub(crate) const NATIVE: Self = crate::sys::CONTROL_LAYOUT;

    /// Bytes that a message with a payload of `payload` bytes takes, padding included
    /// (`CMSG_SPACE`).
    #[inline(always)]
    pub(crate) const fn space(self, payload: usize) -> usize {
        (self.data_offset + payload).next_multiple_of(self.align)
    }

    /// Reads a C int at `at`, `None` beyond the end.
    #[inline(always)]
    pub(crate) fn read_int(self, bytes: &[u8], at: usize) -> Option<i32> {
        let raw = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(if self.big_endian { i32::from_be_bytes(raw) } else { i32::from_le_bytes(raw) })
    }

    /// Reads `cmsg_len` at the start of `bytes`. A length that `usize` cannot hold is as good as
    /// one that no buffer can hold.
    #[inline(always)]
    pub(crate) fn read_len(self, bytes: &[u8]) -> Option<usize> {
        if self.len_bytes == 4 {
            // Negative as an int is over 2 GiB as a socklen_t: beyond any buffer either way.
            return self.read_int(bytes, 0).map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        }
        let raw = *bytes.first_chunk::<8>()?;
        let len = if self.big_endian { u64::from_be_bytes(raw) } else { u64::from_le_bytes(raw) };
        Some(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// Writes a C int at `at`; the caller has checked the room.
    pub(crate) fn write_int(self, bytes: &mut [u8], at: usize, value: i32) {
        let raw = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        bytes[at..at + 4].copy_from_slice(&raw);
    }

    /// Writes `cmsg_len` at the start of `bytes`; the caller has checked the room.
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
