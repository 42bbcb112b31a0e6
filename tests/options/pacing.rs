//! Only the socket option; the fq queueing discipline does the pacing.

use mmsg::options::set_max_pacing_rate;

use crate::common::linux::option;
use crate::common::sockets::udp4;

#[test]
fn a_pacing_rate_is_set_and_taken_back() {
    /// `SO_MAX_PACING_RATE`, include/uapi/asm-generic/socket.h
    const SO_MAX_PACING_RATE: i32 = 47;
    let socket = udp4();
    let rate = || option(&socket, libc::SOL_SOCKET, SO_MAX_PACING_RATE).expect("Linux 3.13");
    for bytes in [1, 12_500_000, 1_000_000_000] {
        set_max_pacing_rate(&socket, Some(bytes)).expect("Linux 3.13");
        assert_eq!(rate(), bytes as u32);
    }
    // In 32 bits, a rate beyond them reads as "no limit".
    set_max_pacing_rate(&socket, Some(u64::MAX)).expect("Linux 3.13");
    assert!(rate() >= u32::MAX - 1);
    set_max_pacing_rate(&socket, None).expect("Linux 3.13");
    assert_eq!(rate(), u32::MAX);
}
