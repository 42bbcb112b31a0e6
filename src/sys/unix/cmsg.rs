//! Socket options, and the layout of control messages by the C library's own macros.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{CMSG_LEN, CMSG_SPACE, c_int};

use crate::sys::numbers::{self, OptionName};

/// Bytes of `cmsg_len`: a `size_t` for the Linux kernel, whatever the C library declares (musl says `socklen_t` and
/// padding), and a `socklen_t` elsewhere.
pub(crate) const CMSG_LEN_BYTES: usize =
    if cfg!(linux_like) { size_of::<usize>() } else { size_of::<libc::socklen_t>() };
/// Bytes from the start of a control message to its payload.
// SAFETY: the macro only does arithmetic.
pub(crate) const CMSG_DATA_OFFSET: usize = unsafe { CMSG_LEN(0) } as usize;
/// Each control message begins at a multiple of this.
// SAFETY: as above.
pub(crate) const CMSG_ALIGN: usize = unsafe { CMSG_SPACE(1) - CMSG_SPACE(0) } as usize;

/// Bytes of the microseconds in a `struct timeval`.
// The libc crate deprecates musl's type because it will widen. Its width is what counts here.
#[allow(deprecated)]
pub(crate) const MICROSECONDS_LEN: usize = size_of::<libc::suseconds_t>();

