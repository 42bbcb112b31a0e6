//! Calls that do not wait, on a socket of either mode.
//!
//! Windows has no flag for it, and does not report whether a socket is blocking. So the crate begins an
//! overlapped call and cancels it if the system has not completed it at once.

#![allow(unsafe_code)]

use std::cell::OnceCell;
use std::io;
use std::os::windows::io::BorrowedSocket;
use std::process;
use std::ptr;

use windows_sys::Win32::Foundation::STATUS_PENDING;
use windows_sys::Win32::Networking::WinSock::{
    WSA_INVALID_EVENT, WSA_IO_PENDING, WSA_OPERATION_ABORTED, WSACloseEvent, WSACreateEvent,
    WSAEVENT, WSAEWOULDBLOCK, WSAGetOverlappedResult,
};
use windows_sys::Win32::System::IO::{CancelIoEx, OVERLAPPED};

use super::{handle, last_error};

thread_local!(static EVENT: OnceCell<Event> = const { OnceCell::new() });

/// What a thread waits on for the end of its overlapped call.
struct Event(WSAEVENT);

impl Event {
    fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let event = unsafe { WSACreateEvent() };
        if event == WSA_INVALID_EVENT { Err(last_error()) } else { Ok(Self(event)) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: no pointers; nobody else has the handle.
        unsafe { WSACloseEvent(self.0) };
    }
}

/// The thread's event. It is made for the thread's first call.
fn event() -> io::Result<WSAEVENT> {
    EVENT.with(|cell| match cell.get() {
        Some(event) => Ok(event.0),
        None => Event::new().map(|event| cell.get_or_init(|| event).0),
    })
}

/// Makes an overlapped call on `socket` by `start`, and cancels it if it would wait: `WouldBlock`.
/// Returns the bytes moved as well, whatever the result is.
///
/// # Safety
///
/// `start` makes one overlapped call on `socket` with the `OVERLAPPED` that it is given, and returns its
/// result. The memory that the call uses stays valid until this function returns.
pub(super) unsafe fn without_waiting(
    socket: BorrowedSocket<'_>,
    start: impl FnOnce(*mut OVERLAPPED) -> i32,
) -> (u32, io::Result<()>) {
    let event = match event() {
        Ok(event) => event,
        Err(error) => return (0, Err(error)),
    };
    // The lowest bit keeps the completion out of a port that the socket may belong to
    // (GetQueuedCompletionStatus, remarks).
    let mut overlapped = OVERLAPPED {
        hEvent: ptr::without_provenance_mut(event as usize | 1),
        ..Default::default()
    };
    let overlapped = &raw mut overlapped;
    let pending = match start(overlapped) {
        0 => false,
        _ => match last_error() {
            error if error.raw_os_error() == Some(WSA_IO_PENDING) => true,
            // SAFETY: `overlapped` is alive, and no call uses it.
            error => return (unsafe { (*overlapped).InternalHigh } as u32, Err(error)),
        },
    };
    if pending {
        // SAFETY: the call that `start` has made. If it has completed by now, this fails.
        unsafe { CancelIoEx(ptr::without_provenance_mut(handle(socket)), overlapped) };
    }
    let (mut len, mut flags) = (0, 0);
    // SAFETY: as above; it returns once the system is done with `overlapped` and the call's memory.
    let ok = unsafe { WSAGetOverlappedResult(handle(socket), overlapped, &mut len, 1, &mut flags) };
    let error = last_error();
    // SAFETY: `overlapped` is alive. The system writes to it, so the read is volatile.
    if unsafe { (&raw const (*overlapped).Internal).read_volatile() } == STATUS_PENDING as usize {
        // The wait has failed, and the system may still write to memory that is about to be reused.
        process::abort();
    }
    match error.raw_os_error() {
        _ if ok != 0 => (len, Ok(())),
        Some(WSA_OPERATION_ABORTED) => (0, Err(io::Error::from_raw_os_error(WSAEWOULDBLOCK))),
        // SAFETY: as above, now that the call has completed.
        _ => (unsafe { (*overlapped).InternalHigh } as u32, Err(error)),
    }
}
