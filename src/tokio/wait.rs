//! Waiting for a socket by tokio, and making a call when it is ready.
//!
//! tokio remembers that a socket is ready until a call says `WouldBlock`; only then does it look
//! for a new event. Two kinds of readiness it never forgets, since they are final for a stream:
//! that the reading side is closed, and that the writing side is. A datagram socket has them after
//! `shutdown`, and (writing) after any ICMP error that epoll has told of. A call that says
//! `WouldBlock` would be made again at once then, for ever and within one poll: so the second
//! `WouldBlock` in a row ends the poll.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use ::tokio::io::Interest;
use ::tokio::net::UdpSocket;

use crate::pending;
use crate::progress::Direction;
use crate::sys;

/// What a call came to, within what tokio says of its runtime.
type Made = io::Result<io::Result<usize>>;

/// Makes a call that receives, as soon as the socket is readable or has an error to tell.
pub(super) async fn receive(
    socket: &UdpSocket,
    mut call: impl FnMut() -> io::Result<usize>,
) -> Made {
    loop {
        if let Some(error) = kept(socket, Direction::Receive) {
            return Ok(Err(error));
        }
        // Without the interest in errors, an ICMP error would wake only who waits to send.
        let interest = Interest::READABLE | Interest::ERROR;
        let mut tries = Tries::default();
        if let Some(result) = socket.async_io(interest, || tries.make(&mut call)).await? {
            return Ok(result);
        }
        if poll_fn(|cx| Poll::Ready(is_shut_down(socket, cx))).await {
            return Ok(Ok(0));
        }
        give_turn().await;
    }
}

/// Makes a call that sends, as soon as the socket is writable.
pub(super) async fn send(socket: &UdpSocket, mut call: impl FnMut() -> io::Result<usize>) -> Made {
    loop {
        if let Some(error) = kept(socket, Direction::Send) {
            return Ok(Err(error));
        }
        let mut tries = Tries::default();
        let made = socket.async_io(Interest::WRITABLE, || tries.make(&mut call)).await?;
        if let Some(result) = made {
            return Ok(result);
        }
        give_turn().await;
    }
}

/// Makes a call that receives, if the socket is readable.
pub(super) fn poll_receive(
    socket: &UdpSocket,
    cx: &mut Context<'_>,
    mut call: impl FnMut() -> io::Result<usize>,
) -> Poll<Made> {
    if let Some(error) = kept(socket, Direction::Receive) {
        return Poll::Ready(Ok(Err(error)));
    }
    let mut tries = Tries::default();
    loop {
        ready!(socket.poll_recv_ready(cx))?;
        match socket.try_io(Interest::READABLE, || tries.make(&mut call)) {
            Ok(Some(result)) => return Poll::Ready(Ok(result)),
            Ok(None) if is_shut_down(socket, cx) => return Poll::Ready(Ok(Ok(0))),
            Ok(None) => return later(cx),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
}

/// Makes a call that sends, if the socket is writable.
pub(super) fn poll_send(
    socket: &UdpSocket,
    cx: &mut Context<'_>,
    mut call: impl FnMut() -> io::Result<usize>,
) -> Poll<Made> {
    if let Some(error) = kept(socket, Direction::Send) {
        return Poll::Ready(Ok(Err(error)));
    }
    let mut tries = Tries::default();
    loop {
        ready!(socket.poll_send_ready(cx))?;
        match socket.try_io(Interest::WRITABLE, || tries.make(&mut call)) {
            Ok(Some(result)) => return Poll::Ready(Ok(result)),
            Ok(None) => return later(cx),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
}

/// How often a call found the socket not ready that tokio takes for ready.
#[derive(Default)]
struct Tries(u8);

impl Tries {
    /// Makes the call. `WouldBlock` is an error for tokio to hear of; the second one gives `None`.
    fn make(
        &mut self,
        call: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<Option<io::Result<usize>>> {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.0 += 1;
                if self.0 == 1 { Err(error) } else { Ok(None) }
            }
            result => Ok(Some(result)),
        }
    }
}

/// An error that an earlier call has kept for the next one. It does not wait for the socket.
fn kept(socket: &UdpSocket, direction: Direction) -> Option<io::Error> {
    pending::take(sys::borrow(socket), direction)
}

/// Whether nothing further need be waited for on the receiving side.
fn is_shut_down(socket: &UdpSocket, cx: &mut Context<'_>) -> bool {
    let ready = pin!(socket.ready(Interest::READABLE)).poll(cx);
    matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
}

/// Lets the other tasks go first.
async fn give_turn() {
    let mut given = false;
    poll_fn(|cx| {
        if given {
            return Poll::Ready(());
        }
        given = true;
        later(cx)
    })
    .await;
}

fn later<R>(cx: &mut Context<'_>) -> Poll<R> {
    cx.waker().wake_by_ref();
    Poll::Pending
}
