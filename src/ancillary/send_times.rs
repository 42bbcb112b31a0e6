//! Whether sockets report when datagrams were sent, which decides whether a send may use GSO.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::{self, BorrowedSocket};

/// Whether any socket of this process may report send times. If none does, sends with GSO need no
/// system call to ask their socket.
static SEND_TIMES: AtomicBool = AtomicBool::new(false);

pub(super) fn note() {
    SEND_TIMES.store(true, Ordering::Relaxed);
}

/// Notes whether the socket reports send times, since the option may have been set elsewhere.
pub(crate) fn note_send_times(socket: BorrowedSocket<'_>) {
    if sys::reports_send_times(socket) {
        note();
    }
}

/// Whether the socket reports send times.
#[inline]
pub(crate) fn reports_send_times(socket: BorrowedSocket<'_>) -> bool {
    SEND_TIMES.load(Ordering::Relaxed) && sys::reports_send_times(socket)
}
