//! The very descriptor of a blocked receiver is closed.
//!
//! A test binary of its own with one test: the number of a closed descriptor goes to whatever is
//! opened next, and a call of another test must not meet it.

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

/// The test chooses each backend in turn.
const BACKEND: Option<Backend> = None;

#[test]
fn r8_a_descriptor_closed_under_a_blocked_receiver_ends_in_a_result() {
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
    // From here on nobody owns it, so that nobody closes it a second time.
    #[cfg(unix)]
    let raw = receiver.into_raw_fd();
    #[cfg(windows)]
    let raw = receiver.into_raw_socket();
    let call = Call::blocked(move || {
        // SAFETY: it is open until it is closed below, on purpose: the number is then no
        // descriptor until this test opens another, which happens after the call.
        let socket = unsafe { BorrowedHandle::borrow_raw(raw) };
        receive(&socket, into_batch)
    });
    // SAFETY: nobody else owns it.
    unsafe { close(raw) };
    sender.send_to(b"are you there?", to).expect("loopback takes it");
    // On Unix a call that had begun holds the socket, which gets the datagram; on Windows it ends. One that had
    // not begun finds no descriptor. All of them come back.
    match call.result() {
        Ok(got) => assert_eq!(got, [b"are you there?"]),
        Err(error) => assert!(error.raw_os_error().is_some_and(|code| CLOSED.contains(&code))),
    }

    // The next socket with the same number gets nothing of this one.
    let next = udp4();
    sender.send_to(b"hello", addr(&next)).expect("loopback takes it");
    assert_eq!(receive(&next, into_batch).expect("nothing is wrong with it"), [b"hello"]);
}

/// The error of a call on a socket that is closed.
#[cfg(unix)]
const CLOSED: &[i32] = &[libc::EBADF];
#[cfg(windows)]
const CLOSED: &[i32] = &[common::errno::ENOTSOCK, common::errno::EINVAL];

/// Closes a socket by its number.
///
/// # Safety
///
/// Nobody owns it.
unsafe fn close(raw: RawHandle) {
    // SAFETY: the caller's.
    #[cfg(unix)]
    let result = unsafe { libc::close(raw) };
    // SAFETY: the caller's.
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
