//! Batches of every size beside the raw calls, single datagrams beside std, `&dyn` beside direct.

use super::{Promise, Row, Side};
use crate::support::{PAYLOADS, Size, Way, Wire, turn};

/// Datagrams a turn: about two milliseconds.
const TURN: usize = 2048;
const PAIRS: usize = 200;
/// Slots that are offered where one datagram waits.
pub const SLOTS: usize = 512;

pub fn all(wire: &Wire) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for payload in PAYLOADS {
        for batch in (3..=9).map(|power| 1 << power).filter(|batch| *batch <= wire.room) {
            let size = Size::batch(batch, payload);
            rows.push(row(wire, size, [Way::RecvInto, Way::Raw], Promise::AtMost(1.03)));
            rows.push(row(wire, size, [Way::RecvBatch, Way::Raw], Promise::AtMost(1.06)));
        }
    }
    for payload in PAYLOADS {
        let size = Size::batch(1, payload);
        rows.push(row(wire, size, [Way::RecvInto, Way::Std], Promise::AtMost(1.05)));
        rows.push(row(wire, size, [Way::RecvBatch, Way::Std], Promise::AtMost(1.05)));
    }
    let one = Size { slots: SLOTS, ..Size::batch(1, PAYLOADS[0]) };
    rows.push(row(wire, one, [Way::RecvInto, Way::Std], Promise::AtMost(1.20)));
    rows.push(row(wire, one, [Way::RecvBatch, Way::Std], Promise::AtMost(1.30)));
    for batch in [1, 8, 64] {
        let size = Size::batch(batch, PAYLOADS[0]);
        let promise = Promise::AtMost(1.02);
        rows.push(row(wire, size, [Way::DynRecvInto, Way::RecvInto], promise));
        rows.push(row(wire, size, [Way::DynRecvBatch, Way::RecvBatch], promise));
    }
    rows
}

fn row(wire: &Wire, size: Size, ways: [Way; 2], promise: Promise) -> Row<'_> {
    let [ours, theirs] = ways.map(Way::name);
    let Size { batch, slots, payload } = size;
    let offered = if slots > batch { format!(", {slots} slots") } else { String::new() };
    Row {
        name: format!("{ours} / {theirs}, {batch} x {payload} B{offered}"),
        promise,
        pairs: PAIRS,
        sides: Box::new(move || {
            ways.map(|way| Side::repeated(turn(way, wire, size), size.batch, TURN))
        }),
    }
}
