//! Closes the descriptor of a blocked receiver.
//!
//! A test binary of its own with one test: the next open reuses the number of a closed descriptor, and could hand it
//! to another test.

mod common;

#[cfg(unix)]
use std::os::fd::{IntoRawFd, RawFd as RawHandle};
#[cfg(windows)]
use std::os::windows::io::{IntoRawSocket, RawSocket as RawHandle};

use mmsg::{Backend, BatchSocket, RecvBatch};

use common::BACKENDS;
use common::recv::{data_of, memory, recv_msgs};
use common::sockets::{BorrowedHandle, addr, udp4};
use common::threads::Call;

/// The test selects each backend in turn.
const BACKEND: Option<Backend> = None;

#[test]
fn a_descriptor_closed_under_a_blocked_receiver_ends_in_a_result() {
    for backend in BACKENDS {
        backend.make_process_default().expect("this platform has it");
        for into_batch in [false, true] {
            close_under_a_receiver(into_batch);
        }
    }
}

fn close_under_a_receiver(into_batch: bool) {
    let (sender, receiver) = (udp4(), udp4());
    let to = addr(&receiver);
    // Nobody owns the descriptor from here on, so nothing closes it twice.
    #[cfg(unix)]
    let raw = receiver.into_raw_fd();
    #[cfg(windows)]
    let raw = receiver.into_raw_socket();
    let call = Call::blocked(move || {
        // SAFETY: the descriptor is open until it is closed below, on purpose. No other gets its number until this
        // test opens one, which happens after the call.
        let socket = unsafe { BorrowedHandle::borrow_raw(raw) };
        receive(&socket, into_batch)
    });
    // SAFETY: nobody else owns it.
    unsafe { close(raw) };
    sender.send_to(b"are you there?", to).expect("loopback takes it");
    // On Unix, a call that has begun holds the socket and gets the datagram; on Windows it ends. A call that has not
    // begun finds no descriptor. All calls return.
    match call.result() {
        Ok(got) => assert_eq!(got, [b"are you there?"]),
        Err(error) => assert!(error.raw_os_error().is_some_and(|code| CLOSED.contains(&code))),
    }

    // The next socket with the same number gets nothing from this one.
    let next = udp4();
    sender.send_to(b"hello", addr(&next)).expect("loopback takes it");
    assert_eq!(receive(&next, into_batch).expect("nothing is wrong with it"), [b"hello"]);
}

/// The error of a call on a closed socket.
#[cfg(unix)]
const CLOSED: &[i32] = &[libc::EBADF];
#[cfg(windows)]
const CLOSED: &[i32] = &[common::errno::ENOTSOCK, common::errno::EINVAL];

/// Closes a socket by its number.
///
/// # Safety
///
/// Nobody else owns it.
unsafe fn close(raw: RawHandle) {
    // SAFETY: as the caller promises.
    #[cfg(unix)]
    let result = unsafe { libc::close(raw) };
    // SAFETY: as the caller promises.
    #[cfg(windows)]
    let result = unsafe { windows_sys::Win32::Networking::WinSock::closesocket(raw as usize) };
    assert_eq!(result, 0);
}

fn receive(socket: &dyn BatchSocket, into_batch: bool) -> std::io::Result<Vec<Vec<u8>>> {
    if into_batch {
        let mut batch = RecvBatch::new(8, 32);
        socket.recv_into(&mut batch)?;
        return Ok(batch.iter().map(|datagram| datagram.data().to_vec()).collect());
    }
    let mut memory = memory(8, 32);
    let mut msgs = recv_msgs(&mut memory);
    let count = socket.recv_batch(&mut msgs)?;
    Ok(data_of(&msgs[..count]))
}
