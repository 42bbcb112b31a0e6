//! Buffer sizes, and the count of datagrams that a full buffer drops.

use mmsg::options::{set_recv_buffer, set_send_buffer};
use socket2::SockRef;

use crate::common::sockets::udp4;

#[test]
fn the_size_in_force_is_returned() {
    for wanted in [64 << 10, 200 << 10, 100 << 10] {
        let socket = udp4();
        let handle = SockRef::from(&socket);
        // Within every system's limit. Linux reports twice as much.
        let reported = if cfg!(target_os = "linux") { 2 * wanted } else { wanted };
        assert_eq!(set_recv_buffer(&socket, wanted).expect("a UDP socket"), wanted);
        assert_eq!(handle.recv_buffer_size().expect("a UDP socket"), reported);
        assert_eq!(set_send_buffer(&socket, wanted).expect("a UDP socket"), wanted);
        assert_eq!(handle.send_buffer_size().expect("a UDP socket"), reported);
    }
}

#[test]
fn a_size_beyond_the_limit_is_no_error() {
    let limit = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).ok()?;
        text.trim().parse::<usize>().ok()
    };
    for wanted in [64 << 20, usize::MAX] {
        let socket = udp4();
        let sizes = [
            (set_recv_buffer(&socket, wanted).expect("a UDP socket"), limit("rmem_max")),
            (set_send_buffer(&socket, wanted).expect("a UDP socket"), limit("wmem_max")),
        ];
        for (size, limit) in sizes {
            // Privileged processes get the requested size, others the limit.
            let most = wanted.min(i32::MAX as usize / 2);
            assert!(size == most || limit.is_none_or(|limit| size == limit), "{size}, {limit:?}");
        }
    }
    // On Linux any size can be requested; the kernel has a minimum.
    let least = set_recv_buffer(&udp4(), 0);
    assert!(cfg!(not(target_os = "linux")) || least.expect("a UDP socket") > 0);
}

/// In a namespace, so that no other traffic on loopback interferes.
#[cfg(target_os = "linux")]
#[test]
fn what_a_full_buffer_drops_is_counted_while_nothing_arrives() {
    use crate::common::{linux::in_namespace, sockets::addr};
    use mmsg::{Ancillary, BatchSocket, RecvBatch, options::dropped};

    in_namespace(|| {
        let (from, to) = (udp4(), udp4());
        assert!(Ancillary::DROPPED.enable(&to).expect("a UDP socket").contains(Ancillary::DROPPED));
        set_recv_buffer(&to, 8 << 10).expect("a UDP socket");
        to.set_nonblocking(true).expect("a UDP socket");
        let (mut reported, mut batch) = (0, RecvBatch::new(64, 2_000));
        let (mut sent, mut received) = (0, 0);
        for _ in 0..5 {
            for _ in 0..100 {
                from.send_to(&[7; 1_000], addr(&to)).expect("loopback takes a datagram");
                sent += 1;
            }
            crate::common::sockets::settle();
            while to.recv_into(&mut batch).is_ok() {
                received += batch.iter().count() as u64;
                if let Some(last) = batch.iter().last() {
                    reported = last.meta().dropped.unwrap_or(0);
                }
            }
        }
        // Nothing arrives any more.
        assert!(u64::from(reported) < sent - received);
        assert_eq!(u64::from(dropped(&to).expect("Linux 4.12")), sent - received);
    });
}
