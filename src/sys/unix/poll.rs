//! Whether a socket has an error, asked of `poll`.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether the socket has an error that no call has returned, or a report in its error queue. Does not wait.
pub(crate) fn has_error(socket: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: `poll` is one pollfd.
    let ready = unsafe { libc::poll(&mut poll, 1, 0) };
    ready > 0 && poll.revents & libc::POLLERR != 0
}
