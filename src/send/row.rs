//! A row: messages on the stack, taken one by one from an iterator or a queue.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::slice;

use crate::send::msg::SendMsg;

/// The length of a row: several whole GSO batches of the usual 54 datagrams of 1,200 bytes.
pub(crate) const ROW: usize = 256;

/// Memory for a row. Uninitialised, since writing empty messages takes as long as sending a datagram.
pub(crate) type Row<'m, const N: usize = ROW> = [MaybeUninit<SendMsg<'m>>; N];

pub(crate) const fn row<'m>() -> Row<'m> {
    [const { MaybeUninit::uninit() }; ROW]
}

/// Writes messages from the start of `row`, at most `max`, and returns them.
#[inline]
pub(crate) fn fill<'r, 'm, const N: usize>(
    row: &'r mut Row<'m, N>,
    max: usize,
    msgs: &mut impl Iterator<Item = SendMsg<'m>>,
) -> &'r [SendMsg<'m>] {
    let mut len = 0;
    for (place, msg) in row.iter_mut().take(max).zip(msgs) {
        place.write(msg);
        len += 1;
    }
    // SAFETY: the loop has initialised the first `len`.
    unsafe { written(row, len) }
}

/// Writes `msg(0)`, `msg(1)` and so on, `count` messages but at most a row, and returns them.
#[inline]
pub(crate) fn fill_by<'r, 'm>(
    row: &'r mut Row<'m>,
    count: usize,
    mut msg: impl FnMut(usize) -> SendMsg<'m>,
) -> &'r [SendMsg<'m>] {
    let count = count.min(ROW);
    for (i, place) in row[..count].iter_mut().enumerate() {
        place.write(msg(i));
    }
    // SAFETY: the loop has initialised the first `count`.
    unsafe { written(row, count) }
}

/// The first messages of a row. A `SendMsg` is `Copy`: it needs no drop.
///
/// # Safety
///
/// The first `len` are initialised.
unsafe fn written<'r, 'm, const N: usize>(row: &'r Row<'m, N>, len: usize) -> &'r [SendMsg<'m>] {
    // SAFETY: the caller has initialised the first `len`, and the slice checks that the row has as many.
    unsafe { slice::from_raw_parts(row[..len].as_ptr().cast(), len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_as_long_as_what_was_written() {
        let mut row = row();
        for (offered, max, written) in [(0, ROW, 0), (3, ROW, 3), (3, 2, 2), (2 * ROW, ROW, ROW)] {
            let mut msgs = (0..offered).map(|_| SendMsg::new(b"x"));
            let filled = fill(&mut row, max, &mut msgs);
            assert_eq!(filled.len(), written, "{offered} offered, at most {max}");
            assert!(filled.iter().all(|msg| msg.len() == 1));
        }
        for (count, written) in [(0, 0), (2, 2), (2 * ROW, ROW)] {
            let filled = fill_by(&mut row, count, |_| SendMsg::new(b"yy"));
            assert_eq!(filled.len(), written, "{count} asked for");
            assert!(filled.iter().all(|msg| msg.len() == 2));
        }
    }
}
