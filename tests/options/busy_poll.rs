//! Only the socket options. Their effect needs a device (`tests/networks`).

use std::io::ErrorKind;
use std::time::Duration;

use mmsg::options::{set_busy_poll, set_busy_poll_budget, set_prefer_busy_poll};

use crate::common::linux::option;
use crate::common::skip;
use crate::common::sockets::udp4;

/// include/uapi/asm-generic/socket.h
const SO_BUSY_POLL: i32 = 46;
const SO_PREFER_BUSY_POLL: i32 = 69;

#[test]
fn busy_polling_is_set_and_taken_back() {
    let socket = udp4();
    let value = |name| option(&socket, libc::SOL_SOCKET, name).expect("an option that was set");
    for micros in [50, 1, i32::MAX as u64, 0] {
        if let Err(error) = set_busy_poll(&socket, Duration::from_micros(micros)) {
            return skip("busy_polling_is_set_and_taken_back", error);
        }
        assert_eq!(u64::from(value(SO_BUSY_POLL)), micros);
    }
    // Less than a microsecond counts as 0.
    set_busy_poll(&socket, Duration::from_nanos(999)).expect("zero is always allowed");
    assert_eq!(value(SO_BUSY_POLL), 0);

    if let Err(error) = set_prefer_busy_poll(&socket, true) {
        return skip("busy_polling_is_set_and_taken_back: preferred", error);
    }
    assert_eq!(value(SO_PREFER_BUSY_POLL), 1);
    set_prefer_busy_poll(&socket, false).expect("it has it");
    assert_eq!(value(SO_PREFER_BUSY_POLL), 0);
    // Linux cannot read this option back.
    for packets in [0, 1, 64, u16::MAX] {
        set_busy_poll_budget(&socket, packets).expect("it has it");
    }
}

#[test]
fn more_than_the_option_can_hold_is_invalid() {
    for time in [Duration::from_micros(1 << 31), Duration::MAX] {
        let error = set_busy_poll(&udp4(), time).expect_err("it is too long");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("busy polling"), "{error}");
    }
}
