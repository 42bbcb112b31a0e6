//! Received descriptors (`SCM_RIGHTS`), owned from the system call on.
//!
//! The kernel makes them for this process during a receive and leaves their numbers in the control
//! data. Each backend calls [`own`] right after its system call, which makes each number an
//! [`OwnedFd`] and erases it from the control data. So nothing that happens afterwards, and no
//! other code, can leak one or close one twice.

#![allow(unsafe_code)]

use std::fmt;
use std::os::fd::{FromRawFd, OwnedFd};
use std::slice;

use super::header::Header;
use crate::sys::addr::{Name, RawAddrRef};
use crate::sys::control_message::split_first;
use crate::sys::{CONTROL_SPACE, Layout, numbers};

/// What the control data has in place of a descriptor's number: the kernel's "no descriptor".
const ERASED: [u8; 4] = (-1i32).to_ne_bytes();

/// Received descriptors that the caller asked for, each with the index of its message, in order.
#[derive(Default)]
pub(crate) struct ReceivedFds {
    list: Vec<(usize, OwnedFd)>,
    /// The index of the message in the first header of the present call.
    first: usize,
}

impl ReceivedFds {
    pub(crate) const fn new() -> Self {
        Self { list: Vec::new(), first: 0 }
    }

    /// Prepares for a receive whose first header is message `first`.
    pub(crate) fn begin(&mut self, first: usize) -> &mut Self {
        self.first = first;
        self
    }

    /// Closes all.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// Adds what came with message `i`; the messages come in order.
    pub(crate) fn extend(&mut self, i: usize, fds: impl Iterator<Item = OwnedFd>) {
        self.list.extend(fds.map(|fd| (i, fd)));
    }

    /// Takes what came with message `i`.
    pub(crate) fn take(&mut self, i: usize) -> impl Iterator<Item = OwnedFd> {
        let start = self.list.partition_point(|(of, _)| *of < i);
        let end = self.list.partition_point(|(of, _)| *of <= i);
        self.list.drain(start..end).map(|(_, fd)| fd)
    }

    /// Takes all of them.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (usize, OwnedFd)> {
        self.list.drain(..)
    }
}

/// Owns the descriptors that came with the messages in `headers`, of which the first is message `first` of its
/// call: they go into `keep`, or are closed. Those of `SCM_PIDFD` are always closed.
///
/// # Safety
///
/// A receive on one socket has just filled the headers, of which the invariant of
/// [`WiredRecvs`](crate::sys::headers::WiredRecvs) holds, and their control data was not looked at since.
#[inline]
pub(super) unsafe fn own(headers: &[Header], first: usize, keep: Option<&mut ReceivedFds>) {
    // Only Unix sockets pass descriptors, and the source of their messages is a Unix address or none. All
    // sources of a socket are of one kind.
    // SAFETY: the caller's.
    if headers.first().is_some_and(|header| unsafe { is_from_inet(header) }) {
        return;
    }
    // SAFETY: the caller's.
    unsafe { own_all(headers, first, keep) };
}

/// Like [`own`], whatever the socket.
///
/// # Safety
///
/// As [`own`].
#[cold]
unsafe fn own_all(headers: &[Header], first: usize, mut keep: Option<&mut ReceivedFds>) {
    for (i, header) in headers.iter().enumerate() {
        let (control, len) = header.control();
        if len > 0 {
            let len = len.min(CONTROL_SPACE);
            // SAFETY: the caller's: memory for control data, of which the kernel has written the first
            // `len` bytes, and which nobody else uses.
            let control = unsafe { slice::from_raw_parts_mut(control.cast_mut(), len) };
            // SAFETY: the caller's.
            unsafe { own_each(control, first + i, keep.as_deref_mut()) };
        }
    }
}

/// Whether the message came from an Internet address.
///
/// # Safety
///
/// As [`own`].
#[inline]
unsafe fn is_from_inet(header: &Header) -> bool {
    let (name, len) = header.name();
    // SAFETY: the caller's: memory for an address, which is a `Name` or longer.
    len > 0 && RawAddrRef::new(unsafe { &*name.cast::<Name>() }, len).get().is_some()
}

/// Owns the descriptors in the control data of message `i`.
///
/// # Safety
///
/// A receive has just written the control data, which nobody has looked at since.
unsafe fn own_each(control: &mut [u8], i: usize, keep: Option<&mut ReceivedFds>) {
    let mut keep = keep.map(|keep| (keep.first + i, keep));
    erase_numbers(control, |fd, is_pidfd| {
        // SAFETY: the kernel has just made it for this process, its number was nowhere but in the
        // control data, and is erased there.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        match &mut keep {
            Some((index, keep)) if !is_pidfd => keep.list.push((*index, close_on_exec(fd))),
            _ => drop(fd),
        }
    });
}

