//! `recvmsg_x` and `sendmsg_x`: many messages in one system call, on Apple's systems.
//!
//! Apple declares both in a header that it does not publish with its tools, and may change them. What is
//! said here about the kernel was read in its source, xnu-11417.121.6 (macOS 15.5), in
//! bsd/kern/uipc_syscalls.c if no other file is named. Tests run this file against a stand-in for that
//! kernel; it has never run on one.
//!
//! Three faults of the kernel cannot be avoided here; the crate's page lists them for users, and ARCHITECTURE.md lists
//! those that are avoided:
//!
//! - A `sendmsg_x` that sent messages and then fails returns their number if the error is `EINTR`,
//!   `EWOULDBLOCK`, `ENOBUFS` or `EMSGSIZE`. With any other error the number is lost, and the error is
//!   taken for the first message's.
//! - `sendmsg_x` counts messages as sent that it dropped: when no memory for a packet was left, when a signal came
//!   before the first one while another thread was sending (`sosend_list` in bsd/kern/uipc_socket.c), or
//!   when a content filter rejected one.
//! - A `recvmsg_x` that fails for lack of memory (`ENOBUFS`, `ENOMEM`) drops the messages that it took
//!   off the socket.

#![allow(unsafe_code)]
// The lengths in C's structs are wider here and narrower there.
#![allow(clippy::unnecessary_cast)]

use std::ffi::c_void;
use std::io;
use std::mem::{self, offset_of};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::slice;

use libc::{c_int, c_uint, socklen_t};
use socket2::{SockRef, Type};

use super::cmsg::option;
use super::header::{Buffer, Header};
use super::icmp::send_stopped;
use super::msg;
use super::retry::{Tried, retry};
use super::socket::is_inet;
#[cfg(any(test, fuzzing))]
use crate::sys::fault::{self, Call};
use crate::sys::headers::{WiredRecvs, WiredSends};
use crate::sys::{CallResult, Direction, MAX_BUFFERS, RecvResult, numbers};

#[cfg(all(test, target_os = "linux"))]
mod tests;
#[cfg(all(test, target_os = "linux"))]
pub(super) use tests::fake::installed;

/// The most messages of a call. `recvmsg_x` silently lowers a number above `kern.ipc.maxrecvmsgx`, by default
/// 256 (`SO_MAX_MSG_X_DEFAULT`) and 100 until macOS 13, and rejects one above 1,024 (`UIO_MAXIOV` in
/// bsd/sys/uio.h). `sendmsg_x` has no limit, and keeps a call's messages in memory.
pub(super) const MOST: usize = 64;
/// Buffers of a receive's messages, spare ones included: of one each for the largest number of messages.
const BUFFERS: usize = 2 * MOST;

/// `struct msghdr_x`, bsd/sys/socket_private.h.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct MsgHdrX {
    name: *mut c_void,
    name_len: socklen_t,
    buffers: *mut Buffer,
    buffer_count: c_int,
    control: *mut c_void,
    control_len: socklen_t,
    /// Of a receive, `MSG_CTRUNC` alone: that payload was truncated is noted elsewhere and not returned.
    flags: c_int,
    /// Bytes received; a send ignores it.
    data_len: usize,
}

// `struct user64_msghdr_x` there, which the kernel copies.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<MsgHdrX>() == 56 && align_of::<MsgHdrX>() == 8);
    assert!(offset_of!(MsgHdrX, name_len) == 8 && offset_of!(MsgHdrX, buffers) == 16);
    assert!(offset_of!(MsgHdrX, buffer_count) == 24 && offset_of!(MsgHdrX, control) == 32);
    assert!(offset_of!(MsgHdrX, control_len) == 40 && offset_of!(MsgHdrX, flags) == 44);
    assert!(offset_of!(MsgHdrX, data_len) == 48);
};

impl MsgHdrX {
    const EMPTY: Self = Self {
        name: ptr::null_mut(),
        name_len: 0,
        buffers: ptr::null_mut(),
        buffer_count: 0,
        control: ptr::null_mut(),
        control_len: 0,
        flags: 0,
        data_len: 0,
    };
}

