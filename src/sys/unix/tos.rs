//! Sockets whose kernel rejects the control message for the TOS byte or traffic class.
//!
//! Some Android kernels answer `EINVAL` or `EIO` to it, so every message with ECN bits fails. Such a
//! message is sent without it: no datagram's delivery depends on its TOS. Nothing else is left out: a
//! message that cannot leave from its source address or interface fails.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::socket::{BorrowedSocket, socket_cookie};
use crate::sys::{Layout, numbers};

/// Sockets that are remembered. Beyond that the oldest is forgotten, and its next message is rejected once
/// more.
const MOST: usize = 64;

/// The cookies of the sockets, the oldest first: no other socket ever has the same.
static SOCKETS: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// Whether there are any.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether the kernel has rejected the TOS of a message on this socket. Always false where sockets have no
/// cookies: there each message is tried.
#[inline]
pub(crate) fn rejects_tos(socket: BorrowedSocket<'_>) -> bool {
    ANY.load(Ordering::Relaxed) && is_listed(socket)
}

#[cold]
fn is_listed(socket: BorrowedSocket<'_>) -> bool {
    socket_cookie(socket).is_some_and(|cookie| lock().contains(&cookie))
}

/// Notes that a message with its TOS was rejected, and sent without it.
#[cold]
pub(super) fn note(socket: BorrowedSocket<'_>) {
    let Some(cookie) = socket_cookie(socket) else { return };
    add(&mut lock(), cookie);
    ANY.store(true, Ordering::Relaxed);
}

fn add(sockets: &mut Vec<u64>, cookie: u64) {
    if sockets.contains(&cookie) {
        return;
    }
    if sockets.len() == MOST {
        sockets.remove(0);
    }
    // Without memory, each message is tried.
    if sockets.capacity() >= MOST || sockets.try_reserve_exact(MOST).is_ok() {
        sockets.push(cookie);
    }
}

fn lock() -> MutexGuard<'static, Vec<u64>> {
    SOCKETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a message may have met this error for its TOS. Other causes are many.
pub(super) fn may_be_about_tos(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO))
}

/// Copies control messages without those for the TOS. Returns their length; `None` if there is no such
/// message, or if `space` is too short.
pub(super) fn copy_without_tos(mut control: &[u8], space: &mut [u8]) -> Option<usize> {
    let (mut copied, mut found) = (0, false);
    while let Some((is_tos, len)) = first(control) {
        let (message, rest) = control.split_at(len);
        if is_tos {
            found = true;
        } else {
            space.get_mut(copied..copied + len)?.copy_from_slice(message);
            copied += len;
        }
        control = rest;
    }
    // What is malformed is the kernel's to reject.
    (found && control.is_empty()).then_some(copied)
}

/// Whether there is a control message for the TOS.
pub(super) fn has_tos(mut control: &[u8]) -> bool {
    while let Some((is_tos, len)) = first(control) {
        if is_tos {
            return true;
        }
        control = &control[len..];
    }
    false
}

/// Whether the first control message is for the TOS, and its length with its padding, which the last one
/// may lack. `None` if there is none, or it is malformed.
fn first(control: &[u8]) -> Option<(bool, usize)> {
    let layout = Layout::NATIVE;
    let len = layout.read_len(control)?;
    let level = layout.read_int(control, layout.len_bytes)?;
    let ty = layout.read_int(control, layout.len_bytes + 4)?;
    if !(layout.data_offset..=control.len()).contains(&len) {
        return None;
    }
    let is_tos = [numbers::SEND_TOS, numbers::SEND_TCLASS].contains(&Some((level, ty)));
    Some((is_tos, layout.space(len - layout.data_offset).min(control.len())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::control::{ControlBuf, ControlMessages};

    fn message() -> impl Strategy<Value = (i32, i32, Vec<u8>)> {
        let types =
            [numbers::SEND_TOS, numbers::SEND_TCLASS, numbers::SEND_PKTINFO_V6, Some((7, 9))];
        let types: Vec<_> = types.into_iter().flatten().collect();
        (prop::sample::select(types), prop::collection::vec(any::<u8>(), 0..9))
            .prop_map(|((level, ty), data)| (level, ty, data))
    }

    proptest! {
        #[test]
        fn n3_all_control_messages_but_the_tos_are_copied(
            messages in prop::collection::vec(message(), 0..6),
        ) {
            let mut control = ControlBuf::new();
            for (level, ty, data) in &messages {
                control.push(*level, *ty, data).expect("a few short ones fit");
            }
            let is_tos = |(level, ty, _): &&(i32, i32, Vec<u8>)| {
                [numbers::SEND_TOS, numbers::SEND_TCLASS].contains(&Some((*level, *ty)))
            };
            let expected: Vec<_> = messages.iter().filter(|m| !is_tos(m)).cloned().collect();
            let mut space = [0; crate::control::CONTROL_SPACE];
            let len = copy_without_tos(control.as_bytes(), &mut space);
            prop_assert_eq!(len.is_some(), expected.len() < messages.len());
            prop_assert_eq!(has_tos(control.as_bytes()), len.is_some());
            if let Some(len) = len {
                let copied: Vec<_> = ControlMessages::new(&space[..len])
                    .map(|m| (m.level, m.ty, m.data.to_vec()))
                    .collect();
                prop_assert_eq!(copied, expected);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = (copy_without_tos(&bytes, &mut [0; 16]), has_tos(&bytes));
        }
    }

    #[test]
    fn n3_sockets_are_remembered_in_bounded_memory() {
        let mut sockets = Vec::new();
        (0..100).chain(90..100).for_each(|cookie| add(&mut sockets, cookie));
        assert_eq!(sockets, (100 - MOST as u64..100).collect::<Vec<_>>());
        assert!(sockets.capacity() <= MOST);
    }
}
