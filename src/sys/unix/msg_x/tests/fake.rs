//! A stand-in for Apple's kernel: its rules, as read in xnu-11417.121.6, on this system's own sockets.
//!
//! What Apple's kernel would not survive, or what loses messages there, ends the test.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::io;
use std::mem;
use std::ptr;
use std::slice;

use super::super::*;

/// A call that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FakeCall {
    pub(super) direction: Direction,
    pub(super) offered: usize,
    pub(super) moved: Option<usize>,
}

thread_local! {
    /// `kern.ipc.maxrecvmsgx`: what was read, and what it is.
    static LIMIT: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
    static WITHOUT_CONTROL: Cell<usize> = const { Cell::new(0) };
    static CONTROL_SPACE: Cell<usize> = const { Cell::new(usize::MAX) };
    static CALLS: RefCell<Vec<FakeCall>> = const { RefCell::new(Vec::new()) };
}

/// Gives this thread Apple's calls, as of a kernel whose `kern.ipc.maxrecvmsgx` is `limit`, until the
/// guard is dropped.
pub(super) fn install(limit: usize) -> Installed {
    LIMIT.set(Some((limit, limit)));
    CALLS.take();
    Installed
}

/// Lowers the limit after it was read.
pub(super) fn lower(limit: usize) {
    LIMIT.set(LIMIT.get().map(|(read, _)| (read, limit)));
}

pub(super) struct Installed;

impl Drop for Installed {
    fn drop(&mut self) {
        LIMIT.set(None);
        WITHOUT_CONTROL.set(0);
        CONTROL_SPACE.set(usize::MAX);
    }
}

/// Has the next `count` datagrams arrive without control data: Apple's kernel makes it when a datagram
/// arrives, by the options that are on then, and Linux when it is received.
pub(super) fn without_control(count: usize) {
    WITHOUT_CONTROL.set(count);
}

/// Has the headers to come offer no more than `len` bytes for control data.
pub(super) fn space_for_control(len: usize) {
    CONTROL_SPACE.set(len);
}

/// What was installed on this thread.
pub(in crate::sys::unix) fn installed() -> Option<Calls> {
    let (limit, _) = LIMIT.get()?;
    Some(Calls { recv: recvmsg_x, send: sendmsg_x, most: limit.clamp(1, MOST) })
}

/// The calls that came to this thread since the last `take_calls`.
pub(super) fn take_calls() -> Vec<FakeCall> {
    CALLS.take()
}

