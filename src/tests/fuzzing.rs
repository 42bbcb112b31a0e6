//! The fuzz targets, which take any bytes. Each returns how many cases it has tried.

use super::model;
use crate::RecvMeta;
use crate::control::ControlMessages;
use crate::send::coalesce::tests::{KINDS, Place, Spec, check};
use crate::sys::MAX_SEGMENTS;

/// The maximum number of operations in a case, so that it takes milliseconds.
const MAX_OPS: usize = 40;

fn records(data: &[u8]) -> impl Iterator<Item = [u8; 8]> {
    data.as_chunks().0.iter().copied().take(MAX_OPS)
}

/// Any calls on a socket, under a kernel that returns anything.
pub fn model(data: &[u8]) -> usize {
    let mut records = records(data);
    let Some(config) = records.next() else { return 0 };
    model::run(config, &records.collect::<Vec<_>>());
    1
}

/// Sends on a socket with GSO, under a kernel that rejects anything.
pub fn fallback(data: &[u8]) -> usize {
    let mut records = records(data);
    let Some([backend, _, errors, ..]) = records.next() else { return 0 };
    let send = |[_, rest @ ..]: [u8; 8]| {
        let [a, b, c, d, e, f, g] = rest;
        [0, a, b, c, d, e, f, g]
    };
    model::run([backend, 1, errors, 0, 0, 0, 0, 0], &records.map(send).collect::<Vec<_>>());
    1
}

/// The control messages in any bytes, and the metadata that they hold.
pub fn control(bytes: &[u8]) -> (ControlMessages<'_>, RecvMeta) {
    let mut meta = None;
    RecvMeta::decode(bytes, &mut meta);
    (ControlMessages::new(bytes), meta.unwrap_or_default())
}

/// Compares the GSO batches that messages form, and their headers, with the naive twin's.
pub fn coalesce(data: &[u8]) -> usize {
    const LENGTHS: [usize; 8] = [100, 99, 0, 1, 769, 20_000, 1_472, 101];
    const PLACES: [Place; 4] = [Place::Start, Place::Beside, Place::Beside, Place::Apart];
    // More messages than two GSO batches hold.
    const MESSAGES: usize = 150;
    let Some(([max], stretches)) = data.split_first_chunk() else { return 0 };
    let mut specs = Vec::with_capacity(MESSAGES);
    for [dest, len, count] in stretches.as_chunks().0.iter().take(12) {
        let spec = Spec {
            dest: usize::from(dest % 4),
            kind: usize::from(dest / 4) % KINDS,
            len: LENGTHS[usize::from(len % 8)],
            place: PLACES[usize::from(len / 8 % 4)],
        };
        let count = usize::from(if *count < 232 { count % 8 } else { count % 80 });
        specs.extend(std::iter::repeat_n(spec, count.min(MESSAGES - specs.len())));
    }
    check(&specs, usize::from(*max) % MAX_SEGMENTS + 1);
    1
}
