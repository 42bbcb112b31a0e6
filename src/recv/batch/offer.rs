//! How many of its slots a batch offers to a receive.

use std::time::Duration;

use crate::sys::{self, BorrowedSocket, RawSocket, RecvFlags};

/// So many receives in a row that brought one message each, and most of the next ones offer one slot.
const STREAK: u8 = 24;
/// Of so many receives one offers all slots even then, to see whether more messages come again. Few, as each batch of a
/// program that has several in turn goes through them.
const PERIOD: u8 = 4;
/// A receive that waits for so long is not one of a loop of ticks.
const LONG: Duration = Duration::from_secs(1);

/// Offers one slot where one message at a time comes.
///
/// After each message but the last of all slots the kernel looks for another one. That it finds none takes as long as a
/// twentieth of a send and a receive: ARCHITECTURE.md has what was measured.
///
/// Only on a socket whose receives wait for a second or longer: a program that makes such a receive makes the next one at
/// once. An event loop or a loop of ticks may make it much later, and gets all that waits.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// Receives in a row, on this socket, that brought one message each; from `STREAK + PERIOD` on it begins again at
    /// `STREAK`.
    singles: u8,
    socket: Option<RawSocket>,
    /// Whether its receives wait long, once there is a streak.
    waits: bool,
}

impl Offer {
    /// How many of so many slots to offer.
    #[inline]
    pub(super) fn of(&self, slots: usize, socket: BorrowedSocket<'_>, flags: RecvFlags) -> usize {
        let is_one = self.singles > STREAK
            && self.waits
            && self.socket == Some(sys::raw(socket))
            && !flags.contains(RecvFlags::DONT_WAIT);
        if is_one { 1 } else { slots }
    }

    /// Notes how many messages a receive brought. None says nothing about how many come.
    #[inline]
    pub(super) fn note(&mut self, messages: usize, socket: BorrowedSocket<'_>) {
        if messages == 0 {
            return;
        }
        // A batch that goes from socket to socket has no streak: its receives of all slots could always meet the same one.
        if messages > 1 || self.socket != Some(sys::raw(socket)) {
            (self.singles, self.socket) = (0, Some(sys::raw(socket)));
        }
        if messages == 1 {
            self.singles += 1;
            match self.singles {
                STREAK => self.waits = sys::waits_for(socket, LONG),
                singles if singles == STREAK + PERIOD => self.singles = STREAK,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn socket() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").expect("a loopback socket")
    }

    /// The slots that each of these receives offers, of 64.
    fn offers(
        offer: &mut Offer,
        socket: &UdpSocket,
        receives: usize,
        messages: usize,
    ) -> Vec<usize> {
        let receive = |_| {
            let slots = offer.of(64, sys::borrow(socket), RecvFlags::NONE);
            offer.note(messages.min(slots), sys::borrow(socket));
            slots
        };
        (0..receives).map(receive).collect()
    }

    /// The slots offered after a streak. Not every system says whether a socket waits.
    fn periodic(socket: &UdpSocket) -> [usize; 4] {
        let is_known = sys::waits_for(sys::borrow(socket), LONG);
        if is_known { [1, 1, 1, 64] } else { [64; 4] }
    }

    #[test]
    fn one_slot_is_offered_after_a_streak_and_all_in_each_fourth_receive() {
        let (mut offer, socket) = (Offer::default(), socket());
        assert_eq!(offers(&mut offer, &socket, 25, 1), [64; 25]);
        assert_eq!(offers(&mut offer, &socket, 24, 1), periodic(&socket).repeat(6));
        let dont_wait = offer.of(64, sys::borrow(&socket), RecvFlags::DONT_WAIT);
        assert_eq!(dont_wait, 64);
    }

    #[test]
    fn several_messages_are_found_within_four_receives() {
        let socket = socket();
        for before in 25..50 {
            let mut offer = Offer::default();
            let _ = offers(&mut offer, &socket, before, 1);
            let found = offers(&mut offer, &socket, 30, 5);
            let first = found.iter().position(|slots| *slots == 64).expect("all are offered again");
            assert!(first < 4);
            assert_eq!(found[first..], vec![64; 30 - first]);
        }
    }

    #[test]
    fn receives_of_nothing_change_nothing() {
        let (mut offer, socket) = (Offer::default(), socket());
        let _ = offers(&mut offer, &socket, 26, 1);
        assert_eq!(offers(&mut offer, &socket, 10, 0), [periodic(&socket)[0]; 10]);
    }

    #[test]
    fn a_socket_that_does_not_wait_long_is_offered_all_slots() {
        let (timed, non_blocking) = (socket(), socket());
        timed.set_read_timeout(Some(LONG / 2)).expect("an option");
        non_blocking.set_nonblocking(true).expect("an option");
        for socket in [timed, non_blocking] {
            assert_eq!(offers(&mut Offer::default(), &socket, 100, 1), [64; 100]);
        }
    }

    /// The batch may be used with several sockets: of each it must find what waits.
    #[test]
    fn other_sockets_are_offered_all_slots() {
        let (mut offer, one, other) = (Offer::default(), socket(), socket());
        let _ = offers(&mut offer, &one, 25, 1);
        assert_eq!(offer.of(64, sys::borrow(&other), RecvFlags::NONE), 64);
        assert_eq!(offer.of(64, sys::borrow(&one), RecvFlags::NONE), periodic(&one)[0]);
        for _ in 0..100 {
            assert_eq!(offers(&mut offer, &other, 1, 1), [64]);
            assert_eq!(offers(&mut offer, &one, 1, 1), [64]);
        }
    }
}
