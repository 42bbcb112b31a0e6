//! Deferred errors: an error that follows a partial transfer is returned by the next call.
//!
//! The second system call of a batch may fail after the first has moved messages. The batch then
//! returns its count. The kernel reports an asynchronous error, such as "connection refused", only
//! once, so the error is stored here for the next call on the same socket in the same direction. Equal errors
//! are stored once. The kernel itself does so when a `recvmmsg` ends early (do_recvmmsg in net/socket.c: "record the error
//! to return on the next call").

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sys::{self, BorrowedSocket, Direction, RawSocket};

/// Identifies a socket across calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    /// The same for all descriptors of a socket, and never reused for another socket.
    Cookie(u64),
    /// The descriptor and the local port, where the system has no cookies. The next socket that is opened may get the
    /// number of one that was closed, but hardly the port as well.
    Number(RawSocket, u16),
}

impl Id {
    fn of(socket: BorrowedSocket<'_>) -> Self {
        let number = || Self::Number(sys::raw(socket), sys::local_port(socket));
        sys::socket_cookie(socket).map_or_else(number, Self::Cookie)
    }

    /// One bit of 64. Cookies and descriptors both count up from a small number.
    fn bit(self) -> u64 {
        let number = match self {
            Self::Cookie(cookie) => cookie,
            Self::Number(number, _) => number as u64,
        };
        1 << (number % 64)
    }
}

struct Deferred {
    id: Id,
    direction: Direction,
    errno: i32,
    since: Instant,
}

/// The most errors stored at a time. Beyond it the oldest is dropped.
const MOST: usize = 4096;
/// How long an error is stored. An unclaimed error usually belongs to a closed socket, and while one is
/// stored, every call in the process has to read its socket's cookie.
const LIFETIME: Duration = Duration::from_secs(60);

/// Oldest first.
static DEFERRED: Mutex<VecDeque<Deferred>> = Mutex::new(VecDeque::new());
/// The [bits](Id::bit) of the sockets with a deferred error: almost always 0, so a call costs one load.
static SOCKETS: AtomicU64 = AtomicU64::new(0);

/// Defers an error to the socket's next call.
#[cold]
pub(crate) fn defer(socket: BorrowedSocket<'_>, direction: Direction, error: &io::Error) {
    let Some(errno) = error.raw_os_error() else { return };
    let (id, since) = (Id::of(socket), Instant::now());
    let mut deferred = lock();
    drop_old(&mut deferred, since);
    store(&mut deferred, Deferred { id, direction, errno, since });
    note(&deferred);
}

fn store(deferred: &mut VecDeque<Deferred>, error: Deferred) {
    // Equal errors are stored once, as in the kernel (`sk_err`): each segment of a message may meet the same one.
    let key = |entry: &Deferred| (entry.id, entry.direction, entry.errno);
    if deferred.iter().any(|entry| key(entry) == key(&error)) {
        return;
    }
    if deferred.len() == MOST {
        deferred.pop_front();
    }
    deferred.push_back(error);
}

/// Takes the socket's oldest deferred error, if there is one.
#[inline]
pub(crate) fn take(socket: BorrowedSocket<'_>, direction: Direction) -> Option<io::Error> {
    match SOCKETS.load(Ordering::Relaxed) {
        0 => None,
        sockets => search(socket, direction, sockets),
    }
}

#[cold]
fn search(socket: BorrowedSocket<'_>, direction: Direction, sockets: u64) -> Option<io::Error> {
    let id = Id::of(socket);
    // No error of this socket: do not wait for the lock, but drop old errors if it is free.
    let others = sockets & id.bit() == 0;
    let mut deferred = if others { DEFERRED.try_lock().ok()? } else { lock() };
    let at = deferred.iter().position(|entry| entry.id == id && entry.direction == direction);
    let found = at.and_then(|at| deferred.remove(at));
    drop_old(&mut deferred, Instant::now());
    note(&deferred);
    found.map(|entry| io::Error::from_raw_os_error(entry.errno))
}

fn drop_old(deferred: &mut VecDeque<Deferred>, now: Instant) {
    while deferred.front().is_some_and(|oldest| now - oldest.since > LIFETIME) {
        deferred.pop_front();
    }
}

fn note(deferred: &VecDeque<Deferred>) {
    let bits = deferred.iter().fold(0, |bits, entry| bits | entry.id.bit());
    SOCKETS.store(bits, Ordering::Relaxed);
}

