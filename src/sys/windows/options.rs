//! Socket options, socket controls, and the layout of control messages.

#![allow(unsafe_code)]

use std::io;
use std::os::windows::io::BorrowedSocket;
use std::ptr;
use std::sync::OnceLock;

use windows_sys::Win32::Networking::WinSock::{
    LPFN_WSARECVMSG, LPWSAOVERLAPPED_COMPLETION_ROUTINE, SIO_GET_EXTENSION_FUNCTION_POINTER,
    SIO_UDP_CONNRESET, SIO_UDP_NETRESET, SO_PROTOCOL_INFOW, SOCKET, SOL_SOCKET, WSAEACCES,
    WSAEINVAL, WSAENOPROTOOPT, WSAEOPNOTSUPP, WSAID_WSARECVMSG, WSAIoctl, WSAMSG,
    WSAPROTOCOL_INFOW, getsockopt, setsockopt,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::{check, handle};
use crate::sys::numbers::OptionName;

/// Bytes of the length in a `WSACMSGHDR` (ws2def.h): a `size_t`, before level and type.
pub(crate) const CMSG_LEN_BYTES: usize = size_of::<usize>();
/// Bytes from the start of a control message to its payload.
pub(crate) const CMSG_DATA_OFFSET: usize = (CMSG_LEN_BYTES + 8).next_multiple_of(CMSG_ALIGN);
/// Each control message begins at a multiple of this.
pub(crate) const CMSG_ALIGN: usize = size_of::<usize>();
/// Bytes of the microseconds in a `struct timeval` (winsock2.h): a C long.
pub(crate) const MICROSECONDS_LEN: usize = 4;

/// Sets an option from its bytes.
pub(crate) fn set_option_bytes(
    socket: BorrowedSocket<'_>,
    name: Option<OptionName>,
    bytes: &[u8],
) -> io::Result<()> {
    let (level, name) = name.ok_or(io::ErrorKind::Unsupported)?;
    // SAFETY: the pointer and the length are those of a slice.
    check(unsafe { setsockopt(handle(socket), level, name, bytes.as_ptr(), bytes.len() as i32) })
}

/// Reads an option that is a C int or a `DWORD`. Bytes that the system does not return are zero.
pub(crate) fn option(socket: BorrowedSocket<'_>, name: Option<OptionName>) -> io::Result<i32> {
    #[cfg(test)]
    if name == crate::sys::numbers::SEGMENT && crate::sys::fault::segments() {
        return Ok(0);
    }
    option_bytes(socket, name).map(i32::from_ne_bytes)
}

/// Reads an option of `N` bytes. Bytes that the system does not return are zero.
pub(crate) fn option_bytes<const N: usize>(
    socket: BorrowedSocket<'_>,
    name: Option<OptionName>,
) -> io::Result<[u8; N]> {
    let mut value = [0; N];
    // SAFETY: any bytes are valid bytes.
    unsafe { read_option(socket, name.ok_or(io::ErrorKind::Unsupported)?, &mut value)? };
    Ok(value)
}

/// The family and kind of the socket, also of an unbound one, which has no address to read the family from.
pub(super) fn protocol(socket: BorrowedSocket<'_>) -> io::Result<WSAPROTOCOL_INFOW> {
    let mut info = WSAPROTOCOL_INFOW::default();
    // SAFETY: any bytes are a valid value of a struct of numbers.
    unsafe { read_option(socket, (SOL_SOCKET, SO_PROTOCOL_INFOW), &mut info)? };
    Ok(info)
}

/// # Safety
///
/// Any bytes are a valid value of `T`.
unsafe fn read_option<T>(
    socket: BorrowedSocket<'_>,
    (level, name): OptionName,
    value: &mut T,
) -> io::Result<()> {
    let (start, mut len) = (ptr::from_mut(value).cast(), size_of::<T>() as i32);
    // SAFETY: the pointer and the length are those of `value`.
    check(unsafe { getsockopt(handle(socket), level, name, start, &mut len) })
}

/// Whether an error of [`set_option_bytes`] is about the option and not about the socket.
pub(crate) fn is_about_the_option(error: &io::Error) -> bool {
    let about = [WSAENOPROTOOPT, WSAEOPNOTSUPP, WSAEINVAL, WSAEACCES];
    error.kind() == io::ErrorKind::Unsupported
        || error.raw_os_error().is_some_and(|code| about.contains(&code))
}

/// Turns off ICMP errors for the socket. A failure does no harm, since calls repeat after each such error anyway.
#[cold]
pub(super) fn turn_off_icmp_errors(socket: BorrowedSocket<'_>) {
    for code in [SIO_UDP_CONNRESET, SIO_UDP_NETRESET] {
        // SAFETY: both take a `BOOL` and return nothing.
        let _ = unsafe { control(socket, code, &0_u32, &mut ()) };
    }
}

type WsaRecvMsg = unsafe extern "system" fn(
    SOCKET,
    *mut WSAMSG,
    *mut u32,
    *mut OVERLAPPED,
    LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32;

/// The function `WSARecvMsg`. No library exports it: a socket control returns its address.
pub(super) fn recv_msg_function(socket: BorrowedSocket<'_>) -> io::Result<WsaRecvMsg> {
    static FUNCTION: OnceLock<WsaRecvMsg> = OnceLock::new();
    if let Some(function) = FUNCTION.get() {
        return Ok(*function);
    }
    let mut function: LPFN_WSARECVMSG = None;
    // SAFETY: this control takes a GUID, and returns its function or null. The function stays loaded.
    unsafe {
        control(socket, SIO_GET_EXTENSION_FUNCTION_POINTER, &WSAID_WSARECVMSG, &mut function)?;
    }
    let function = function.ok_or(io::ErrorKind::Unsupported)?;
    Ok(*FUNCTION.get_or_init(|| function))
}

/// Calls a socket control (`WSAIoctl`).
///
/// # Safety
///
/// The control takes an `I` and returns an `O`.
unsafe fn control<I, O>(
    socket: BorrowedSocket<'_>,
    code: u32,
    input: &I,
    output: &mut O,
) -> io::Result<()> {
    let mut returned = 0;
    // SAFETY: the lengths are those of `input` and `output`; the caller promises the right types.
    check(unsafe {
        WSAIoctl(
            handle(socket),
            code,
            ptr::from_ref(input).cast(),
            size_of::<I>() as u32,
            ptr::from_mut(output).cast(),
            size_of::<O>() as u32,
            &mut returned,
            ptr::null_mut(),
            None,
        )
    })
}
