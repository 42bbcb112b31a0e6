//! Which options a socket accepts, its state after they are turned off, and metadata of a test double.

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::kit::receive::one;
use crate::kit::{addr, any6, dual_stack, enable_all, in_error, option, set_option, udp4, udp6};
use mmsg::error_queue::{Report, drain_errors};
use mmsg::{Ancillary, BatchSocket, SendMsg};

#[test]
fn enable_returns_what_is_on_and_can_be_repeated() {
    let both = Ancillary::DEST | Ancillary::TOS | Ancillary::HOP_LIMIT | Ancillary::ORIGINAL_DEST;
    let any = Ancillary::TIMESTAMP
        | Ancillary::HARDWARE_TIMESTAMP
        | Ancillary::GRO
        | Ancillary::DROPPED
        | Ancillary::ERRORS
        | Ancillary::SEND_TIMESTAMP;
    for socket in [udp4(), udp6(), dual_stack(), any6(true)] {
        for _ in 0..2 {
            let taken = (both | any).enable(&socket).expect("a socket");
            assert_eq!(taken, both | any, "{socket:?}");
        }
        for _ in 0..2 {
            let taken = (both | any).disable(&socket).expect("a socket");
            assert_eq!(taken, both | any, "{socket:?}");
        }
        assert_eq!(Ancillary::NONE.enable(&socket).expect("a socket"), Ancillary::NONE);
    }
    let (unix, _peer) = UnixDatagram::pair().expect("a pair");
    let taken = (both | Ancillary::TIMESTAMP).enable(&unix).expect("a socket");
    assert_eq!(taken, Ancillary::TIMESTAMP, "a Unix socket has no Internet options");
    let file = std::fs::File::open("/dev/null").expect("it is there");
    assert!(Ancillary::TOS.enable(&file).is_err(), "no socket at all");
    assert!(drain_errors(&file, &mut [Report::EMPTY]).is_err(), "no socket at all");
}

#[test]
fn send_and_receive_timestamps_are_turned_off_apart() {
    let (hardware, sending) = (Ancillary::HARDWARE_TIMESTAMP, Ancillary::SEND_TIMESTAMP);
    let flags = |socket: &UdpSocket| {
        option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING).expect("an option of the socket")
    };
    let alone = |option: Ancillary| {
        let socket = udp4();
        enable_all(&socket, option);
        flags(&socket)
    };
    let (of_hardware, of_sending) = (alone(hardware), alone(sending));
    assert_ne!(of_hardware & libc::SOF_TIMESTAMPING_RX_HARDWARE, 0);
    assert_ne!(of_sending & libc::SOF_TIMESTAMPING_OPT_ID, 0);

    let socket = udp4();
    let is_stamped = || {
        socket.send_batch(&[SendMsg::to(addr(&socket), b"data")]).expect("it is taken");
        one(&socket);
        let stamped = in_error(&socket, Duration::ZERO);
        let mut report_buf = [Report::EMPTY; 4];
        assert_eq!(drain_errors(&socket, &mut report_buf).expect("a socket"), usize::from(stamped));
        stamped
    };
    enable_all(&socket, hardware | sending);
    assert_eq!((flags(&socket), is_stamped()), (of_hardware | of_sending, true));
    let _ = hardware.disable(&socket).expect("a socket");
    assert_eq!((flags(&socket), is_stamped()), (of_sending, true));
    enable_all(&socket, hardware);
    let _ = sending.disable(&socket).expect("a socket");
    assert_eq!((flags(&socket), is_stamped()), (of_hardware, false));
    enable_all(&socket, sending);
    let _ = (hardware | sending).disable(&socket).expect("a socket");
    assert_eq!((flags(&socket), is_stamped()), (0, false));

    // The crate must keep bits that other code has set.
    let foreign = libc::SOF_TIMESTAMPING_OPT_CMSG as i32;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, foreign).expect("a flag");
    enable_all(&socket, hardware | sending);
    let _ = (hardware | sending).disable(&socket).expect("a socket");
    assert_eq!(flags(&socket), foreign as libc::c_uint);
}

#[test]
fn require_names_the_options_that_are_missing() {
    let socket = udp4();
    (Ancillary::TOS | Ancillary::DEST).require(&socket).expect("Linux has both");
    assert_eq!(option(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS).ok(), Some(1));
    let (unix, _peer) = UnixDatagram::pair().expect("a pair");
    let error = (Ancillary::HOP_LIMIT | Ancillary::TIMESTAMP).require(&unix);
    let error = error.expect_err("a Unix socket has no hops");
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("HOP_LIMIT") && !text.contains("TIMESTAMP"), "{text}");
    let is_on = option(&unix, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS).ok();
    assert_eq!(is_on, Some(1), "what there is, is on");
    let file = std::fs::File::open("/dev/null").expect("it is there");
    assert_eq!(
        Ancillary::TOS.require(&file).expect_err("no socket").raw_os_error(),
        Some(libc::ENOTSOCK)
    );
}
