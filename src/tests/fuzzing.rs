//! Inputs of the fuzz targets: any bytes.

use super::model;
use crate::send::coalesce::Limits;
use crate::send::coalesce::tests::twin::{Spec, check};
use crate::sys::MAX_SEGMENTS;

/// Operations of a case at most, so that a case takes milliseconds.
const MOST: usize = 40;

fn records(data: &[u8]) -> impl Iterator<Item = [u8; 8]> {
    data.chunks_exact(8).take(MOST).map(|record| record.try_into().expect("eight bytes"))
}

/// Any calls on two sockets, under a kernel that says anything.
pub fn model(data: &[u8]) {
    let mut records = records(data);
    if let Some(config) = records.next() {
        model::run(config, &records.collect::<Vec<_>>());
    }
}

/// Sends on a socket with GSO, under a kernel that rejects anything.
pub fn fallback(data: &[u8]) {
    let mut records = records(data);
    let Some([backend, _, _, errors, ..]) = records.next() else { return };
    let op = |mut record: [u8; 8]| {
        // A script of errors, or a send, on the first socket.
        record[0] = if record[0] % 2 == 0 { 26 } else { record[0] % 8 };
        record[1] &= !1;
        record
    };
    model::run([backend, 3, 0, errors, 0, 0, 0, 0], &records.map(op).collect::<Vec<_>>());
}

/// Which messages form GSO batches, beside the naive twin.
pub fn coalesce(data: &[u8]) {
    const LENGTHS: [usize; 8] = [100, 99, 0, 1, 9_000, 40_000, 1_472, 101];
    let Some(([rejected, max], stretches)) = data.split_first_chunk() else { return };
    let limits = Limits {
        rejected_len: [usize::MAX, 100, 1, 0][usize::from(rejected % 4)],
        max_segments: usize::from(*max) % MAX_SEGMENTS + 1,
        ..Limits::NONE
    };
    let mut specs = Vec::new();
    for [dest, len, count] in stretches.as_chunks().0.iter().take(12) {
        let spec = Spec {
            dest: usize::from(dest % 4),
            len: LENGTHS[usize::from(len % 8)],
            kind: usize::from(dest / 4 % 6),
        };
        specs.extend(std::iter::repeat_n(spec, usize::from(count % 80)));
    }
    check(&specs, limits);
}
