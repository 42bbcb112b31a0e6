//! Reports of the error queue on loopback: their contents, send timestamps, and draining.

use std::array;
use std::net::{SocketAddr, SocketAddrV6};
use std::time::{Duration, SystemTime};

use super::errors::{Setting, settings};
use crate::common::firewall::reject_port;
use crate::common::linux::{has_timestamps, in_namespace};
use crate::common::skip;
use crate::kit::net::Host;
use crate::kit::receive::one;
use crate::kit::{TIME_LIMIT, addr, bind, dual_stack, enable_all, in_error, reports, udp4, udp6};
use mmsg::error_queue::{Event, Report, drain_errors};
use mmsg::{Ancillary, BatchSocket, BatchSocketExt, Offload, SendMeta, SendMsg};

#[test]
fn draining_alone_ends_the_error() {
    for setting in settings() {
        for more_than_a_step in [1, 8, 9, 16, 20] {
            for _ in 0..more_than_a_step {
                setting.provoke_error();
            }
            let mut report_buf = [Report::EMPTY; 32];
            let taken = drain_errors(&setting.from, &mut report_buf).expect("it is a socket");
            assert_eq!(taken, more_than_a_step);
            assert!(!in_error(&setting.from, Duration::ZERO));
            assert_eq!(report_buf[taken..], [Report::EMPTY; 32][taken..]);
            // The socket is usable again.
            assert_eq!(setting.from.send_batch(&[setting.good()]).expect("it is taken"), 1);
            assert_eq!(one(&setting.open).data, b"good");
        }
        assert_eq!(drain_errors(&setting.from, &mut []).expect("it is a socket"), 0);
    }
}

#[test]
fn a_report_says_which_datagram_it_is_about() {
    for setting in settings() {
        let Setting { from, to_closed, .. } = &setting;
        // More than the kernel or the caller reads at a time.
        const SENT: usize = 20;
        // Empty, whole and cut quotes: a report keeps 64 bytes.
        let payload: [u8; 7 * SENT] = array::from_fn(|i| i as u8);
        for i in 0..SENT {
            from.send_batch(&[SendMsg::to(*to_closed, &payload[..7 * i])]).expect("it is taken");
        }
        let is_v4 = to_closed.ip().to_canonical().is_ipv4();
        let (mut reports, mut got) = ([Report::EMPTY; 17], 0);
        while got < SENT {
            assert!(in_error(from, TIME_LIMIT));
            let n = drain_errors(from, &mut reports).expect("it is a socket");
            for report in &reports[..n] {
                assert_eq!((report.event, report.dest), (Event::Refused, Some(*to_closed)));
                assert_eq!(report.offender.map(|addr| addr.port()), Some(0));
                assert_eq!(
                    report.icmp_type.zip(report.icmp_code),
                    Some(if is_v4 { (3, 3) } else { (1, 4) })
                );
                assert_eq!(report.timestamp, None);
                assert_eq!(report.quote(), &payload[..(7 * got).min(64)]);
                got += 1;
            }
        }
        assert_eq!(got, SENT);
        assert!(!in_error(from, Duration::ZERO));
    }
}

/// The first errors may be as old as their read: the kernel takes a while to begin with timestamps.
#[test]
fn a_report_has_the_time_of_its_arrival() {
    if !has_timestamps() {
        return;
    }
    for setting in settings() {
        enable_all(&setting.from, Ancillary::TIMESTAMP);
        let is_arrival = || {
            let before = SystemTime::now();
            setting.provoke_error();
            let there = SystemTime::now();
            while SystemTime::now() < there + Duration::from_millis(2) {}
            let time = reports(&setting.from, 1)[0].timestamp.expect("it is on");
            assert!(before <= time && time <= SystemTime::now(), "{before:?} {time:?}");
            time <= there
        };
        assert!((0..1_000).any(|_| is_arrival()), "they have the time of the read");
    }
}

#[test]
fn a_link_local_reporter_has_its_scope() {
    let commands = ["addr add fe80::77/64 dev lo nodad"];
    let Some(host) = Host::new(&commands) else { return };
    // Loopback is the first device of every namespace.
    let at = |port| {
        SocketAddr::from(SocketAddrV6::new("fe80::77".parse().expect("it is one"), port, 0, 1))
    };
    let (from, closed) = host.enter(|| (bind(at(0)), bind(at(0))));
    closed.connect(addr(&closed)).expect("it hears only itself");
    enable_all(&from, Ancillary::ERRORS);
    // The kernel limits how often a host sends ICMP errors.
    let provoke = || {
        from.send_batch(&[SendMsg::to(addr(&closed), b"data")]).expect("it is taken");
        in_error(&from, Duration::from_secs(1))
    };
    assert!((0..60).any(|_| provoke()));
    let report = &reports(&from, 1)[0];
    assert_eq!((report.dest, report.offender), (Some(addr(&closed)), Some(at(0))));
}