/// Gives each descriptor's number in the control data to `each`, and whether it is one of a
/// process, and erases it.
fn erase_numbers(control: &mut [u8], mut each: impl FnMut(i32, bool)) {
    let mut at = 0;
    while let Some((message, rest)) = split_first(Layout::NATIVE, &control[at..]) {
        let (ty, len) = (Some((message.level, message.ty)), message.data.len());
        let next = control.len() - rest.len();
        if [numbers::RIGHTS, numbers::PIDFD].contains(&ty) {
            let data = &mut control[at + Layout::NATIVE.data_offset..][..len];
            for number in data.chunks_exact_mut(ERASED.len()) {
                let fd = i32::from_ne_bytes([number[0], number[1], number[2], number[3]]);
                number.copy_from_slice(&ERASED);
                // In place of a pidfd there may be an error, which is negative.
                if fd >= 0 {
                    each(fd, ty == numbers::PIDFD);
                }
            }
        }
        at = next;
    }
}

/// Other systems have a flag of the receive for it.
#[cfg(not(target_vendor = "apple"))]
fn close_on_exec(fd: OwnedFd) -> OwnedFd {
    fd
}

#[cfg(target_vendor = "apple")]
fn close_on_exec(fd: OwnedFd) -> OwnedFd {
    use std::os::fd::AsRawFd;
    // SAFETY: no pointers. It fails for no descriptor that is open.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    fd
}

impl fmt::Debug for ReceivedFds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.list).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::ControlMessages;
    use crate::sys::numbers::CmsgType;
    use crate::sys::zeroed::Zeroed;

    fn control(messages: &[(Option<CmsgType>, &[u8])]) -> Vec<u8> {
        let mut buffer = vec![0; 512];
        let end = messages.iter().try_fold(0, |at, (ty, payload)| {
            crate::sys::control_message::append(
                Layout::NATIVE,
                &mut buffer,
                at,
                ty.expect("Linux has it"),
                payload,
            )
        });
        buffer.truncate(end.expect("there is space"));
        buffer
    }

    #[test]
    fn d10_every_number_is_given_once_and_erased() {
        let numbers: Vec<u8> = [3i32, 40, -1, 500].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let error = (-3i32).to_ne_bytes();
        let pidfd = 7i32.to_ne_bytes();
        let other = (numbers::TOS, &[9, 9, 9, 9][..]);
        let messages = [
            other,
            // A truncated number is ignored.
            (numbers::RIGHTS, &[&numbers[..], &[1, 2, 3]].concat()[..]),
            (numbers::PIDFD, &error),
            other,
            (numbers::PIDFD, &pidfd),
            (numbers::RIGHTS, &[]),
        ];
        let mut bytes = control(&messages);
        // The last one may lack its padding.
        for end in [bytes.len(), bytes.len() - 1] {
            let mut seen = Vec::new();
            let mut truncated = bytes[..end].to_vec();
            erase_numbers(&mut truncated, |fd, is_pidfd| seen.push((fd, is_pidfd)));
            assert_eq!(seen, [(3, false), (40, false), (500, false), (7, true)]);
        }
        erase_numbers(&mut bytes, |_, _| {});
        erase_numbers(&mut bytes, |fd, _| panic!("{fd} was given twice"));
        let kept = ControlMessages::new(&bytes).filter(|m| Some((m.level, m.ty)) == numbers::TOS);
        assert!(kept.map(|m| m.data).eq([&[9, 9, 9, 9]; 2]));
    }

    #[test]
    fn d10_only_a_source_on_the_internet_ends_the_search() {
        let is_from_inet = |family: i32, len: usize| {
            let mut name: Name = [b'x'; 32];
            let mut headers = Zeroed::<Header>::try_new(1).expect("there is memory");
            match u8::try_from(family).expect("families are small numbers") {
                family if cfg!(sa_len) => name[..2].copy_from_slice(&[len as u8, family]),
                family => name[..2].copy_from_slice(&u16::from(family).to_ne_bytes()),
            }
            headers[0].set_name(name.as_ptr(), len);
            // SAFETY: the header points at a whole name.
            unsafe { super::is_from_inet(&headers[0]) }
        };
        assert!(is_from_inet(libc::AF_INET, 16) && is_from_inet(libc::AF_INET6, 28));
        // No address, one that is too short, one of another family, whatever its length.
        for len in 0..=111 {
            assert!(!is_from_inet(libc::AF_UNIX, len) && !is_from_inet(libc::AF_UNSPEC, len));
            assert_eq!(is_from_inet(libc::AF_INET, len), len >= 16);
            assert_eq!(is_from_inet(libc::AF_INET6, len), len >= 28);
        }
    }

    proptest::proptest! {
        #[test]
        fn d10_any_bytes_are_survived(mut bytes in proptest::collection::vec(0u8.., 0..200)) {
            erase_numbers(&mut bytes, |_, _| {});
        }
    }
}
