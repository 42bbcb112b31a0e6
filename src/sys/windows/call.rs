//! One batch by a call for each message: `WSARecvMsg`, and `WSASendMsg` or `WSASendTo`.

#![allow(unsafe_code)]

use std::io;
use std::os::windows::io::BorrowedSocket;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{mem, ptr, slice};

use windows_sys::Win32::Networking::WinSock::{
    LPFN_WSARECVMSG, MSG_CTRUNC, MSG_DONTROUTE, MSG_PEEK, MSG_TRUNC, POLLRDNORM, WSABUF,
    WSAEMSGSIZE, WSAEOPNOTSUPP, WSAESHUTDOWN, WSAEWOULDBLOCK, WSAID_WSARECVMSG, WSAMSG, WSAPOLLFD,
    WSAPoll, WSARecvFrom, WSASendMsg, WSASendTo,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::header::{Buffer, Header};
use super::options::extension;
use super::overlapped::without_waiting;
use super::retry::{is_from_network, retry_unrelated_icmp_error};
use super::{handle, last_error};
#[cfg(test)]
use crate::sys::fault::{self, Call};
use crate::sys::headers::{WiredRecvs, WiredSend, WiredSends};
use crate::sys::{Backend, CallResult, RecvFlags, SendFlags};

/// Receives message by message until one is not there; only the first is waited for.
pub(crate) fn recv(
    _: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut WiredRecvs<'_>,
    flags: RecvFlags,
) -> CallResult {
    let (mut wait, peek) = (!flags.contains(RecvFlags::DONT_WAIT), flags.contains(RecvFlags::PEEK));
    for i in 0..wired.len() {
        let header = &mut wired.as_mut().0[i];
        match retry_unrelated_icmp_error(socket, || recv_one(socket, header, peek, wait)) {
            Ok(()) => wait = false,
            Err(error) if error.raw_os_error() == Some(WSAESHUTDOWN) => {
                return CallResult { ended: true, ..CallResult::moved(i).after(i + 1) };
            }
            Err(error) => return CallResult::stopped(i, error).after(i + 1),
        }
    }
    CallResult::moved(wired.len()).after(wired.len())
}

/// Sends message by message until one is rejected.
pub(crate) fn send(
    _: Backend,
    socket: BorrowedSocket<'_>,
    wired: &mut WiredSends<'_>,
    flags: SendFlags,
) -> CallResult {
    send_each(socket, wired, flags)
}

fn send_each(socket: BorrowedSocket<'_>, wired: &WiredSends<'_>, flags: SendFlags) -> CallResult {
    for i in 0..wired.len() {
        let send = || send_one(socket, wired.get(i), flags);
        if let Err(error) = retry_unrelated_icmp_error(socket, send) {
            let reported_once = is_reported_once(socket, wired.has_dest(i), &error);
            return CallResult { reported_once, ..CallResult::stopped(i, error).after(i + 1) };
        }
    }
    CallResult::moved(wired.len()).after(wired.len())
}

/// Sends the only one of wired headers.
#[inline]
pub(crate) fn send_only(
    socket: BorrowedSocket<'_>,
    wired: &WiredSends<'_>,
    flags: SendFlags,
) -> CallResult {
    send_each(socket, wired, flags)
}

/// Whether the error of a send is about a datagram sent before: on a connected socket, one from the network
/// is. On another socket such an error is passed over.
#[cold]
pub(crate) fn is_reported_once(_: BorrowedSocket<'_>, _has_dest: bool, error: &io::Error) -> bool {
    is_from_network(error)
}

/// Receives one message into a header.
#[inline]
fn recv_one(
    socket: BorrowedSocket<'_>,
    header: &mut Header,
    peek: bool,
    wait: bool,
) -> io::Result<()> {
    #[cfg(test)]
    fault::next(Call::RecvMsg, 1)?;
    // An overlapped call cannot peek.
    let wait = if peek && !wait { is_readable(socket)? } else { wait };
    let (name_len, control_len) = (header.msg.namelen, header.msg.Control.len);
    header.msg.dwFlags = if peek { MSG_PEEK as u32 } else { 0 };
    // SAFETY: the invariant of WiredRecvs, from which the header is.
    let (len, result) = unsafe { recv_msg(socket, &mut header.msg, wait) };
    header.msg.dwFlags &= MSG_TRUNC | MSG_CTRUNC;
    header.received = len;
    match result {
        // Some of the payload or of the control data did not fit. Wine does not set the flag for the
        // payload, and counts no bytes.
        Err(error) if error.raw_os_error() == Some(WSAEMSGSIZE) => {
            if header.msg.dwFlags != MSG_CTRUNC || len == 0 {
                header.msg.dwFlags |= MSG_TRUNC;
                // SAFETY: the invariant of WiredRecvs.
                header.received = unsafe { capacity(&header.msg) };
            }
            Ok(())
        }
        Err(error) => {
            // As before, for the call that is made again.
            (header.msg.namelen, header.msg.Control.len) = (name_len, control_len);
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Bytes of the buffers of a header.
///
/// # Safety
///
/// `lpBuffers` points at as many buffers as `dwBufferCount` says.
unsafe fn capacity(msg: &WSAMSG) -> u32 {
    // SAFETY: the caller's.
    let buffers = unsafe { slice::from_raw_parts(msg.lpBuffers, msg.dwBufferCount as usize) };
    buffers.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.len))
}

/// Receives one message. Returns the bytes received as well.
///
/// # Safety
///
/// The invariant of [`WiredRecvs`].
unsafe fn recv_msg(
    socket: BorrowedSocket<'_>,
    msg: &mut WSAMSG,
    wait: bool,
) -> (u32, io::Result<()>) {
    let Some(function) = recv_msg_function(socket) else {
        return (0, Err(io::Error::from_raw_os_error(WSAEOPNOTSUPP)));
    };
    let s = handle(socket);
    if !wait {
        // SAFETY: the caller's; it borrows `msg` until the call has ended.
        return unsafe {
            without_waiting(socket, |overlapped| {
                function(s, msg, ptr::null_mut(), overlapped, None)
            })
        };
    }
    let mut len = 0;
    // SAFETY: the caller's.
    let result = unsafe { function(s, msg, &mut len, ptr::null_mut(), None) };
    let error = last_error();
    if result == 0 {
        (len, Ok(()))
    } else if msg.dwFlags & MSG_PEEK as u32 != 0 && error.raw_os_error() == Some(WSAEOPNOTSUPP) {
        // SAFETY: the caller's.
        unsafe { peek(socket, msg) }
    } else {
        (len, Err(error))
    }
}

/// Returns true if a message is there, else `WouldBlock`.
fn is_readable(socket: BorrowedSocket<'_>) -> io::Result<bool> {
    let mut poll = WSAPOLLFD { fd: handle(socket), events: POLLRDNORM, revents: 0 };
    // SAFETY: `poll` is one WSAPOLLFD.
    match unsafe { WSAPoll(&mut poll, 1, 0) } {
        0 => Err(io::Error::from_raw_os_error(WSAEWOULDBLOCK)),
        1.. => Ok(true),
        _ => Err(last_error()),
    }
}

/// Peeks where `WSARecvMsg` cannot: without control data.
///
/// # Safety
///
/// The invariant of [`WiredRecvs`].
#[cold]
unsafe fn peek(socket: BorrowedSocket<'_>, msg: &mut WSAMSG) -> (u32, io::Result<()>) {
    msg.Control.len = 0;
    let (mut len, mut flags) = (0, MSG_PEEK as u32);
    // SAFETY: the caller's.
    let result = unsafe {
        WSARecvFrom(
            handle(socket),
            msg.lpBuffers,
            msg.dwBufferCount,
            &mut len,
            &mut flags,
            msg.name,
            &mut msg.namelen,
            ptr::null_mut(),
            None,
        )
    };
    msg.dwFlags = 0;
    (len, if result == 0 { Ok(()) } else { Err(last_error()) })
}

/// `WSARecvMsg`, which the system's library does not export.
fn recv_msg_function(
    socket: BorrowedSocket<'_>,
) -> Option<unsafe extern "system" fn(usize, *mut WSAMSG, *mut u32, *mut OVERLAPPED, Routine) -> i32>
{
    static FUNCTION: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
    let mut function = FUNCTION.load(Ordering::Relaxed).cast_const();
    if function.is_null() {
        function = extension(socket, &WSAID_WSARECVMSG);
        FUNCTION.store(function.cast_mut(), Ordering::Relaxed);
    }
    // SAFETY: null, which is `None`, or what the system calls by this name; it stays loaded.
    unsafe { mem::transmute::<*const (), LPFN_WSARECVMSG>(function) }
}

type Routine = windows_sys::Win32::Networking::WinSock::LPWSAOVERLAPPED_COMPLETION_ROUTINE;

/// Sends one message of one buffer without options, to the address in `name` if that is not empty.
#[inline]
pub(crate) fn send_plain(
    socket: BorrowedSocket<'_>,
    name: &[u8],
    data: &[u8],
    flags: SendFlags,
) -> io::Result<()> {
    let buffer = Buffer::new(data.as_ptr(), data.len());
    let mut header = Header { msg: WSAMSG::default(), received: 0 };
    header.set_name(name.as_ptr(), name.len());
    header.set_buffers(&raw const buffer, 1);
    // SAFETY: the header points at `name`, `buffer` and `data` alone, which outlive the call.
    let send = || unsafe { send_header(socket, &header.msg, flags) };
    retry_unrelated_icmp_error(socket, send)
}

/// Sends the message in a header.
#[inline]
fn send_one(socket: BorrowedSocket<'_>, wired: WiredSend<'_>, flags: SendFlags) -> io::Result<()> {
    #[cfg(test)]
    if let Some(result) = super::segments::send(socket, wired) {
        return result;
    }
    // SAFETY: the invariant of WiredSends, from which the header is.
    unsafe { send_header(socket, &wired.header().msg, flags) }
}

/// Sends one message, and waits unless the flags say otherwise.
///
/// # Safety
///
/// What the header points to is readable, by the lengths beside the pointers.
#[inline]
unsafe fn send_header(
    socket: BorrowedSocket<'_>,
    msg: &WSAMSG,
    flags: SendFlags,
) -> io::Result<()> {
    #[cfg(test)]
    fault::next(Call::SendMsg, 1)?;
    let native = if flags.contains(SendFlags::DONT_ROUTE) { MSG_DONTROUTE as u32 } else { 0 };
    if !flags.contains(SendFlags::DONT_WAIT) {
        // SAFETY: the caller's.
        let result = unsafe { send_msg(socket, msg, native, ptr::null_mut()) };
        return if result == 0 { Ok(()) } else { Err(last_error()) };
    }
    // SAFETY: the caller's; the header is borrowed until the call has ended.
    let (_, result) =
        unsafe { without_waiting(socket, |overlapped| send_msg(socket, msg, native, overlapped)) };
    result
}

/// Sends one message: without control data by `WSASendTo`, which has less to read.
///
/// # Safety
///
/// That of [`send_header`], until the overlapped call has ended if it is one.
#[inline]
unsafe fn send_msg(
    socket: BorrowedSocket<'_>,
    msg: &WSAMSG,
    flags: u32,
    overlapped: *mut OVERLAPPED,
) -> i32 {
    let (s, mut sent) = (handle(socket), 0);
    let sent: *mut u32 = if overlapped.is_null() { &mut sent } else { ptr::null_mut() };
    if msg.Control.len > 0 {
        // SAFETY: the caller's.
        return unsafe { WSASendMsg(s, msg, flags, sent, overlapped, None) };
    }
    let (buffers, count): (*const WSABUF, _) = (msg.lpBuffers, msg.dwBufferCount);
    // SAFETY: the caller's.
    unsafe { WSASendTo(s, buffers, count, sent, flags, msg.name, msg.namelen, overlapped, None) }
}
