//! What the kernel leaves in a header, written by hand: what no kernel at hand would write.

use std::io::IoSliceMut;

use super::*;
use crate::sys::addr::{NAME_LEN, RawAddr};
use crate::sys::{CONTROL_SPACE, RecvResult};

#[test]
fn r2_fields_that_a_call_overwrites_are_set_anew() {
    let mut storage = RecvStorage::new();
    storage.reserve(2).expect("there is memory");
    let (mut first, mut second) = ([0; 10], [0; 10]);
    let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    let mut sources = [RawAddr::NONE; 2];
    for _ in 0..2 {
        let mut wired = storage.wire();
        for (buffer, source) in buffers.iter_mut().zip(&mut sources) {
            wired.push(std::slice::from_mut(buffer), source.space(), None);
        }
        assert_eq!(wired.len(), 2);
        for header in wired.as_mut().0 {
            let result = header.result();
            assert_eq!((result.source_len, result.control_len), (NAME_LEN, CONTROL_SPACE));
            assert_eq!((header.buffers().1, result.truncated), (1, false));
            assert!(!header.name().0.is_null() && !header.control().0.is_null());
            // As a kernel leaves them after a short message.
            header.set_result(RecvResult {
                source_len: 16,
                truncated: true,
                control_truncated: true,
                ..result
            });
        }
    }
}
