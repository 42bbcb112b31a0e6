//! Closes the descriptors that a Unix peer passes (`SCM_RIGHTS`).
//!
//! During a receive the kernel installs them in this process, whether it wants them or not, and puts their numbers into
//! the control data.

#![allow(unsafe_code)]

use std::slice;

use super::header::Header;
use crate::sys::control_message::{CONTROL_SPACE, Layout, split_first};
use crate::sys::numbers;

/// Replaces the number of a closed descriptor: "no descriptor" to the kernel.
const ERASED: [u8; 4] = (-1i32).to_ne_bytes();

/// Closes the descriptors that came with a message, also those of `SCM_PIDFD`, and erases their numbers, so that no caller
/// takes one for a descriptor of its own.
///
/// # Safety
///
/// A receive has just filled the header with control data, and nobody has read that since. The header meets the invariant
/// of [`PreparedRecvs`](crate::sys::headers::PreparedRecvs).
#[inline]
pub(super) unsafe fn close(header: &Header) {
    let (control, len) = header.control();
    // SAFETY: by the caller's promise this is memory for control data that nobody else uses, and the kernel has written its
    // first `len` bytes.
    let control = unsafe { slice::from_raw_parts_mut(control.cast_mut(), len.min(CONTROL_SPACE)) };
    erase_numbers(control, |fd| {
        // SAFETY: the kernel has just installed the descriptor, and its number was only in the control data, so nobody else
        // uses it.
        unsafe { libc::close(fd) };
    });
}

/// Calls `each` with each descriptor's number in the control data, and erases the number.
fn erase_numbers(control: &mut [u8], mut each: impl FnMut(i32)) {
    let mut at = 0;
    while let Some((message, rest)) = split_first(Layout::NATIVE, &control[at..]) {
        let (ty, len) = (Some((message.level, message.ty)), message.data.len());
        let next = control.len() - rest.len();
        if [numbers::RIGHTS, numbers::PIDFD].contains(&ty) {
            let data = &mut control[at + Layout::NATIVE.data_offset..][..len];
            for number in data.chunks_exact_mut(ERASED.len()) {
                let fd = i32::from_ne_bytes([number[0], number[1], number[2], number[3]]);
                number.copy_from_slice(&ERASED);
                // A negative number is an error in place of a pidfd.
                if fd >= 0 {
                    each(fd);
                }
            }
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::control_message::{ControlMessages, append};
    use crate::sys::numbers::CmsgType;

    fn control(messages: &[(Option<CmsgType>, &[u8])]) -> Vec<u8> {
        let mut buffer = vec![0; 512];
        let end = messages.iter().try_fold(0, |at, (ty, payload)| {
            append(Layout::NATIVE, &mut buffer, at, ty.expect("every system has it"), payload)
        });
        buffer.truncate(end.expect("there is space"));
        buffer
    }

    /// Without the number, descriptors would stay open.
    #[test]
    fn every_unix_has_the_number_of_passed_descriptors() {
        assert_eq!(numbers::RIGHTS, Some((libc::SOL_SOCKET, libc::SCM_RIGHTS)));
    }

    #[test]
    fn every_number_is_given_once_and_erased() {
        let numbers: Vec<u8> = [3i32, 40, -1, 500].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let error = (-3i32).to_ne_bytes();
        let pidfd = 7i32.to_ne_bytes();
        // Other systems have only the first kind.
        let pid = numbers::PIDFD.or(numbers::RIGHTS);
        const OTHER: CmsgType = (libc::SOL_SOCKET, 0x7777);
        let other = (Some(OTHER), &[9, 9, 9, 9][..]);
        let messages = [
            other,
            // A truncated number is ignored.
            (numbers::RIGHTS, &[&numbers[..], &[1, 2, 3]].concat()[..]),
            (pid, &error),
            other,
            (pid, &pidfd),
            (numbers::RIGHTS, &[]),
        ];
        let mut bytes = control(&messages);
        // The last one may lack its padding.
        for end in [bytes.len(), bytes.len() - 1] {
            let mut seen = Vec::new();
            let mut truncated = bytes[..end].to_vec();
            erase_numbers(&mut truncated, |fd| seen.push(fd));
            assert_eq!(seen, [3, 40, 500, 7]);
        }
        erase_numbers(&mut bytes, |_| {});
        erase_numbers(&mut bytes, |fd| panic!("{fd} was given twice"));
        let kept = ControlMessages::new(&bytes).filter(|m| (m.level, m.ty) == OTHER);
        assert!(kept.map(|m| m.data).eq([&[9, 9, 9, 9]; 2]));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived(mut bytes in proptest::collection::vec(0u8.., 0..200)) {
            erase_numbers(&mut bytes, |_| {});
        }
    }
}