fn lock() -> MutexGuard<'static, VecDeque<Deferred>> {
    DEFERRED.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn an_error_is_returned_once_to_its_socket_and_direction() {
        let (a, b) = (socket(), socket());
        defer(sys::borrow(&a), Direction::Receive, &io::Error::from_raw_os_error(111));
        assert_eq!(taken(&b, Direction::Receive), None);
        assert_eq!(taken(&a, Direction::Send), None);
        assert_eq!(taken(&a, Direction::Receive), Some(111));
        assert_eq!(taken(&a, Direction::Receive), None);
    }

    #[test]
    fn a_socket_has_one_error_of_a_kind() {
        let (a, b) = (socket(), socket());
        let defer = |socket: &UdpSocket, direction, errno| {
            defer(sys::borrow(socket), direction, &io::Error::from_raw_os_error(errno));
        };
        for errno in [111, 111, 113, 111] {
            defer(&a, Direction::Send, errno);
            defer(&a, Direction::Receive, errno);
            defer(&b, Direction::Send, errno);
        }
        for (socket, direction) in
            [(&a, Direction::Send), (&a, Direction::Receive), (&b, Direction::Send)]
        {
            let all: Vec<_> = std::iter::from_fn(|| taken(socket, direction)).collect();
            assert_eq!(all, [111, 113]);
        }
    }

    #[test]
    fn an_error_is_not_returned_to_a_later_socket_of_the_same_number() {
        // The number of a closed socket is usually given to the next one, but another test's
        // thread may take it first.
        for _ in 0..100 {
            let first = socket();
            let number = sys::raw(sys::borrow(&first));
            defer(sys::borrow(&first), Direction::Receive, &io::Error::from_raw_os_error(111));
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
    fn d12_an_error_is_returned_once_by_another_descriptor_of_its_socket() {
        for first_is_closed in [false, true] {
            let first = socket();
            if sys::socket_cookie(sys::borrow(&first)).is_none() {
                // Other tests' threads may reuse the numbers.
                return;
            }
            defer(sys::borrow(&first), Direction::Send, &io::Error::from_raw_os_error(111));
            let second = first.try_clone().expect("a second descriptor");
            let first = (!first_is_closed).then_some(first);
            // Without cookies, only the descriptor itself returns the error.
            let expected = sys::socket_cookie(sys::borrow(&second)).and(Some(111));
            assert_eq!(taken(&second, Direction::Receive), None);
            assert_eq!(taken(&second, Direction::Send), expected);
            let left = Some(111).filter(|_| expected.is_none());
            assert_eq!(first.map_or(left, |first| taken(&first, Direction::Send)), left);
        }
    }

    #[test]
    fn d12_errors_that_nobody_asks_for_are_dropped() {
        let now = Instant::now();
        let entry =
            |since| Deferred { id: Id::Cookie(1), direction: Direction::Send, errno: 111, since };
        let later = now + LIFETIME;
        let mut deferred = VecDeque::from([now, now, later].map(entry));
        drop_old(&mut deferred, now + LIFETIME);
        assert_eq!(deferred.len(), 3);
        drop_old(&mut deferred, now + LIFETIME + Duration::from_nanos(1));
        assert_eq!(deferred.len(), 1);
        drop_old(&mut deferred, later + LIFETIME * 2);
        assert_eq!(deferred.len(), 0);
    }

    #[test]
    fn d12_beyond_the_most_errors_the_oldest_is_dropped() {
        let since = Instant::now();
        let entry = |cookie| Deferred {
            id: Id::Cookie(cookie),
            direction: Direction::Send,
            errno: 111,
            since,
        };
        let mut deferred = VecDeque::new();
        for cookie in 0..MOST as u64 + 2 {
            store(&mut deferred, entry(cookie));
        }
        assert_eq!(deferred.len(), 4_096);
        let ids = [deferred.front(), deferred.back()].map(|entry| entry.map(|entry| entry.id));
        assert_eq!(ids, [Some(Id::Cookie(2)), Some(Id::Cookie(4_097))]);
        // One that is stored already drops none.
        store(&mut deferred, entry(9));
        assert_eq!(deferred.front().map(|entry| entry.id), Some(Id::Cookie(2)));
    }

    /// A child of a `fork` finds the lock held for ever, if another thread of its parent held it.
    #[test]
    fn a_lock_that_is_never_given_back_stops_no_call_on_other_sockets() {
        let owner = socket();
        defer(sys::borrow(&owner), Direction::Send, &io::Error::from_raw_os_error(111));
        let locked = lock();
        // No other test can change them now.
        let sockets = SOCKETS.load(Ordering::Relaxed);
        let is_free = |socket: &UdpSocket| Id::of(sys::borrow(socket)).bit() & sockets == 0;
        let socket = (0..1_000).map(|_| socket()).find(is_free).expect("one in a thousand");
        std::thread::scope(|scope| {
            let calls = scope.spawn(|| {
                let to = socket.local_addr().expect("it is bound");
                let msgs = [crate::SendMsg::to(to, b"one"), crate::SendMsg::to(to, b"two")];
                let mut batch = crate::RecvBatch::new(2, 10);
                let sent = crate::BatchSocket::send_batch(&socket, &msgs).expect("it is sent");
                let received =
                    crate::BatchSocket::recv_into(&socket, &mut batch).expect("it is there");
                (sent, received > 0)
            });
            assert_eq!(calls.join().expect("no panic"), (2, true));
        });
        drop(locked);
        assert_eq!(taken(&owner, Direction::Send), Some(111));
    }

    #[test]
    fn r11_many_sockets_each_get_their_own_error() {
        let sockets: Vec<_> = (0..200).map(|_| socket()).collect();
        for (i, socket) in sockets.iter().enumerate() {
            defer(
                sys::borrow(socket),
                Direction::Send,
                &io::Error::from_raw_os_error(i as i32 + 1),
            );
        }
        for (i, socket) in sockets.iter().enumerate().rev() {
            assert_eq!(taken(socket, Direction::Send), Some(i as i32 + 1));
            assert_eq!(taken(socket, Direction::Send), None);
        }
    }
}