pub(super) type RecvFn = unsafe extern "C" fn(c_int, *mut MsgHdrX, c_uint, c_int) -> isize;
pub(super) type SendFn = unsafe extern "C" fn(c_int, *const MsgHdrX, c_uint, c_int) -> isize;

/// The calls, as the system has them.
#[derive(Clone, Copy)]
pub(super) struct Calls {
    pub(super) recv: RecvFn,
    pub(super) send: SendFn,
    /// The most messages of a receive, from 1 to [`MOST`].
    pub(super) most: usize,
}

/// Whether the kernel of this release (`uname -r`) has calls that are safe to make.
///
/// Before Darwin 24.6 (macOS 15.6, iOS 18.6; xnu-11417.140.69) `recvmsg_x` may return with the socket's lock
/// held, which stops the machine's loopback interface until a restart (`soreceive_m_list` in
/// bsd/kern/uipc_socket.c; oven-sh/bun#34461). Those systems have the functions all the same.
pub(super) fn is_safe(release: &str) -> bool {
    let mut parts = release.split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return false };
    (major, minor) >= (24, 6)
}

/// Whether the process may make the calls at all, asked of a descriptor that nobody has: it is `EBADF`
/// if so.
pub(super) fn permitted(calls: &Calls) -> bool {
    const NOBODYS: c_int = -1;
    // SAFETY: one header, of no address, no buffers and no control data.
    unsafe { (calls.send)(NOBODYS, &MsgHdrX::EMPTY, 1, 0) };
    let forbidden = [libc::EPERM, libc::ENOSYS];
    !io::Error::last_os_error().raw_os_error().is_some_and(|errno| forbidden.contains(&errno))
}

/// Whether the calls may be made on the socket. On others, `recvmsg_x` drops what it took if received
/// descriptors cannot be installed, and `sendmsg_x` loses count of what it sent.
fn is_inet_datagram(socket: BorrowedFd<'_>) -> bool {
    is_inet(socket) && SockRef::from(&socket).r#type().is_ok_and(|ty| ty == Type::DGRAM)
}

/// Receives what waits, up to the number of headers; only the first message is waited for.
pub(super) fn recv(
    calls: &Calls,
    socket: BorrowedFd<'_>,
    wired: &mut WiredRecvs<'_>,
    flags: c_int,
) -> CallResult {
    // MSG_PEEK is EINVAL, and so is any flag but MSG_DONTWAIT.
    if flags & libc::MSG_PEEK != 0 || !is_inet_datagram(socket) {
        return msg::recv(socket, wired, flags);
    }
    let (mut received, mut made, mut wait) = (0, 0, flags);
    while received < wired.len() {
        let headers = &mut wired.as_mut().0[received..];
        let (offered, mut count) = match recv_some(calls, socket, headers, wait) {
            Ok(result) => result,
            Err(error) => return CallResult::stopped(received, error).after(made + 1),
        };
        made += usize::from(offered > 0);
        if count == 0 {
            // A message with too many buffers, or the end of a socket that is shut down, which the
            // caller recognizes by an empty message.
            made += 1;
            if let Err(error) = msg::recv_one(socket, wired, received, wait) {
                return CallResult::stopped(received, error).after(made);
            }
            count = 1;
        }
        received += count;
        if count < offered {
            break;
        }
        wait = flags | libc::MSG_DONTWAIT;
    }
    CallResult::moved(received).after(made)
}

