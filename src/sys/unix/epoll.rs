//! One socket's events by an epoll of its own (epoll(7)), and whether the socket has an error.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::c_int;

use crate::sys::Direction;

/// Reports each event of a socket in one direction once, and every error of the socket.
///
/// The epoll's descriptor is readable when there is an event to take, and never has an error of its own: an
/// error of the socket is an event like any other. The epoll does not keep the socket open.
#[derive(Debug)]
pub(crate) struct Events {
    epoll: OwnedFd,
    socket: RawFd,
    inode: Option<u64>,
    mask: c_int,
}

impl Events {
    /// Watches the socket. If it is ready or has an error now, that is the first event.
    pub(crate) fn of(socket: BorrowedFd<'_>, direction: Direction) -> io::Result<Self> {
        // SAFETY: no pointers.
        let epoll = match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
            -1 => return Err(io::Error::last_os_error()),
            // SAFETY: the kernel has just opened it, and nobody else knows of it.
            epoll => unsafe { OwnedFd::from_raw_fd(epoll) },
        };
        let ready = match direction {
            Direction::Receive => libc::EPOLLIN,
            Direction::Send => libc::EPOLLOUT,
        };
        let inode = inode(socket.as_raw_fd());
        let mask = ready | libc::EPOLLET;
        let events = Self { epoll, socket: socket.as_raw_fd(), inode, mask };
        events.control(libc::EPOLL_CTL_ADD)?;
        Ok(events)
    }

    /// Takes what has happened since the last call, and says whether anything has.
    pub(crate) fn take(&self) -> io::Result<bool> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: memory for one event, and at most one is returned.
        match unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), &mut event, 1, 0) } {
            -1 => match io::Error::last_os_error() {
                // There may be one, so the caller looks.
                error if error.kind() == io::ErrorKind::Interrupted => Ok(true),
                error => Err(error),
            },
            count => Ok(count > 0),
        }
    }

    /// The number of the socket's descriptor.
    pub(crate) fn socket(&self) -> RawFd {
        self.socket
    }

    /// Whether that number is still the socket's.
    pub(crate) fn is_open(&self) -> bool {
        // By another `EPOLL_CTL_MOD` the kernel would say so, too, and report the state as a new event.
        inode(self.socket) == self.inode
    }

    fn control(&self, operation: c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: self.mask as u32, u64: 0 };
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: an event, which the kernel only reads. A number that is no longer the socket's is
        // an error.
        match unsafe { libc::epoll_ctl(epoll, operation, self.socket, &mut event) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

/// The inode that a descriptor stands for: of sockets each has its own. `None` if nothing is open
/// under this number.
fn inode(number: RawFd) -> Option<u64> {
    // SAFETY: a `stat` is numbers, for which all zeros is a value.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: memory for one `stat`.
    if unsafe { libc::fstat(number, &mut stat) } != 0 {
        return None;
    }
    // Some platforms have 32 bits of it.
    #[allow(clippy::unnecessary_cast)]
    Some(stat.st_ino as u64)
}

/// Whether the socket has an error to return or something in its error queue. Takes neither.
pub(crate) fn has_error(socket: BorrowedFd<'_>) -> bool {
    poll(socket) & libc::POLLERR != 0
}

/// Whether the socket is shut down for receiving.
pub(crate) fn is_shut_down(socket: BorrowedFd<'_>) -> bool {
    poll(socket) & libc::POLLRDHUP != 0
}

/// What `poll` reports now, errors and shutdowns.
fn poll(socket: BorrowedFd<'_>) -> libc::c_short {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one pollfd, and the call does not wait.
    match unsafe { libc::poll(&mut poll, 1, 0) } {
        // Where the system does not say, an error must not be overlooked.
        -1 => libc::POLLERR,
        _ => poll.revents,
    }
}
