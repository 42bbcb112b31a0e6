//! Descriptors sent over Unix sockets, and whether any of them is still open.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A pipe whose writing end is passed around. A read ends once every copy of it is closed.
pub struct Watched {
    writer: OwnedFd,
    reader: OwnedFd,
}

impl Watched {
    pub fn new() -> Self {
        let mut ends = [-1; 2];
        // SAFETY: the pointer is to two ints.
        let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) };
        assert_eq!(made, 0, "{}", io::Error::last_os_error());
        // SAFETY: just made, without another owner.
        let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        Self { writer, reader }
    }

    /// Whether all copies are closed.
    pub fn all_closed(self) -> bool {
        let Self { writer, reader } = self;
        drop(writer);
        read(&reader) == Ok(0)
    }
}

fn read(reader: &OwnedFd) -> Result<usize, i32> {
    let mut byte = [0u8; 1];
    // SAFETY: one byte, which outlives the call.
    let n = unsafe { libc::read(reader.as_raw_fd(), byte.as_mut_ptr().cast(), 1) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }
}

/// Maximum of descriptors in one message: 253 on Linux, but musl before 1.2.4 sends at most 1024 bytes of control data.
pub const MAX_DESCRIPTORS: usize = if cfg!(target_env = "musl") { 252 } else { 253 };

/// Sends `data` with `count` copies of a descriptor, with a plain system call.
#[track_caller]
pub fn pass(socket: &impl AsFd, data: &[u8], fd: &impl AsFd, count: usize) {
    assert!(count <= MAX_DESCRIPTORS);
    // Words, for the alignment; as many as the largest message needs.
    let mut control = [0u64; 4 + MAX_DESCRIPTORS / 2];
    let mut iov = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: a C struct of numbers and raw pointers, for which all zeros are valid.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut iov;
    header.msg_iovlen = 1;
    let bytes = (count * size_of::<i32>()) as libc::c_uint;
    // SAFETY: the macros write within `control`, which has space for MAX_DESCRIPTORS descriptors. The header describes the
    // memory above, which outlives the call.
    let sent = unsafe {
        if count > 0 {
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(bytes) as _;
            let message = libc::CMSG_FIRSTHDR(&header);
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_RIGHTS;
            (*message).cmsg_len = libc::CMSG_LEN(bytes) as _;
            let numbers = libc::CMSG_DATA(message).cast::<i32>();
            for i in 0..count {
                numbers.add(i).write_unaligned(fd.as_fd().as_raw_fd());
            }
        }
        libc::sendmsg(socket.as_fd().as_raw_fd(), &header, libc::MSG_NOSIGNAL)
    };
    assert_eq!(sent, data.len() as isize, "{}", io::Error::last_os_error());
}