/// Makes one call for the first of these headers. Returns how many it was made for, and how many
/// messages came.
fn recv_some(
    calls: &Calls,
    socket: BorrowedFd<'_>,
    headers: &mut [Header],
    flags: c_int,
) -> io::Result<(usize, usize)> {
    let mut spare = 0;
    let mut buffers = [Buffer::new(ptr::null(), 0); BUFFERS];
    let mut row = [MsgHdrX::EMPTY; MOST];
    let offered = wire(headers, &mut row[..calls.most], &mut buffers, &mut spare);
    if offered == 0 {
        return Ok((0, 0));
    }
    let count = retry(socket, Direction::Receive, flags, |flags| {
        let len = offered;
        #[cfg(any(test, fuzzing))]
        let len = fault::next(Call::RecvMmsg, len)?;
        // SAFETY: the invariant of WiredRecvs, for the memory that `wire` copied from `offered`
        // headers; `buffers` and `spare` outlive the call; `len` is at most `offered`.
        let n = unsafe {
            let flags = flags & libc::MSG_DONTWAIT;
            (calls.recv)(socket.as_raw_fd(), row.as_mut_ptr(), len as c_uint, flags)
        };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    })?;
    let count = count.min(offered);
    read_back(&row[..count], headers);
    Ok((offered, count))
}

/// Copies headers of a receive into `row`, each with the spare byte after its buffers. Returns how many.
///
/// The kernel truncates a message silently, so one that reaches the spare byte was too long.
///
/// All messages of a call have equally many buffers: the kernel lists the buffers of each in the memory
/// that it made for an earlier one's, if those were no more (`uio_max_iovs <= msg_iovlen`), and so writes
/// past that memory if they were fewer.
fn wire(headers: &[Header], row: &mut [MsgHdrX], mut free: &mut [Buffer], spare: &mut u8) -> usize {
    let spare = Buffer::new(ptr::from_mut(spare), 1);
    let each = headers.first().map_or(0, |header| header.buffers().1);
    let mut wired = 0;
    for (header, x) in headers.iter().zip(row) {
        let lent = buffers(header);
        if lent.len() != each || free.len() <= each {
            break;
        }
        let (own, rest) = mem::take(&mut free).split_at_mut(each + 1);
        free = rest;
        own[..each].copy_from_slice(lent);
        own[each] = spare;
        let ((name, name_len), (control, control_len)) = (header.name(), header.control());
        *x = MsgHdrX {
            name: name.cast_mut().cast(),
            name_len: name_len as socklen_t,
            buffers: own.as_mut_ptr(),
            buffer_count: own.len() as c_int,
            control: control.cast_mut().cast(),
            control_len: control_len as socklen_t,
            ..MsgHdrX::EMPTY
        };
        wired += 1;
    }
    wired
}

/// Copies what a call reported into the headers that it was made for.
///
/// The kernel has the control data of a call's messages in a list of its own, where a message without any
/// has no place (`soreceive_m_list`): it gets that of a message after it. So if only some messages have
/// control data, that of all is dropped, and reported as truncated.
fn read_back(row: &[MsgHdrX], headers: &mut [Header]) {
    let with_control = row.iter().filter(|x| x.control_len > 0).count();
    let is_paired = with_control == 0 || with_control == row.len();
    for (x, header) in row.iter().zip(headers) {
        let capacity =
            buffers(header).iter().fold(0, |sum: usize, one| sum.saturating_add(one.len()));
        header.set_result(RecvResult {
            len: x.data_len.min(capacity),
            truncated: x.data_len > capacity,
            control_truncated: x.flags & libc::MSG_CTRUNC != 0 || !is_paired,
            source_len: x.name_len as usize,
            control_len: 0,
        });
        header.0.msg_hdr.msg_controllen = if is_paired { x.control_len as _ } else { 0 };
    }
}

/// The buffers of a header that is wired for a receive.
fn buffers(header: &Header) -> &[Buffer] {
    let (first, count) = header.buffers();
    // SAFETY: the invariant of WiredRecvs, whose headers alone come here: `count` buffers at `first`.
    if count == 0 { &[] } else { unsafe { slice::from_raw_parts(first, count) } }
}

