//! The very descriptor of a blocked receiver is closed.
//!
//! A test binary of its own with one test: the number of a closed descriptor goes to whatever is
//! opened next, and a call of another test must not meet it.
#![cfg(unix)]

mod common;

use std::os::fd::{BorrowedFd, IntoRawFd};

use mmsg::{Backend, BatchSocket, RecvBatch};

use common::recv::{data_of, memory, recv_msgs};
use common::sockets::{addr, udp4};
use common::threads::Call;

/// The test chooses each backend in turn.
const BACKEND: Option<Backend> = None;

#[test]
fn r8_a_descriptor_closed_under_a_blocked_receiver_ends_in_a_result() {
    for backend in [Backend::Mmsg, Backend::Msg] {
        if let Err(error) = backend.make_process_default() {
            common::skip("a closed descriptor", format_args!("{backend:?}: {error}"));
            continue;
        }
        for into_batch in [false, true] {
            close_under_a_receiver(into_batch);
        }
    }
}

fn close_under_a_receiver(into_batch: bool) {
    let (sender, receiver) = (udp4(), udp4());
    let to = addr(&receiver);
    // Without an owner, so that it is not closed a second time.
    let fd = receiver.into_raw_fd();
    let call = Call::blocked(move || {
        // SAFETY: it is open until it is closed below, on purpose: the number is then no
        // descriptor until this test opens another, which happens after the call.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        receive(&socket, into_batch)
    });
    // SAFETY: nobody else owns it.
    assert_eq!(unsafe { libc::close(fd) }, 0);
    sender.send_to(b"are you there?", to).expect("loopback takes it");
    // A call that had begun holds the socket, which gets the datagram; one that had not finds no
    // descriptor. Both come back.
    match call.result() {
        Ok(got) => assert_eq!(got, [b"are you there?"]),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EBADF)),
    }

    // The next socket with the same number does not get a deferred error.
    let next = udp4();
    sender.send_to(b"hello", addr(&next)).expect("loopback takes it");
    assert_eq!(receive(&next, into_batch).expect("nothing is wrong with it"), [b"hello"]);
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
