//! What the kernel leaves in a header, written by hand: what no kernel at hand would write.

use std::io::IoSliceMut;

use super::recv;
use super::*;
use crate::sys::unix::addr::{NAME_LEN, RawAddr};
use crate::sys::unix::zeroed::Zeroed;
use crate::sys::{CONTROL_SPACE, RecvResult};

/// What a header says that a receive of five bytes left.
fn received(flags: libc::c_int) -> RecvResult {
    let mut headers = Zeroed::<Header>::try_new(1).expect("there is memory");
    headers[0].msg_len = 5;
    headers[0].msg_hdr.msg_flags = flags;
    recv::result(&headers[0])
}

/// Whether payload and control data are truncated.
fn truncated(flags: libc::c_int) -> (bool, bool) {
    let result = received(flags);
    (result.truncated, result.control_truncated)
}

#[test]
fn p3_stray_bits_in_the_flags_do_not_matter() {
    for bit in 0..32 {
        let flag = 1i32.rotate_left(bit);
        let result = received(flag);
        assert_eq!((result.len, result.control_len), (5, 0), "{flag:#x}");
        assert_eq!(result.truncated, flag == libc::MSG_TRUNC, "{flag:#x}");
        assert_eq!(result.control_truncated, flag == libc::MSG_CTRUNC, "{flag:#x}");
    }
    // What FreeBSD leaves there, and everything at once.
    #[cfg(mmsg_calls)]
    assert_eq!(truncated(libc::MSG_WAITFORONE), (false, false));
    assert_eq!(truncated(!0), (true, true));
    assert_eq!(truncated(!(libc::MSG_TRUNC | libc::MSG_CTRUNC)), (false, false));
}

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
            let hdr = &mut header.msg_hdr;
            assert_eq!(hdr.msg_namelen, NAME_LEN as libc::socklen_t);
            assert_eq!(hdr.msg_controllen as u64, CONTROL_SPACE as u64);
            assert_eq!((hdr.msg_iovlen, hdr.msg_flags), (1, 0));
            assert!(!hdr.msg_name.is_null() && !hdr.msg_control.is_null());
            // As a kernel leaves them after a short message.
            (hdr.msg_namelen, hdr.msg_controllen, hdr.msg_flags) = (16, 0, !0);
        }
    }
}