/// Sends messages without a destination together, and others one by one.
///
/// On a connected socket the kernel ignores destinations. On another one it loses count of what it sent
/// before an error, such as that of a destination without a route.
pub(super) fn send(
    calls: &Calls,
    socket: BorrowedFd<'_>,
    wired: &mut WiredSends<'_>,
    flags: c_int,
) -> CallResult {
    // With MSG_DONTWAIT the kernel counts messages as sent that it dropped because another thread was
    // sending (`sblock` in bsd/kern/uipc_socket2.c). Any other flag is EINVAL.
    if flags != libc::MSG_NOSIGNAL
        || run(wired, 0) < 2
        || !is_inet_datagram(socket)
        || may_signal(socket)
    {
        return msg::send(socket, wired, flags);
    }
    let (mut sent, mut made) = (0, 0);
    while sent < wired.len() {
        let run = run(wired, sent);
        let result = if run < 2 || msg::is_without_tos(socket, wired, sent) {
            msg::send_range(socket, wired, sent..sent + 1, Tried::No, flags)
        } else {
            send_run(calls, socket, wired, sent..sent + run, flags)
        };
        made += result.calls;
        sent = result.count;
        if result.error.is_some() {
            return result.after(made);
        }
    }
    CallResult::moved(sent).after(made)
}

/// Whether a send may end the process by `SIGPIPE`, as after a `shutdown`. `sendmsg_x` rejects `MSG_NOSIGNAL`;
/// the standard library, socket2 and mio set an option of the socket that does the same.
fn may_signal(socket: BorrowedFd<'_>) -> bool {
    numbers::NO_SIGPIPE.is_some() && option(socket, numbers::NO_SIGPIPE).unwrap_or(0) == 0
}

/// How many messages from number `first` on may go in one call: those without a destination and with the same
/// control data. If the kernel rejects that, it rejects the first message's, and no count is lost. Messages with equal
/// options share one control message in memory, so that the pointers are compared.
fn run(wired: &WiredSends<'_>, first: usize) -> usize {
    let control = wired.get(first).header().control();
    let fits = |i: &usize| {
        let header = wired.get(*i).header();
        // With another number of buffers, the kernel counts the messages before as sent, and drops them.
        let can_be_copied = (1..=MAX_BUFFERS).contains(&header.buffers().1);
        header.name_len() == 0 && header.control() == control && can_be_copied
    };
    (first..wired.len()).take(MOST).take_while(fits).count()
}

/// Sends the messages of a run by one call, and what it leaves one by one, as after a partial `sendmmsg`:
/// the kernel has dropped the error that ended it.
fn send_run(
    calls: &Calls,
    socket: BorrowedFd<'_>,
    wired: &mut WiredSends<'_>,
    run: Range<usize>,
    flags: c_int,
) -> CallResult {
    let mut row = [MsgHdrX::EMPTY; MOST];
    for (x, i) in row.iter_mut().zip(run.clone()) {
        let header = wired.get(i).header();
        let ((first, count), (control, control_len)) = (header.buffers(), header.control());
        *x = MsgHdrX {
            buffers: first.cast_mut(),
            buffer_count: count as c_int,
            control: control.cast_mut().cast(),
            control_len: control_len as socklen_t,
            ..MsgHdrX::EMPTY
        };
    }
    let result = retry(socket, Direction::Send, flags, |_| {
        let len = run.len();
        #[cfg(any(test, fuzzing))]
        let len = fault::next(Call::SendMmsg, len)?;
        // SAFETY: the invariant of WiredSends, for the memory that was copied from the run's headers;
        // `len` is at most their number, which is at most MOST. The kernel reads alone.
        let n = unsafe { (calls.send)(socket.as_raw_fd(), row.as_ptr(), len as c_uint, 0) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    });
    let rest = match result {
        Ok(count) if count < run.len() => (run.start + count..run.end, Tried::Once),
        Ok(_) => return CallResult::moved(run.end),
        Err(error) if msg::may_go_without_tos(&error, wired, run.start) => (run, Tried::No),
        Err(error) => return send_stopped(socket, false, run.start, error),
    };
    let result = msg::send_range(socket, wired, rest.0, rest.1, flags);
    let made = result.calls + 1;
    result.after(made)
}
