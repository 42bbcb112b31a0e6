//! A second registration of a socket with tokio, for calls that cannot wait by the first.
//!
//! An epoll of its own stands between the socket and tokio. An epoll is readable or not and never in
//! error, so tokio's readiness of it can always be cleared. Each event of the socket is reported once:
//! an error queue that nobody drains does not end the next wait.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;
use ::tokio::net::UdpSocket;
use ::tokio::runtime::Handle;

use crate::sys::{self, Direction, Events, RawSocket};

/// The second registration, for one direction. Only one task at a time waits on it.
pub(super) struct Second(AsyncFd<Events>);

impl Second {
    /// Registers the socket. `None` outside of a runtime, where nothing can be registered.
    pub(super) fn new(socket: &UdpSocket, direction: Direction) -> io::Result<Option<Self>> {
        if Handle::try_current().is_err() {
            return Ok(None);
        }
        let events = Events::of(sys::borrow(socket), direction)?;
        // Deprecated, since its argument's descriptor might be closed early; `Events` owns its own. The
        // unsafe successor is not in tokio 1.36.
        #[allow(deprecated)]
        AsyncFd::with_interest(events, Interest::READABLE).map(|events| Some(Self(events)))
    }

    /// Waits for an event since the last one.
    pub(super) async fn event(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            if let Ok(taken) = ready.try_io(take) {
                return taken;
            }
        }
    }

    fn poll_event(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            if let Ok(taken) = ready.try_io(take) {
                return Poll::Ready(taken);
            }
        }
    }
}

fn take(events: &AsyncFd<Events>) -> io::Result<()> {
    if events.get_ref().take()? { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

/// A registration on behalf of the `poll_` functions that send, which have no future to keep it in.
struct Polled {
    socket: RawSocket,
    id: u64,
    second: Arc<Second>,
    /// The task that polled last.
    task: Waker,
}

static POLLED: Mutex<Vec<Polled>> = Mutex::new(Vec::new());
/// How many there are: where there is none, a send that completes pays for one load.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Waits for room in the socket; `None` as [`Second::new`]. The registration stays until
/// [`end_poll`].
pub(super) fn poll_room(socket: &UdpSocket, cx: &mut Context<'_>) -> Option<Poll<io::Result<()>>> {
    let second = match of_polled(socket, cx) {
        Ok(second) => second?,
        Err(error) => return Some(Poll::Ready(Err(error))),
    };
    let event = second.poll_event(cx);
    if let Poll::Ready(Err(_)) = event {
        // Of another runtime, which has shut down. The next one is of this task's.
        end_poll(socket, cx);
    }
    Some(event.map(|_| Ok(())))
}

fn of_polled(socket: &UdpSocket, cx: &Context<'_>) -> io::Result<Option<Arc<Second>>> {
    let lent = sys::borrow(socket);
    let (number, id) = (sys::raw(lent), sys::socket_cookie(lent).unwrap_or(0));
    let task = cx.waker().clone();
    let found = lock()
        .iter_mut()
        .find(|polled| polled.is_of(number, id))
        .map(|polled| (Arc::clone(&polled.second), mem::replace(&mut polled.task, task.clone())));
    if let Some((second, _earlier)) = found {
        return Ok(Some(second));
    }
    let Some(second) = Second::new(socket, Direction::Send)? else { return Ok(None) };
    let second = Arc::new(second);
    let new = Polled { socket: number, id, second: Arc::clone(&second), task };
    // Those of sockets that were closed while a poll was pending come to no other end.
    drop(replace(|polled| !polled.second.0.get_ref().is_open(), Some(new)));
    Ok(Some(second))
}

/// Ends the registration that polls of this socket have made, if there is one. Another task that
/// waits by it has its turn.
pub(super) fn end_poll(socket: &UdpSocket, cx: &Context<'_>) {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let number = sys::raw(sys::borrow(socket));
    for ended in replace(|polled| polled.socket == number, None) {
        if !ended.task.will_wake(cx.waker()) {
            ended.task.wake();
        }
    }
}

/// Takes those out that meet a condition. The caller drops them, and the tasks' wakers with them,
/// when the list is no longer locked.
fn replace(ended: impl Fn(&Polled) -> bool, new: Option<Polled>) -> Vec<Polled> {
    let mut polled = lock();
    let (ended, mut others): (Vec<_>, Vec<_>) =
        mem::take(&mut *polled).into_iter().partition(ended);
    others.extend(new);
    COUNT.store(others.len(), Ordering::Release);
    *polled = others;
    ended
}

impl Polled {
    fn is_of(&self, socket: RawSocket, id: u64) -> bool {
        (self.socket, self.id) == (socket, id)
    }
}

fn lock() -> MutexGuard<'static, Vec<Polled>> {
    POLLED.lock().unwrap_or_else(PoisonError::into_inner)
}
