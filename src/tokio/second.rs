//! A second registration of a socket with tokio, for calls that cannot wait by the first.
//!
//! An epoll of its own stands between the socket and tokio. An epoll is readable or not and never in
//! error, so tokio's readiness of it can always be cleared. Each event of the socket is reported once:
//! an error queue that nobody drains does not end the next wait.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;
use ::tokio::runtime::Handle;

use crate::sys::{self, BorrowedSocket, Direction, Events};

/// The second registration, for one direction and one task.
pub(super) struct Second {
    events: AsyncFd<Events>,
    /// The task that registered. The task's waker stands for its runtime, which tokio 1.36 does not name: a
    /// registration with a runtime that no thread drives any more wakes no task.
    task: Waker,
}

impl Second {
    /// Registers the socket. `None` outside of a runtime, where nothing can be registered.
    fn new(
        socket: BorrowedSocket<'_>,
        direction: Direction,
        cx: &Context<'_>,
    ) -> io::Result<Option<Self>> {
        if Handle::try_current().is_err() {
            return Ok(None);
        }
        let events = Events::of(socket, direction)?;
        // The caller makes its call again after this, so earlier events are discarded. Otherwise a task whose
        // waker changes with each poll would be woken for ever.
        events.take()?;
        // The function is deprecated, since its argument's descriptor might be closed early; `Events` owns its
        // descriptor. The unsafe successor is not in tokio 1.36.
        #[allow(deprecated)]
        let events = AsyncFd::with_interest(events, Interest::READABLE)?;
        Ok(Some(Self { events, task: cx.waker().clone() }))
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.events.poll_read_ready(cx))?;
            if let Ok(taken) = ready.try_io(take) {
                return Poll::Ready(taken);
            }
        }
    }

    fn is_of(&self, cx: &Context<'_>) -> bool {
        self.task.will_wake(cx.waker())
    }
}

fn take(events: &AsyncFd<Events>) -> io::Result<()> {
    if events.get_ref().take()? { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

/// Waits for the next event. If `second` is not this task's, registers the socket and is ready at once, because
/// earlier events are not reported. `None` outside of a runtime.
pub(super) fn poll_event(
    socket: BorrowedSocket<'_>,
    direction: Direction,
    second: &mut Option<Second>,
    cx: &mut Context<'_>,
) -> Option<Poll<io::Result<()>>> {
    match second {
        Some(registered) if registered.is_of(cx) => {
            let event = registered.poll(cx);
            if let Poll::Ready(Err(_)) = event {
                // The registration's runtime has shut down. The next poll registers with its own runtime.
                *second = None;
            }
            Some(event.map(|_| Ok(())))
        }
        _ => match Second::new(socket, direction, cx) {
            Ok(new) => {
                *second = new;
                second.is_some().then_some(Poll::Ready(Ok(())))
            }
            Err(error) => Some(Poll::Ready(Err(error))),
        },
    }
}

/// Registrations of the `poll_` functions that send: they have no future to keep one in.
static POLLED: Mutex<Vec<Second>> = Mutex::new(Vec::new());
/// The length of [`POLLED`]. While it is 0, a send that completes pays for one load.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Waits until the socket has buffer space; `None` as [`poll_event`]. The registration stays until
/// [`end_poll`].
pub(super) fn poll_writable(
    socket: BorrowedSocket<'_>,
    cx: &mut Context<'_>,
) -> Option<Poll<io::Result<()>>> {
    let number = sys::raw(socket);
    let is_listed = |second: &Second| {
        let events = second.events.get_ref();
        events.socket() == number && events.is_open()
    };
    let mut second =
        change(|polled| polled.iter().position(is_listed).map(|index| polled.swap_remove(index)));
    let event = poll_event(socket, Direction::Send, &mut second, cx);
    if let Some(second) = second {
        change(|polled| polled.push(second));
    }
    event
}

/// Ends the registrations that polls of this socket have made. Wakes other tasks that wait by them.
pub(super) fn end_poll(socket: BorrowedSocket<'_>, cx: &Context<'_>) {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let number = sys::raw(socket);
    let is_listed = |second: &Second| second.events.get_ref().socket() == number;
    while let Some(ended) =
        change(|polled| polled.iter().position(is_listed).map(|index| polled.swap_remove(index)))
    {
        if !ended.is_of(cx) {
            ended.task.wake_by_ref();
        }
    }
}

/// Changes the list. Drops removed registrations and their wakers after it has unlocked the list.
fn change<R>(change: impl FnOnce(&mut Vec<Second>) -> R) -> R {
    let mut polled = lock();
    let result = change(&mut polled);
    let closed = take_closed(&mut polled);
    COUNT.store(polled.len(), Ordering::Release);
    drop(polled);
    drop(closed);
    result
}

/// Removes a registration whose socket was closed while a poll was pending: nothing else removes it. Checks one
/// registration, another each time, so that a long list costs a call no more than a short one.
fn take_closed(polled: &mut Vec<Second>) -> Option<Second> {
    if polled.is_empty() {
        return None;
    }
    polled.rotate_left(1);
    let is_open = polled.last().is_some_and(|second| second.events.get_ref().is_open());
    if is_open { None } else { polled.pop() }
}

fn lock() -> MutexGuard<'static, Vec<Second>> {
    POLLED.lock().unwrap_or_else(PoisonError::into_inner)
}
