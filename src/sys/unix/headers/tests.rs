//! What the kernel leaves in a header, written by hand: what no kernel at hand would write.

use super::recv;
use super::*;
use crate::recv::datagram::{Received, Truncation};
use crate::recv::msg::RecvMsg;
use crate::sys::CONTROL_SPACE;
use crate::sys::unix::addr::NAME_LEN;
use crate::sys::unix::zeroed::Zeroed;

/// What a header says that a receive of five bytes left.
fn received(flags: libc::c_int) -> Received {
    let mut headers = Zeroed::<Header>::try_new(1).expect("there is memory");
    headers[0].msg_len = 5;
    headers[0].msg_hdr.msg_flags = flags;
    recv::received(&headers[0], None, || false)
}

#[test]
fn p3_stray_bits_in_the_flags_do_not_matter() {
    for bit in 0..32 {
        let flag = 1i32.rotate_left(bit);
        let received = received(flag);
        assert_eq!((received.reported, received.has_meta), (5, false), "{flag:#x}");
        assert_eq!(received.truncation.data, flag == libc::MSG_TRUNC, "{flag:#x}");
        assert_eq!(received.truncation.control, flag == libc::MSG_CTRUNC, "{flag:#x}");
    }
    // What FreeBSD leaves there, and everything at once.
    #[cfg(mmsg_calls)]
    assert_eq!(received(libc::MSG_WAITFORONE).truncation, Truncation::default());
    assert_eq!(
        received(!0).truncation,
        Truncation { data: true, control: true, segment_size: false }
    );
    assert_eq!(received(!(libc::MSG_TRUNC | libc::MSG_CTRUNC)).truncation, Truncation::default());
}

#[test]
fn r2_fields_that_a_call_overwrites_are_set_anew() {
    let mut headers = RecvStorage::new();
    headers.reserve(2).expect("there is memory");
    let mut memory = [[0; 10]; 2];
    let mut msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
    for _ in 0..2 {
        let (mut wired, _) = headers.wire_recv(&mut msgs);
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