#[test]
fn send_timestamps_carry_a_number_and_a_time() {
    if !has_timestamps() {
        return;
    }
    for (from, to) in [(udp4(), udp4()), (udp6(), udp6()), (dual_stack(), udp6())] {
        // Datagrams sent before are not counted.
        from.send_to(b"before", addr(&to)).expect("it is taken");
        enable_all(&from, Ancillary::SEND_TIMESTAMP);
        let mut next = 0;
        for count in [1, 3, 20] {
            let before = SystemTime::now();
            let msgs = vec![SendMsg::to(addr(&to), b"data"); count];
            let sent = from.send_batch(&msgs);
            assert_eq!(sent.expect("they are taken"), count);
            let stamps = reports(&from, count);
            let after = SystemTime::now();
            for report in stamps {
                assert_eq!((report.dest, report.offender, report.errno), (None, None, 0));
                assert_eq!(
                    (report.icmp_type, report.timestamp, report.quote()),
                    (None, None, &[][..])
                );
                let Event::Sent { id, time, hardware_time, .. } = report.event else {
                    panic!("{report:?}");
                };
                let time = time.expect("loopback stamps what it sends");
                assert!(before <= time && time <= after, "{before:?} {time:?} {after:?}");
                assert_eq!((id, hardware_time), (next, None));
                next += 1;
            }
        }
        assert!(!in_error(&from, Duration::ZERO));
        // Enabling it again changes nothing: the numbers continue.
        enable_all(&from, Ancillary::SEND_TIMESTAMP);
        from.send_batch(&[SendMsg::to(addr(&to), b"data")]).expect("it is taken");
        assert!(matches!(reports(&from, 1)[0].event, Event::Sent { id, .. } if id == next));
    }
}

/// A program that counts its sends must count those, too.
#[test]
fn a_send_that_fails_after_its_datagram_was_built_uses_a_number() {
    in_namespace(|| {
        let (from, to, closed) = (udp4(), udp4(), udp4());
        if let Err(error) = reject_port(addr(&closed).port()) {
            return skip(format_args!("no firewall rule: {error}"));
        }
        enable_all(&from, Ancillary::SEND_TIMESTAMP);
        let (good, rejected) =
            (SendMsg::to(addr(&to), b"good"), SendMsg::to(addr(&closed), b"bad"));
        let nowhere = SendMsg::to("192.0.2.1:9".parse().expect("an address"), b"bad");
        let mut failed = Vec::new();
        let msgs = [good, rejected, good, nowhere, good];
        let fail = |_, error: std::io::Error| failed.push(error.raw_os_error());
        assert_eq!(from.send_each(msgs, fail).expect("each is handled"), msgs.len());
        assert_eq!(failed, [libc::EPERM, libc::ENETUNREACH].map(Some));
        // (A rejected message is offered once more if it ended a batch.)
        let ids = reports(&from, 3).into_iter().map(|report| match report.event {
            Event::Sent { id, .. } => id,
            event => panic!("{event:?}"),
        });
        let ids: Vec<_> = ids.collect();
        assert!(ids[0] == 0 && ids[1] >= 2 && ids[2] == ids[1] + 1, "{ids:?}");
    });
}

/// `SCM_TS_OPT_ID`, Linux 6.13.
#[test]
fn a_send_timestamp_has_the_number_of_the_callers_choice() {
    if !has_timestamps() {
        return;
    }
    let (from, to) = (udp4(), udp4());
    let msg = SendMsg::to(addr(&to), b"data");
    let number = |id| SendMeta::new().with_timestamp_id(id);
    let (seven, last, own) = (number(7), number(u32::MAX), number(77));
    // The number belongs to a timestamp, so it is an error without one.
    let error = from.send_batch(&[msg.with_meta(&seven)]).expect_err("no timestamps");
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    enable_all(&from, Ancillary::SEND_TIMESTAMP);
    let offload = Offload::new(from.try_clone().expect("a descriptor")).expect("a UDP socket");
    match from.send_batch(&[msg.with_meta(&last)]) {
        Ok(_) => {}
        Err(error) => return skip(error),
    }
    let sent = offload.send_batch(&[msg, msg.with_meta(&own), msg.with_meta(&own), msg]);
    assert_eq!(sent.expect("they are taken"), 4);
    let reports = reports(&from, 5);
    let ids = reports.iter().map(|report| match report.event {
        Event::Sent { id, time: Some(_), .. } => id,
        event => panic!("{event:?}"),
    });
    assert_eq!(ids.collect::<Vec<_>>(), [u32::MAX, 0, 77, 77, 1]);
}
