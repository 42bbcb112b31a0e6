//! Errors that were met after messages had been moved.
//!
//! A call that needs a second system call may meet an error there, and must first tell of what it
//! has done. The kernel has forgotten that error by then: an asynchronous one, such as "connection
//! refused", is told once. It is kept here and handed out by the next call on the same socket in
//! the same direction, as the kernel itself does when a `recvmmsg` is cut short (net/socket.c,
//! do_recvmmsg: "record the error to return on the next call").

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::progress::Direction;
use crate::sys::{self, BorrowedSocket, RawSocket};

struct Kept {
    socket: RawSocket,
    id: u64,
    direction: Direction,
    errno: i32,
}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());
/// A bit for each socket number that has an error kept, by the number's remainder: what a call
/// looks at, so that it costs one load where there is none. An error that nobody asks for, since
/// its socket was closed, makes only calls on sockets of the same remainder look further.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

fn bit(number: RawSocket) -> u64 {
    // The low bits tell numbers apart; what else a platform has in them does not matter.
    1 << (number as u64 % 64)
}

/// Keeps an error for the socket's next call.
#[cold]
pub(crate) fn keep(socket: BorrowedSocket<'_>, direction: Direction, error: &io::Error) {
    let Some(errno) = error.raw_os_error() else { return };
    let (number, id, mut kept) = (sys::raw(socket), sys::socket_id(socket), lock());
    forget_earlier(&mut kept, number, id);
    kept.push(Kept { socket: number, id, direction, errno });
    note(&kept);
}

/// Takes the oldest error kept for the socket, if there is one.
#[inline]
pub(crate) fn take(socket: BorrowedSocket<'_>, direction: Direction) -> Option<io::Error> {
    if NUMBERS.load(Ordering::Acquire) & bit(sys::raw(socket)) == 0 {
        return None;
    }
    search(socket, direction)
}

#[cold]
fn search(socket: BorrowedSocket<'_>, direction: Direction) -> Option<io::Error> {
    let (number, mut kept) = (sys::raw(socket), lock());
    if !kept.iter().any(|entry| entry.socket == number) {
        return None;
    }
    forget_earlier(&mut kept, number, sys::socket_id(socket));
    let at = kept.iter().position(|entry| entry.socket == number && entry.direction == direction);
    let found = at.map(|at| io::Error::from_raw_os_error(kept.remove(at).errno));
    note(&kept);
    found
}

/// What was kept for an earlier socket of this number belongs to nobody any more. So there are
/// never more entries than sockets and threads that receive on them at once.
fn forget_earlier(kept: &mut Vec<Kept>, number: RawSocket, id: u64) {
    kept.retain(|entry| entry.socket != number || entry.id == id);
}

fn note(kept: &[Kept]) {
    NUMBERS.store(kept.iter().fold(0, |bits, entry| bits | bit(entry.socket)), Ordering::Release);
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
    fn r11_many_sockets_are_each_told_their_own() {
        let sockets: Vec<_> = (0..200).map(|_| socket()).collect();
        for (i, socket) in sockets.iter().enumerate() {
            keep(sys::borrow(socket), Direction::Send, &io::Error::from_raw_os_error(i as i32 + 1));
        }
        for (i, socket) in sockets.iter().enumerate().rev() {
            assert_eq!(taken(socket, Direction::Send), Some(i as i32 + 1));
            assert_eq!(taken(socket, Direction::Send), None);
        }
    }
}
