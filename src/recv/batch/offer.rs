//! How many of its slots a batch offers to a receive.

/// So many receives in a row that brought one message each, and most of the next ones offer one slot.
const STREAK: u8 = 24;
/// Of so many receives one offers all slots even then, to see whether more messages come again.
const PERIOD: u8 = 8;

/// Offers one slot where one message at a time comes.
///
/// After each message but the last of all slots the kernel looks for another one. That it finds none takes as long as a
/// twentieth of a send and a receive: ARCHITECTURE.md has what was measured.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// Receives in a row that brought one message each; from `STREAK + PERIOD` on it begins again at `STREAK`.
    singles: u8,
}

impl Offer {
    /// How many of so many slots to offer.
    #[inline]
    pub(super) fn of(&self, slots: usize) -> usize {
        if self.singles > STREAK { 1 } else { slots }
    }

    /// Notes how many messages a receive brought. None says nothing about how many come.
    #[inline]
    pub(super) fn note(&mut self, messages: usize) {
        self.singles = match messages {
            0 => return,
            1 if self.singles + 1 == STREAK + PERIOD => STREAK,
            1 => self.singles + 1,
            _ => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slots that each of these receives offers, of 64.
    fn offers(offer: &mut Offer, receives: usize, messages: usize) -> Vec<usize> {
        let receive = |_| {
            let slots = offer.of(64);
            offer.note(messages.min(slots));
            slots
        };
        (0..receives).map(receive).collect()
    }

    #[test]
    fn one_slot_is_offered_after_a_streak_and_all_in_each_eighth_receive() {
        let mut offer = Offer::default();
        assert_eq!(offers(&mut offer, 25, 1), [64; 25]);
        let period = [1, 1, 1, 1, 1, 1, 1, 64];
        assert_eq!(offers(&mut offer, 24, 1), period.repeat(3));
    }

    #[test]
    fn several_messages_are_found_within_eight_receives() {
        for before in 25..50 {
            let mut offer = Offer::default();
            let _ = offers(&mut offer, before, 1);
            let found = offers(&mut offer, 30, 5);
            let first = found.iter().position(|slots| *slots == 64).expect("all are offered again");
            assert!(first < 8);
            assert_eq!(found[first..], vec![64; 30 - first]);
        }
    }

    #[test]
    fn receives_of_nothing_change_nothing() {
        let mut offer = Offer::default();
        let _ = offers(&mut offer, 26, 1);
        assert_eq!(offers(&mut offer, 10, 0), [1; 10]);
    }
}
