//! Control messages: how they lie in memory here, by the C library's own macros, and the socket
//! options that ask for them.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{CMSG_LEN, CMSG_SPACE, c_int};

use super::kinds::{self, Kind};
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

/// Sets an option that is a C int.
pub(crate) fn set_option(socket: BorrowedFd<'_>, kind: Kind, value: c_int) -> io::Result<()> {
    set_bytes(socket, kind, &value.to_ne_bytes())
}

/// Sets an option that is a struct, given as its bytes.
fn set_bytes(socket: BorrowedFd<'_>, (level, name): Kind, value: &[u8]) -> io::Result<()> {
    let (data, len) = (value.as_ptr().cast(), value.len() as libc::socklen_t);
    // SAFETY: `data` points at `len` readable bytes, of which the kernel makes a copy.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, data, len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option that is a C int.
pub(crate) fn option(socket: BorrowedFd<'_>, kind: Kind) -> io::Result<c_int> {
    option_bytes(socket, kind).map(c_int::from_ne_bytes)
}

/// Reads an option of `N` bytes; zero bytes stand for those that the system does not give.
pub(super) fn option_bytes<const N: usize>(
    socket: BorrowedFd<'_>,
    (level, name): Kind,
) -> io::Result<[u8; N]> {
    let mut value = [0; N];
    let (data, mut len) = (value.as_mut_ptr().cast(), N as libc::socklen_t);
    // SAFETY: `data` points at `len` writable bytes.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, data, &mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Sets the clock of a socket's transmit times: `struct sock_txtime` of a clock and no flags
/// (include/uapi/linux/net_tstamp.h).
pub(crate) fn set_transmit_clock(socket: BorrowedFd<'_>, clock: i32) -> io::Result<()> {
    if kinds::TXTIME.0 == kinds::ABSENT.0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut value = [0; 8];
    value[..4].copy_from_slice(&clock.to_ne_bytes());
    set_bytes(socket, kinds::TXTIME, &value)
}

/// Whether an error of [`set_option`] is about the option, not about the socket: this kernel does
/// not have it for this socket, or this process may not set it.
pub(crate) fn is_about_the_option(error: &io::Error) -> bool {
    let about = [libc::ENOPROTOOPT, libc::EOPNOTSUPP, libc::EINVAL, libc::EPERM, libc::EACCES];
    error.raw_os_error().is_some_and(|errno| about.contains(&errno))
}

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
