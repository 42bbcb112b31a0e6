//! How the kernel lays out control messages here, from the C library's own macros.

#![allow(unsafe_code)]

use libc::{CMSG_LEN, CMSG_SPACE};

use crate::ancillary::Layout;

/// This platform's layout.
///
/// `cmsg_len` is a `size_t` for the Linux kernel, whatever the C library declares (musl says
/// `socklen_t` and padding), and a `socklen_t` elsewhere.
pub(crate) const CONTROL_LAYOUT: Layout = {
    // SAFETY: both are arithmetic on their argument, declared unsafe only because C macros are.
    let (data_offset, empty, one) = unsafe { (CMSG_LEN(0), CMSG_SPACE(0), CMSG_SPACE(1)) };
    Layout {
        len_bytes: if cfg!(linux_like) { size_of::<usize>() } else { size_of::<libc::socklen_t>() },
        data_offset: data_offset as usize,
        align: (one - empty) as usize,
        big_endian: cfg!(target_endian = "big"),
    }
};

/// `SOL_UDP` is `IPPROTO_UDP` (linux/udp.h, netinet/in.h).
pub(crate) const SOL_UDP: i32 = libc::IPPROTO_UDP;

/// The option and control message of received trains (include/uapi/linux/udp.h, Linux 5.0). Only
/// Linux has it; no other system uses 104 at this level.
pub(crate) const UDP_GRO: i32 = 104;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_and_length_are_those_of_the_macros() {
        for payload in 0u32..=64 {
            // SAFETY: arithmetic only.
            let (len, space) = unsafe { (CMSG_LEN(payload), CMSG_SPACE(payload)) };
            assert_eq!(CONTROL_LAYOUT.data_offset + payload as usize, len as usize);
            assert_eq!(CONTROL_LAYOUT.space(payload as usize), space as usize);
        }
    }
}