fn fail(errno: c_int) -> isize {
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn returned(direction: Direction, offered: c_uint, result: isize) -> isize {
    let call =
        FakeCall { direction, offered: offered as usize, moved: usize::try_from(result).ok() };
    CALLS.with_borrow_mut(|log| log.push(call));
    result
}

/// A datagram off the socket.
struct Dequeued {
    name: Vec<u8>,
    control: Vec<u8>,
    data: Vec<u8>,
}

/// Receives one datagram whole; `None` at the socket's end.
unsafe fn take(fd: c_int, flags: c_int) -> io::Result<Option<Dequeued>> {
    #[repr(align(16))]
    struct Space([u8; 1024]);
    let mut space = Space([0; 1024]);
    let (mut name, mut data) = ([0u8; 128], vec![0u8; 65_536]);
    let mut buffer = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: a C struct of pointers and numbers.
    let mut hdr: libc::msghdr = unsafe { mem::zeroed() };
    hdr.msg_name = name.as_mut_ptr().cast();
    hdr.msg_namelen = name.len() as _;
    hdr.msg_iov = &mut buffer;
    hdr.msg_iovlen = 1;
    hdr.msg_control = ptr::from_mut(&mut space).cast();
    hdr.msg_controllen = space.0.len() as _;
    // SAFETY: all of it is here.
    let len = unsafe { libc::recvmsg(fd, &mut hdr, flags) };
    let Ok(len) = usize::try_from(len) else { return Err(io::Error::last_os_error()) };
    if hdr.msg_namelen == 0 {
        return Ok(None);
    }
    data.truncate(len);
    let left = WITHOUT_CONTROL.get();
    WITHOUT_CONTROL.set(left.saturating_sub(1));
    let control_len = if left > 0 { 0 } else { hdr.msg_controllen as usize };
    let control = space.0[..control_len].to_vec();
    Ok(Some(Dequeued { name: name[..hdr.msg_namelen as usize].to_vec(), control, data }))
}

/// `recvmsg_x` without `SO_DONTTRUNC`.
unsafe extern "C" fn recvmsg_x(
    fd: c_int,
    headers: *mut MsgHdrX,
    count: c_uint,
    flags: c_int,
) -> isize {
    if flags & !libc::MSG_DONTWAIT != 0 || count == 0 || count > 1024 {
        return returned(Direction::Receive, count, fail(libc::EINVAL));
    }
    let (_, limit) = LIMIT.get().expect("the calls are installed");
    // SAFETY: the caller's.
    let headers = unsafe { slice::from_raw_parts_mut(headers, (count as usize).min(limit.max(1))) };
    // `soreceive_m_list`: payload and control data in lists of their own.
    let (mut taken, mut controls, mut wait) = (Vec::new(), Vec::new(), flags);
    while taken.len() < headers.len() {
        // SAFETY: no memory but its own.
        match unsafe { take(fd, wait) } {
            Ok(Some(message)) => {
                controls
                    .extend(Some(message.control.clone()).filter(|control| !control.is_empty()));
                taken.push(message);
            }
            Ok(None) => break,
            Err(error) if taken.is_empty() => {
                let errno = error.raw_os_error().expect("the kernel's");
                return returned(Direction::Receive, count, fail(errno));
            }
            Err(_) => break,
        }
        wait = flags | libc::MSG_DONTWAIT;
    }
    let mut buffers_before = None;
    for (i, (message, header)) in taken.iter().zip(&mut *headers).enumerate() {
        assert!((1..=1024).contains(&header.buffer_count), "EMSGSIZE, and the messages are lost");
        let before = buffers_before.replace(header.buffer_count);
        assert!(
            before.is_none_or(|before| before >= header.buffer_count),
            "writes past the kernel's memory"
        );
        assert_eq!(header.flags, 0);
        // SAFETY: the caller's.
        unsafe { copy_out(message, controls.get(i).map_or(&[], Vec::as_slice), header) };
    }
    returned(Direction::Receive, count, taken.len() as isize)
}

unsafe fn copy_out(message: &Dequeued, control: &[u8], header: &mut MsgHdrX) {
    // SAFETY: the caller's, for all of it.
    unsafe {
        let mut data = message.data.as_slice();
        for buffer in slice::from_raw_parts(header.buffers, header.buffer_count as usize) {
            let (now, later) = data.split_at(data.len().min(buffer.len()));
            ptr::copy(now.as_ptr(), buffer.start().cast_mut(), now.len());
            data = later;
        }
        // That something is left is not returned.
        header.data_len = message.data.len() - data.len();
        let len = message.name.len().min(header.name_len as usize);
        ptr::copy(message.name.as_ptr(), header.name.cast(), len);
        header.name_len = message.name.len() as _;
        let len = control.len().min((header.control_len as usize).min(CONTROL_SPACE.get()));
        ptr::copy(control.as_ptr(), header.control.cast(), len);
        header.control_len = len as _;
        header.flags = if len < control.len() { libc::MSG_CTRUNC } else { 0 };
    }
}

/// `sendmsg_x`.
unsafe extern "C" fn sendmsg_x(
    fd: c_int,
    headers: *const MsgHdrX,
    count: c_uint,
    flags: c_int,
) -> isize {
    if fd < 0 {
        return fail(libc::EBADF);
    }
    if flags != 0 {
        return returned(Direction::Send, count, fail(libc::EINVAL));
    }
    // SAFETY: the caller's.
    let headers = unsafe { slice::from_raw_parts(headers, count as usize) };
    for (i, header) in headers.iter().enumerate() {
        assert!(header.name_len == 0 && header.name.is_null(), "ignored on a connected socket");
        assert!((1..=1024).contains(&header.buffer_count), "the messages before are lost");
        // SAFETY: a C struct of pointers and numbers.
        let mut hdr: libc::msghdr = unsafe { mem::zeroed() };
        hdr.msg_iov = header.buffers.cast();
        hdr.msg_iovlen = header.buffer_count as _;
        hdr.msg_control = header.control;
        hdr.msg_controllen = header.control_len as _;
        // SAFETY: the caller's.
        if unsafe { libc::sendmsg(fd, &hdr, libc::MSG_NOSIGNAL) } >= 0 {
            continue;
        }
        let errno = io::Error::last_os_error().raw_os_error().expect("the kernel's");
        let is_counted =
            [libc::EINTR, libc::EWOULDBLOCK, libc::ENOBUFS, libc::EMSGSIZE].contains(&errno);
        let result = if i > 0 && is_counted { i as isize } else { fail(errno) };
        return returned(Direction::Send, count, result);
    }
    returned(Direction::Send, count, headers.len() as isize)
}