/// Sets an option from its bytes.
pub(crate) fn set_option_bytes(
    socket: BorrowedFd<'_>,
    name: Option<OptionName>,
    value: &[u8],
) -> io::Result<()> {
    let (level, name) = name.ok_or(io::ErrorKind::Unsupported)?;
    #[cfg(test)]
    tests::option_is_taken(socket, level)?;
    let (data, len) = (value.as_ptr().cast(), value.len() as libc::socklen_t);
    // SAFETY: `data` points at `len` readable bytes, which the kernel copies.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, data, len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option that is a C int.
pub(crate) fn option(socket: BorrowedFd<'_>, name: Option<OptionName>) -> io::Result<c_int> {
    option_bytes(socket, name).map(c_int::from_ne_bytes)
}

/// Reads an option of `N` bytes. Bytes that the system does not return are zero.
pub(crate) fn option_bytes<const N: usize>(
    socket: BorrowedFd<'_>,
    name: Option<OptionName>,
) -> io::Result<[u8; N]> {
    let (level, name) = name.ok_or(io::ErrorKind::Unsupported)?;
    #[cfg(test)]
    crate::sys::fault::count_option();
    let mut value = [0; N];
    let (data, mut len) = (value.as_mut_ptr().cast(), N as libc::socklen_t);
    // SAFETY: `data` points at `len` writable bytes.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, data, &mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Whether a socket filter (BPF) is attached to the socket.
pub(crate) fn has_filter(socket: BorrowedFd<'_>) -> bool {
    let Some((level, name)) = numbers::FILTER else { return false };
    let mut len = 0;
    // SAFETY: without space for the program, the kernel writes only its length.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, ptr::null_mut(), &mut len) };
    // An eBPF program has no classic form to read (`sk_get_filter` in net/core/filter.c).
    let is_ebpf = || io::Error::last_os_error().raw_os_error() == Some(libc::EACCES);
    len > 0 || result != 0 && is_ebpf()
}

/// Whether an error of [`set_option_bytes`] is about the option and not about the socket: the kernel lacks it for this
/// socket, or the process may not set it.
pub(crate) fn is_about_the_option(error: &io::Error) -> bool {
    let about = [libc::ENOPROTOOPT, libc::EOPNOTSUPP, libc::EINVAL, libc::EPERM, libc::EACCES];
    error.kind() == io::ErrorKind::Unsupported
        || error.raw_os_error().is_some_and(|errno| about.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::{mem, slice};

    use super::*;
    use crate::control::{ControlBuf, ControlMessages};
    use crate::sys::Layout;

    const LAYOUT: Layout = Layout::NATIVE;

    /// Fails for an IPv4 option on an IPv6 socket where the test's system takes none.
    pub(super) fn option_is_taken(socket: BorrowedFd<'_>, level: c_int) -> io::Result<()> {
        let rules = crate::sys::v4_rules();
        let is_v6 = || socket2::SockRef::from(&socket).local_addr().is_ok_and(|ip| ip.is_ipv6());
        if level == libc::IPPROTO_IP && rules.reported_by_v6.is_some() && is_v6() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(())
    }

    #[test]
    fn space_and_length_are_those_of_the_macros() {
        for payload in 0u32..=64 {
            // SAFETY: the macros only do arithmetic.
            let (len, space) = unsafe { (CMSG_LEN(payload), CMSG_SPACE(payload)) };
            assert_eq!(LAYOUT.data_offset + payload as usize, len as usize);
            assert_eq!(LAYOUT.space(payload as usize), space as usize);
        }
    }

    /// A header with control data, for the macros.
    fn header(control: *mut u64, len: usize) -> libc::msghdr {
        // SAFETY: zero is a valid value of a C struct of numbers and raw pointers.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_control = control.cast();
        header.msg_controllen = len as _;
        header
    }

    /// The messages that the macros find, as a C program would read them.
    fn walk(control: &[u64], len: usize) -> Vec<(i32, i32, Vec<u8>)> {
        assert!(len <= mem::size_of_val(control));
        let header = header(control.as_ptr().cast_mut(), len);
        let mut found = Vec::new();
        // SAFETY: the header describes `control`, which is aligned as a cmsghdr must be.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(&header) };
        while !next.is_null() {
            // SAFETY: the macros return messages within the control data. The encoder or the test wrote the lengths in
            // them, which stay within it, too.
            let (message, payload) = unsafe {
                let message = ptr::read(next);
                let payload_len = message.cmsg_len as usize - LAYOUT.data_offset;
                (message, slice::from_raw_parts(libc::CMSG_DATA(next), payload_len))
            };
            found.push((message.cmsg_level, message.cmsg_type, payload.to_vec()));
            // SAFETY: as above.
            next = unsafe { libc::CMSG_NXTHDR(&header, next) };
        }
        found
    }

    /// Copies bytes to memory that is aligned for the macros.
    fn aligned(bytes: &[u8]) -> Vec<u64> {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(whole);
        }
        words
    }

    fn payloads(first: usize, second: usize) -> [(i32, i32, Vec<u8>); 3] {
        let bytes = |len: usize, salt: usize| (0..len).map(|i| (i + salt) as u8).collect();
        [(1, -2, bytes(first, 3)), (-3, 4, bytes(second, 5)), (5, 6, vec![7])]
    }

    #[test]
    fn the_macros_find_what_the_encoder_wrote() {
        for first in 0..=64 {
            for second in [0, 1, 3, 4, 5, 7, 8, 9, 64 - first] {
                let messages = payloads(first, second);
                let mut control = ControlBuf::new();
                for (level, ty, payload) in &messages {
                    control.push(*level, *ty, payload).expect("there is space");
                }
                let bytes = control.as_bytes();
                assert_eq!(walk(&aligned(bytes), bytes.len()), messages, "{first}, {second}");
            }
        }
    }

    #[test]
    fn the_decoder_finds_what_the_macros_wrote() {
        for first in 0..=64 {
            for second in [0, 1, 3, 4, 5, 7, 8, 9, 64 - first] {
                let messages = payloads(first, second);
                let mut control = vec![0u64; 64];
                let len = mem::size_of_val(&control[..]);
                let header = header(control.as_mut_ptr(), len);
                let mut end = 0;
                // SAFETY: the header describes `control`, which has space for all three and no other user.
                let mut next = unsafe { libc::CMSG_FIRSTHDR(&header) };
                for (level, ty, payload) in &messages {
                    // SAFETY: as above; CMSG_NXTHDR reads zero bytes, or a length written here.
                    unsafe {
                        (*next).cmsg_len = CMSG_LEN(payload.len() as u32) as _;
                        (*next).cmsg_level = *level;
                        (*next).cmsg_type = *ty;
                        let data = libc::CMSG_DATA(next);
                        ptr::copy_nonoverlapping(payload.as_ptr(), data, payload.len());
                        end += CMSG_SPACE(payload.len() as u32) as usize;
                        next = libc::CMSG_NXTHDR(&header, next);
                    }
                }
                let bytes: Vec<u8> =
                    control.iter_mut().flat_map(|word| word.to_ne_bytes()).take(end).collect();
                let found: Vec<_> = ControlMessages::new(&bytes)
                    .map(|message| (message.level, message.ty, message.data.to_vec()))
                    .collect();
                assert_eq!(found, messages, "{first}, {second}");
            }
        }
    }
}
