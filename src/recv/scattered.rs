//! Received bytes that may lie in several buffers.

use std::fmt;
use std::io::IoSliceMut;

/// The first `len` bytes of several buffers: `head`, then the beginning of `rest`.
///
/// Invariants: `head.len() <= len`, `rest` holds at least `len - head.len()` bytes, and `head` is
/// empty only if `len` is 0.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    head: &'a [u8],
    rest: &'a [IoSliceMut<'a>],
    len: usize,
}

impl<'a> Parts<'a> {
    pub(crate) const NONE: Self = Self { head: &[], rest: &[], len: 0 };

    #[inline]
    pub(crate) fn one(head: &'a [u8]) -> Self {
        Self { head, rest: &[], len: head.len() }
    }

    /// The first `len` bytes of several buffers, or all of them if they hold less.
    pub(crate) fn many(buffers: &'a [IoSliceMut<'a>], len: usize) -> Self {
        let len = len.min(capacity(buffers));
        let mut parts = Self { head: &[], rest: buffers, len };
        parts.find_head();
        parts
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes in the first buffer.
    #[inline]
    pub(crate) fn head(&self) -> &'a [u8] {
        self.head
    }

    /// Splits off the first `n` bytes, if the current buffer holds more than `n`.
    #[inline(always)]
    pub(crate) fn split_within(&mut self, n: usize) -> Option<Self> {
        if n >= self.head.len() {
            return None;
        }
        let (piece, head) = self.head.split_at(n);
        self.head = head;
        self.len -= n;
        Some(Self::one(piece))
    }

    /// Splits off the first `n` bytes, or all if there are fewer.
    #[inline]
    pub(crate) fn split_to(&mut self, n: usize) -> Self {
        let n = n.min(self.len);
        match self.head.split_at_checked(n) {
            Some((piece, head)) => {
                self.head = head;
                self.len -= n;
                self.find_head();
                Self::one(piece)
            }
            None => {
                let piece = Self { len: n, ..*self };
                *self = self.skip(n);
                piece
            }
        }
    }

    /// Drops the first `n` bytes, in however many buffers they are. Takes `self` by value: a pointer to it would keep
    /// the parts of a single buffer out of registers.
    #[inline(never)]
    fn skip(mut self, mut n: usize) -> Self {
        while n > 0 {
            let step = n.min(self.head.len());
            self.head = &self.head[step..];
            self.len -= step;
            n -= step;
            self.find_head();
        }
        self
    }

    /// Moves on to the next buffer that has bytes, once the head is used up.
    #[inline]
    fn find_head(&mut self) {
        while self.head.is_empty() && self.len > 0 {
            let Some((next, rest)) = self.rest.split_first() else { return };
            self.head = &next[..self.len.min(next.len())];
            self.rest = rest;
        }
    }

    /// The bytes, buffer by buffer; no slice is empty.
    pub(crate) fn slices(mut self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        std::iter::from_fn(move || {
            let head = self.head;
            self = self.skip(head.len());
            (!head.is_empty()).then_some(head)
        })
    }
}

/// Shows no payload.
impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

/// The total length of the buffers. Every sum of lengths in this crate saturates, even if its buffers cannot overlap.
pub(crate) fn capacity(buffers: &[IoSliceMut<'_>]) -> usize {
    buffers.iter().fold(0, |sum: usize, buffer| sum.saturating_add(buffer.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The naive twin is one contiguous copy of all buffers.
        #[test]
        fn splitting_scattered_bytes_is_splitting_their_copy(
            mut buffers in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..7),
            len in 0usize..60,
            lens in prop::collection::vec(0usize..12, 0..12),
        ) {
            let copy: Vec<u8> = buffers.concat();
            let mut copy = &copy[..len.min(copy.len())];
            let slices: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
            let mut parts = Parts::many(&slices, len);
            for len in lens {
                let (piece, rest) = copy.split_at(len.min(copy.len()));
                let split = parts.split_to(len);
                prop_assert_eq!(split.len(), piece.len());
                prop_assert!(piece.starts_with(split.head()));
                prop_assert_eq!(split.head().is_empty(), piece.is_empty());
                prop_assert_eq!(split.slices().collect::<Vec<_>>().concat(), piece);
                prop_assert!(split.slices().all(|slice| !slice.is_empty()));
                copy = rest;
            }
            prop_assert_eq!(parts.slices().collect::<Vec<_>>().concat(), copy);
        }
    }
}
