//! Errors that were met after messages had been moved.
//!
//! A call that needs a second system call may meet an error there, and must first tell of what it
//! has done. The kernel has forgotten that error by then: an asynchronous one, such as "connection
//! refused", is told once. It is kept here and handed out by the next call on the same socket in
//! the same direction, as the kernel itself does when a `recvmmsg` is cut short (net/socket.c,
//! do_recvmmsg: "record the error to return on the next call").

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::progress::Direction;
use crate::sys::{self, BorrowedSocket, RawSocket};

struct Kept {
    socket: RawSocket,
    id: u64,
    direction: Direction,
    errno: i32,
}

/// Enough for every socket that is between two calls; beyond it, the oldest goes: its socket has
/// most likely been closed.
const MOST: usize = 64;

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
/// How many are kept: what a call looks at, so that it costs one load when there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Keeps an error for the socket's next call.
#[cold]
pub(crate) fn keep(socket: BorrowedSocket<'_>, direction: Direction, error: &io::Error) {
    let Some(errno) = error.raw_os_error() else { return };
    let entry = Kept { socket: sys::raw(socket), id: sys::socket_id(socket), direction, errno };
    let mut kept = lock();
    if kept.capacity() == 0 {
        kept.reserve_exact(MOST);
    }
    if kept.len() == MOST {
        kept.remove(0);
    }
    kept.push(entry);
    COUNT.store(kept.len(), Ordering::Release);
}

/// Takes the oldest error kept for the socket, if there is one.
#[inline]
pub(crate) fn take(socket: BorrowedSocket<'_>, direction: Direction) -> Option<io::Error> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    search(socket, direction)
}

#[cold]
fn search(socket: BorrowedSocket<'_>, direction: Direction) -> Option<io::Error> {
    let (number, mut kept) = (sys::raw(socket), lock());
    if kept.iter().any(|entry| entry.socket == number) {
        // What was kept for an earlier socket of this number belongs to nobody any more.
        let id = sys::socket_id(socket);
        kept.retain(|entry| entry.socket != number || entry.id == id);
    }
    let at = kept.iter().position(|entry| entry.socket == number && entry.direction == direction);
    let found = at.map(|at| io::Error::from_raw_os_error(kept.remove(at).errno));
    COUNT.store(kept.len(), Ordering::Release);
    found
}

fn lock() -> MutexGuard<'static, Vec<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn socket() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").expect("a loopback socket")
    }

    fn taken(socket: &UdpSocket, direction: Direction) -> Option<i32> {
        take(sys::borrow(socket), direction).and_then(|error| error.raw_os_error())
    }

    #[test]
    fn an_error_is_told_once_to_its_socket_and_direction() {
        let (a, b) = (socket(), socket());
        keep(sys::borrow(&a), Direction::Receive, &io::Error::from_raw_os_error(111));
        assert_eq!(taken(&b, Direction::Receive), None);
        assert_eq!(taken(&a, Direction::Send), None);
        assert_eq!(taken(&a, Direction::Receive), Some(111));
        assert_eq!(taken(&a, Direction::Receive), None);
    }

    #[test]
    fn an_error_is_not_told_to_a_later_socket_of_the_same_number() {
        // The number of a closed socket is usually given to the next one, but another test's
        // thread may take it first.
        for _ in 0..100 {
            let first = socket();
            let number = sys::raw(sys::borrow(&first));
            keep(sys::borrow(&first), Direction::Receive, &io::Error::from_raw_os_error(111));
            drop(first);
            let second = socket();
            if sys::raw(sys::borrow(&second)) == number {
                assert_eq!(taken(&second, Direction::Receive), None);
                return;
            }
        }
        panic!("no number was given twice");
    }

    #[test]
    fn what_nobody_asks_for_is_bounded() {
        let sockets: Vec<_> = (0..MOST + 8).map(|_| socket()).collect();
        for socket in &sockets {
            keep(sys::borrow(socket), Direction::Send, &io::Error::from_raw_os_error(111));
        }
        assert!(lock().len() <= MOST);
        let told = sockets.iter().filter(|socket| taken(socket, Direction::Send).is_some()).count();
        assert!(told >= MOST / 2, "{told} of the newest are still told");
    }
}
