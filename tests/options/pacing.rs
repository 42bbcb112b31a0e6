//! Pacing: the socket option, and the fq queueing discipline, which sends datagrams at the requested time and pace. Only
//! lower bounds are checked: a slow machine can only be later.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::{Duration, SystemTime};

use mmsg::options::set_max_pacing_rate;
use mmsg::{Ancillary, Backend, BatchSocket, Offload, RecvBatch, SendMeta, SendMsg, TransmitClock};

use crate::common::linux::{has_option, option};
use crate::common::sockets::udp4;
use crate::common::{TIME_LIMIT, skip};
use crate::veth::{DEVICE, FAR, Far, NEAR, with_far_end};

#[test]
fn a_pacing_rate_is_set_and_taken_back() {
    /// `SO_MAX_PACING_RATE`, include/uapi/asm-generic/socket.h
    const SO_MAX_PACING_RATE: i32 = 47;
    let socket = udp4();
    if !has_option(&socket, libc::SOL_SOCKET, SO_MAX_PACING_RATE) {
        return;
    }
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

/// Two sockets with fq between them; prints why and returns `None` without fq.
fn pair(far: &Far) -> Option<[UdpSocket; 2]> {
    let arguments = ["qdisc", "replace", "dev", DEVICE, "root", "fq"];
    let added = Command::new("tc").args(arguments).output();
    if !added.as_ref().is_ok_and(|output| output.status.success()) {
        skip(format_args!("no fq queueing discipline: {added:?}"));
        return None;
    }
    let bound = |addr: Ipv4Addr| UdpSocket::bind((addr, 0)).expect("an address of this namespace");
    let (here, there) = (bound(NEAR), far.enter(|| bound(FAR)));
    there.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    here.connect(there.local_addr().expect("it is bound")).expect("there is a route");
    Ancillary::TIMESTAMP.require(&there).expect("an option of every Linux");
    Some([here, there])
}

/// When each datagram arrived, by the kernel's clock.
fn arrivals(socket: &UdpSocket, count: usize) -> Vec<SystemTime> {
    let (mut batch, mut stamps) = (RecvBatch::new(64, 1_500), Vec::new());
    while stamps.len() < count {
        socket.recv_into(&mut batch).expect("it arrives");
        stamps.extend(batch.iter().map(|datagram| datagram.meta().timestamp.expect("asked for")));
    }
    stamps
}

#[test]
fn fq_spaces_transmit_times_and_paced_datagrams() {
    with_far_end(|far| {
        for backend in [Backend::Mmsg, Backend::Msg] {
            let Some([here, there]) = pair(&far) else { return };
            let payload = [7; 1_000];

            // Ten datagrams in one call, 20 ms apart.
            TransmitClock::Monotonic.select(&here).expect("Linux 4.19");
            let begin = SystemTime::now();
            let now = TransmitClock::Monotonic.now().expect("it has a clock");
            let gap = Duration::from_millis(20);
            let at = |i: u32| SendMeta::new().with_transmit_time(now + (i + 1) * gap);
            let metas: Vec<_> = (0..10).map(at).collect();
            let msgs: Vec<_> = metas.iter().map(|m| SendMsg::new(&payload).with_meta(m)).collect();
            backend.make_process_default().expect("Linux has both");
            assert_eq!(here.send_batch(&msgs).expect("the device is up"), 10);
            for (i, arrival) in (1..).zip(arrivals(&there, 10)) {
                // The two clocks may differ by a millisecond.
                let earliest = begin + Duration::from_millis(20 * i - 1);
                assert!(arrival >= earliest, "{i}: {arrival:?}, not before {earliest:?}");
            }

            // 100 datagrams of 1,042 bytes with their headers at 521,000 bytes per second: 200 ms.
            let Some([here, there]) = pair(&far) else { return };
            set_max_pacing_rate(&here, Some(521_000)).expect("Linux 3.13");
            let offload = Offload::builder().max_segments(4).build(here).expect("a UDP socket");
            let (msgs, begin) = (vec![SendMsg::new(&payload); 100], SystemTime::now());
            assert_eq!(offload.send_batch(&msgs).expect("the device is up"), 100);
            let last = arrivals(&there, 100)[99];
            let took = last.duration_since(begin).expect("later than it was sent");
            println!("{backend:?}, paced at 500 datagrams per second: a hundred take {took:?}");
            // fq sends some at once (its quantum).
            assert!(took >= Duration::from_millis(150), "{took:?}");
        }
    });
}
