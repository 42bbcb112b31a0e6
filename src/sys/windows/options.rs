//! Socket options and socket controls, and the layout of control messages.

#![allow(unsafe_code)]

use std::io;
use std::os::windows::io::BorrowedSocket;
use std::ptr;

use windows_sys::Win32::Networking::WinSock::{
    FIONREAD, SIO_GET_EXTENSION_FUNCTION_POINTER, SO_PROTOCOL_INFOW, SOL_SOCKET, WSAEACCES,
    WSAEINVAL, WSAENOPROTOOPT, WSAEOPNOTSUPP, WSAIoctl, WSAPROTOCOL_INFOW, getsockopt, ioctlsocket,
    setsockopt,
};
use windows_sys::core::GUID;

use super::{handle, last_error};
use crate::sys::Layout;
use crate::sys::numbers::OptionName;

/// `WSACMSGHDR` (ws2def.h): a `size_t` length, level and type, all aligned to a pointer.
pub(crate) const CONTROL_LAYOUT: Layout = Layout {
    len_bytes: size_of::<usize>(),
    data_offset: (size_of::<usize>() + 8).next_multiple_of(size_of::<usize>()),
    align: size_of::<usize>(),
    big_endian: false,
};
/// Bytes of the microseconds in a `struct timeval` (winsock2.h): a C long.
pub(crate) const MICROSECONDS_LEN: usize = 4;

/// Sets an option that is a C int or a `DWORD`.
pub(crate) fn set_option(
    socket: BorrowedSocket<'_>,
    name: Option<OptionName>,
    value: i32,
) -> io::Result<()> {
    set_option_bytes(socket, name, &value.to_ne_bytes())
}

/// Sets an option that is a struct, given as its bytes.
pub(crate) fn set_option_bytes(
    socket: BorrowedSocket<'_>,
    name: Option<OptionName>,
    bytes: &[u8],
) -> io::Result<()> {
    let (level, name) = name.ok_or(io::ErrorKind::Unsupported)?;
    // SAFETY: the pointer is to as many readable bytes as the length says.
    let result =
        unsafe { setsockopt(handle(socket), level, name, bytes.as_ptr(), bytes.len() as i32) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Reads an option that is a C int or a `DWORD`; zero bytes stand for those that the system does not
/// give.
pub(crate) fn option(socket: BorrowedSocket<'_>, name: Option<OptionName>) -> io::Result<i32> {
    let (level, name) = name.ok_or(io::ErrorKind::Unsupported)?;
    let mut bytes = [0; 4];
    let mut len = bytes.len() as i32;
    // SAFETY: the pointer is to as many writable bytes as the length says.
    let result = unsafe { getsockopt(handle(socket), level, name, bytes.as_mut_ptr(), &mut len) };
    if result == 0 { Ok(i32::from_ne_bytes(bytes)) } else { Err(last_error()) }
}

/// What kind of socket it is. Its address does not say: an unbound socket has none.
pub(super) fn protocol(socket: BorrowedSocket<'_>) -> io::Result<WSAPROTOCOL_INFOW> {
    let mut info = WSAPROTOCOL_INFOW::default();
    let (start, mut len) = ((&raw mut info).cast(), size_of_val(&info) as i32);
    // SAFETY: the pointer is to as many writable bytes as the length says, of a struct of numbers.
    let result =
        unsafe { getsockopt(handle(socket), SOL_SOCKET, SO_PROTOCOL_INFOW, start, &mut len) };
    if result == 0 { Ok(info) } else { Err(last_error()) }
}

/// Whether an error of [`set_option`] is about the option, not about the socket.
pub(crate) fn is_about_the_option(error: &io::Error) -> bool {
    let about = [WSAENOPROTOOPT, WSAEOPNOTSUPP, WSAEINVAL, WSAEACCES];
    error.raw_os_error().is_some_and(|code| about.contains(&code))
}

/// Sends a socket control a `BOOL` or a `DWORD`.
pub(super) fn control(socket: BorrowedSocket<'_>, code: u32, value: u32) -> io::Result<()> {
    let mut returned = 0;
    // SAFETY: the input is as many readable bytes as its length says, and there is no output.
    let result = unsafe {
        WSAIoctl(
            handle(socket),
            code,
            (&raw const value).cast(),
            size_of_val(&value) as u32,
            ptr::null_mut(),
            0,
            &mut returned,
            ptr::null_mut(),
            None,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Whether anything waits in the socket's receive buffer.
pub(crate) fn has_queued_messages(socket: BorrowedSocket<'_>) -> bool {
    let mut waiting = 0;
    // SAFETY: the pointer is to a number that may be written.
    let result = unsafe { ioctlsocket(handle(socket), FIONREAD, &mut waiting) };
    result == 0 && waiting > 0
}

/// The address of an extension function; null if the system has none for this socket.
pub(super) fn extension(socket: BorrowedSocket<'_>, id: &GUID) -> *const () {
    let (mut function, mut returned) = (ptr::null::<()>(), 0);
    // SAFETY: input and output are as many bytes as their lengths say.
    let result = unsafe {
        WSAIoctl(
            handle(socket),
            SIO_GET_EXTENSION_FUNCTION_POINTER,
            ptr::from_ref(id).cast(),
            size_of_val(id) as u32,
            (&raw mut function).cast(),
            size_of_val(&function) as u32,
            &mut returned,
            ptr::null_mut(),
            None,
        )
    };
    if result == 0 { function } else { ptr::null() }
}
