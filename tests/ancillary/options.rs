//! Which options a socket accepts, its state after they are turned off, and metadata of a test double.

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use crate::kit::{HAS_DUAL_STACK, any6, dual_stack, enable_all, has_timestamps, udp4, udp6};
#[cfg(target_os = "linux")]
use crate::kit::{option, set_option};
use mmsg::Ancillary;
use mmsg::error_queue::{Report, drain_errors};

#[test]
fn enable_returns_what_is_on_and_can_be_repeated() {
    if !has_timestamps() {
        return;
    }
    let both = Ancillary::DEST | Ancillary::TOS | Ancillary::HOP_LIMIT | Ancillary::ORIGINAL_DEST;
    let any = Ancillary::TIMESTAMP
        | Ancillary::HARDWARE_TIMESTAMP
        | Ancillary::GRO
        | Ancillary::DROPPED
        | Ancillary::ERRORS
        | Ancillary::SEND_TIMESTAMP;
    let mut sockets = vec![udp4(), udp6(), any6(true)];
    sockets.extend(HAS_DUAL_STACK.then(dual_stack));
    for socket in sockets {
        let first = (both | any).enable(&socket).expect("a socket");
        let expected = if cfg!(target_os = "linux") { both | any } else { Ancillary::DEST };
        assert!(first.contains(expected), "{socket:?}: {first:?}");
        assert_eq!((both | any).enable(&socket).expect("a socket"), first, "{socket:?}");
        assert_eq!(Ancillary::NONE.enable(&socket).expect("a socket"), Ancillary::NONE);
    }
    let (unix, _peer) = UnixDatagram::pair().expect("a pair");
    let taken = (both | any).enable(&unix).expect("a socket");
    assert_eq!(taken, Ancillary::TIMESTAMP, "a Unix socket reports nothing else");
    let file = std::fs::File::open("/dev/null").expect("it is there");
    assert!(Ancillary::TOS.enable(&file).is_err(), "no socket at all");
    assert!(drain_errors(&file, &mut [Report::EMPTY]).is_err(), "no socket at all");
}

#[cfg(target_os = "linux")]
#[test]
fn send_and_receive_timestamps_share_an_option_with_other_code() {
    if !has_timestamps() {
        return;
    }
    let flags = |socket: &UdpSocket| {
        option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING).expect("an option of the socket")
    };
    let of = |options: &[Ancillary], foreign: i32| {
        let socket = udp4();
        set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, foreign).expect("a flag");
        options.iter().for_each(|option| enable_all(&socket, *option));
        flags(&socket)
    };
    let (hardware, sending) = (Ancillary::HARDWARE_TIMESTAMP, Ancillary::SEND_TIMESTAMP);
    let (of_hardware, of_sending) = (of(&[hardware], 0), of(&[sending], 0));
    assert_ne!(of_hardware & libc::SOF_TIMESTAMPING_RX_HARDWARE, 0);
    assert_ne!(of_sending & libc::SOF_TIMESTAMPING_OPT_ID, 0);
    // The crate must keep bits that other code has set.
    let foreign = libc::SOF_TIMESTAMPING_OPT_CMSG;
    for both in [&[hardware, sending][..], &[sending, hardware], &[hardware | sending]] {
        assert_eq!(of(both, foreign as i32), of_hardware | of_sending | foreign);
    }
}

#[test]
fn require_names_the_options_that_are_missing() {
    if !has_timestamps() {
        return;
    }
    let socket = udp6();
    (Ancillary::TOS | Ancillary::DEST).require(&socket).expect("each system has both");
    #[cfg(target_os = "linux")]
    assert_eq!(option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS).ok(), Some(1));
    let (unix, _peer) = UnixDatagram::pair().expect("a pair");
    let error = (Ancillary::HOP_LIMIT | Ancillary::TIMESTAMP | Ancillary::DROPPED).require(&unix);
    let error = error.expect_err("a Unix socket has no hops, and counts nothing");
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(["HOP_LIMIT", "DROPPED"].iter().all(|name| text.contains(name)), "{text}");
    assert!(!text.contains("TIMESTAMP"), "{text}");
    #[cfg(target_os = "linux")]
    assert_eq!(option(&unix, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS).ok(), Some(1), "it is on");
    let file = std::fs::File::open("/dev/null").expect("it is there");
    assert_eq!(
        Ancillary::TOS.require(&file).expect_err("no socket").raw_os_error(),
        Some(libc::ENOTSOCK)
    );
}
