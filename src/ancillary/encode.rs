//! Control messages into bytes.

use super::Layout;

/// Appends one control message at `at` in `buf` and gives the position after it, padding
/// included; `None`, and nothing written, where it does not fit.
#[must_use]
pub(crate) fn append(
    layout: Layout,
    buf: &mut [u8],
    at: usize,
    (level, kind): (i32, i32),
    payload: &[u8],
) -> Option<usize> {
    let end = at.checked_add(layout.space(payload.len()))?;
    let room = buf.get_mut(at..end)?;
    // The padding goes to the kernel too: no byte of it may be left over from before.
    room.fill(0);
    layout.write_len(room, layout.data_offset + payload.len());
    layout.write_int(room, layout.len_bytes, level);
    layout.write_int(room, layout.len_bytes + 4, kind);
    room[layout.data_offset..layout.data_offset + payload.len()].copy_from_slice(payload);
    Some(end)
}
