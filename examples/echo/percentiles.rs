//! Round-trip times, counted in classes, so that their number does not matter.

use std::time::Duration;

/// Counts times by length. The classes are as wide as 1/64 of the time at most: what is read is
/// less than 1.6 % above the truth, and the longest time is exact.
pub struct Percentiles {
    classes: Vec<u64>,
    count: u64,
    longest: u64,
}

/// Every power of two is cut into as many classes as this has values in its upper half.
const DIGITS: u32 = 7;
const FINE: usize = 1 << DIGITS;

impl Percentiles {
    pub fn new() -> Self {
        Self { classes: vec![0; class(u64::MAX) + 1], count: 0, longest: 0 }
    }

    pub fn add(&mut self, time: Duration) {
        let nanos = time.as_nanos().try_into().unwrap_or(u64::MAX);
        self.classes[class(nanos)] += 1;
        self.count += 1;
        self.longest = self.longest.max(nanos);
    }

    /// The time that `percent` of all stayed within, for 100 the longest; none if there are none.
    pub fn at(&self, percent: f64) -> Option<Duration> {
        let rank = ((self.count as f64 * percent / 100.0).ceil() as u64).max(1);
        let mut below = 0;
        let found = self.classes.iter().position(|times| {
            below += times;
            below >= rank
        })?;
        Some(Duration::from_nanos(upper(found).min(self.longest)))
    }
}

/// The class of a number: numbers of up to seven binary digits have one each, longer ones share
/// it with those that begin with the same seven.
fn class(n: u64) -> usize {
    let digits = u64::BITS - n.leading_zeros();
    let shift = digits.saturating_sub(DIGITS);
    shift as usize * (FINE / 2) + (n >> shift) as usize
}

/// The largest number of a class.
fn upper(class: usize) -> u64 {
    let shift = (class / (FINE / 2)).saturating_sub(1);
    let first = (class - shift * (FINE / 2)) as u64;
    (first << shift) | ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_follow_one_another_without_a_gap() {
        let mut lower = 0;
        for i in 0..=class(u64::MAX) {
            let upper = upper(i);
            assert_eq!((class(lower), class(upper)), (i, i));
            assert!(upper - lower <= lower / 64);
            lower = upper.wrapping_add(1);
        }
        assert_eq!(lower, 0, "the last class ends with the largest number");
    }

    #[test]
    fn no_time_has_no_percentile() {
        assert_eq!(Percentiles::new().at(50.0), None);
    }

    proptest! {
        /// The naive twin sorts all times.
        #[test]
        fn a_percentile_is_that_of_the_sorted_times(
            mut nanos in prop::collection::vec(0u64..10_000_000_000, 1..200),
            percent in 0.0f64..=100.0,
        ) {
            let mut percentiles = Percentiles::new();
            nanos.iter().for_each(|nanos| percentiles.add(Duration::from_nanos(*nanos)));
            nanos.sort_unstable();
            let rank = ((nanos.len() as f64 * percent / 100.0).ceil() as usize).max(1);
            let exact = nanos[rank - 1];
            let read = percentiles.at(percent).map_or(0, |time| time.as_nanos() as u64);
            prop_assert!((exact..=exact + exact / 64).contains(&read), "{read} for {exact}");
            let longest = nanos.last().map(|nanos| Duration::from_nanos(*nanos));
            prop_assert_eq!(percentiles.at(100.0), longest);
        }
    }
}
