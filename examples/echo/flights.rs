//! Which datagrams are on their way.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Datagrams that were sent and have not come back, by number and time of sending.
#[derive(Default)]
pub struct Flights {
    /// The number of the first in `sent`: it is in flight, if there is any.
    oldest: u64,
    /// From `oldest` on, when each was sent; `None` for those that came back.
    sent: VecDeque<Option<Instant>>,
    in_flight: usize,
    /// Those that were given up, in case that they come back after all.
    given_up: BTreeMap<u64, Instant>,
}

/// What a reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A datagram that nothing had answered before, after this time.
    First(Duration),
    /// One that had been answered.
    Again,
}

/// How many of those given up are remembered. The oldest are forgotten: they stay lost.
const REMEMBERED: usize = 1 << 20;

impl Flights {
    /// The number of the next datagram to be sent.
    pub fn next(&self) -> u64 {
        self.oldest + self.sent.len() as u64
    }

    /// How many are on their way.
    pub fn count(&self) -> usize {
        self.in_flight
    }

    /// How many numbers there are from the oldest one on its way to the next to be sent.
    pub fn span(&self) -> u64 {
        self.sent.len() as u64
    }

    /// The next `count` datagrams are on their way.
    pub fn depart(&mut self, count: usize, now: Instant) {
        self.sent.extend(std::iter::repeat_n(Some(now), count));
        self.in_flight += count;
    }

    /// A reply has come to datagram `number`, which was sent.
    pub fn arrive(&mut self, number: u64, now: Instant) -> Answer {
        let place = number.checked_sub(self.oldest).and_then(|i| usize::try_from(i).ok());
        let sent = match place {
            None => self.given_up.remove(&number),
            Some(i) => {
                let sent = self.sent.get_mut(i).and_then(Option::take);
                self.in_flight -= usize::from(sent.is_some());
                sent
            }
        };
        self.drop_answered();
        sent.map_or(Answer::Again, |sent| Answer::First(now.saturating_duration_since(sent)))
    }

    /// A reply has come that could be to any datagram: it is taken for one to the oldest.
    pub fn arrive_any(&mut self, now: Instant) -> Answer {
        if self.in_flight > 0 {
            return self.arrive(self.oldest, now);
        }
        match self.given_up.pop_first() {
            Some((_, sent)) => Answer::First(now.saturating_duration_since(sent)),
            None => Answer::Again,
        }
    }

    /// Gives up those that were sent at `before` or earlier: their places are free again.
    pub fn give_up(&mut self, before: Instant) {
        while let Some(Some(sent)) = self.sent.front().copied() {
            if sent > before {
                break;
            }
            if self.given_up.len() == REMEMBERED {
                self.given_up.pop_first();
            }
            self.given_up.insert(self.oldest, sent);
            self.sent[0] = None;
            self.in_flight -= 1;
            self.drop_answered();
        }
    }

    /// Keeps the first one a datagram in flight.
    fn drop_answered(&mut self) {
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.oldest += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times without a clock: so many milliseconds after the first.
    fn clock() -> impl Fn(u64) -> Instant {
        let start = Instant::now();
        move |ms| start + Duration::from_millis(ms)
    }

    fn first(ms: u64) -> Answer {
        Answer::First(Duration::from_millis(ms))
    }

    #[test]
    fn replies_in_another_order_are_told_apart() {
        let (at, mut flights) = (clock(), Flights::default());
        flights.depart(2, at(0));
        flights.depart(2, at(10));
        assert_eq!((flights.count(), flights.span(), flights.next()), (4, 4, 4));
        assert_eq!(flights.arrive(2, at(11)), first(1));
        assert_eq!(flights.arrive(0, at(12)), first(12));
        assert_eq!((flights.count(), flights.span()), (2, 3));
        assert_eq!(flights.arrive(1, at(13)), first(13));
        assert_eq!((flights.count(), flights.span()), (1, 1));
        assert_eq!(flights.arrive(3, at(13)), first(3));
        assert_eq!((flights.count(), flights.span(), flights.next()), (0, 0, 4));
    }

    #[test]
    fn a_second_reply_is_a_second_one() {
        let (at, mut flights) = (clock(), Flights::default());
        flights.depart(3, at(0));
        assert_eq!(flights.arrive(1, at(1)), first(1));
        assert_eq!(flights.arrive(1, at(2)), Answer::Again);
        assert_eq!(flights.arrive(0, at(3)), first(3));
        assert_eq!(flights.arrive(0, at(4)), Answer::Again);
        assert_eq!(flights.count(), 1);
    }

    #[test]
    fn one_given_up_frees_its_place_and_may_still_come() {
        let (at, mut flights) = (clock(), Flights::default());
        flights.depart(1, at(0));
        flights.depart(2, at(5));
        flights.arrive(1, at(6));
        flights.give_up(at(0));
        assert_eq!((flights.count(), flights.span()), (1, 1));
        assert_eq!(flights.arrive(2, at(7)), first(2));
        assert_eq!(flights.arrive(0, at(900)), first(900));
        assert_eq!(flights.arrive(0, at(901)), Answer::Again);
        assert_eq!((flights.count(), flights.next()), (0, 3));
    }

    #[test]
    fn all_are_given_up_in_the_end() {
        let (at, mut flights) = (clock(), Flights::default());
        for ms in 0..100 {
            flights.depart(1, at(ms));
        }
        flights.give_up(at(49));
        assert_eq!(flights.count(), 50);
        flights.give_up(at(99));
        assert_eq!((flights.count(), flights.span(), flights.next()), (0, 0, 100));
    }

    #[test]
    fn replies_without_a_number_answer_the_oldest() {
        let (at, mut flights) = (clock(), Flights::default());
        flights.depart(2, at(0));
        flights.depart(1, at(5));
        flights.give_up(at(0));
        assert_eq!(flights.arrive_any(at(8)), first(3));
        assert_eq!(flights.arrive_any(at(9)), first(9));
        assert_eq!(flights.arrive_any(at(9)), first(9));
        assert_eq!(flights.arrive_any(at(9)), Answer::Again);
    }
}
