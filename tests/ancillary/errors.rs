//! The error queue on loopback: ICMP errors and send timestamps.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::common::sockets::settle_answers;
use crate::common::{skip, tick};
use crate::kit::net::Host;
use crate::kit::receive::{one, payloads};
use crate::kit::{
    NET, addr, ask, at, bind, dual_stack, in_error, refusing, reports, summary, udp4, udp6,
};
use mmsg::error_queue::{Event, Origin, Report, drain_errors, drain_errors_with};
use mmsg::{
    Ancillary, Backend, BatchSocket, BatchSocketExt, MmsgBuf, Offload, RecvBatch, RecvMsg,
    SendMeta, SendMsg, SendQueue,
};

const BACKENDS: [Backend; 2] = [Backend::Mmsg, Backend::Msg];

/// A sender with `ERRORS` on, an open destination and a closed one; each on IPv4, on
/// IPv6, and on IPv4 by a dual-stack socket.
struct Setting {
    from: UdpSocket,
    open: UdpSocket,
    to_open: SocketAddr,
    /// Held so that nobody else gets the port.
    _closed: UdpSocket,
    to_closed: SocketAddr,
}

fn settings() -> Vec<Setting> {
    let setting = |from: UdpSocket, open: UdpSocket, mapped: bool| {
        ask(&from, Ancillary::ERRORS);
        let closed = refusing(addr(&open).ip());
        let seen = |socket: &UdpSocket| match mapped {
            true => at(&format!("::ffff:{}", addr(socket).ip()), socket),
            false => addr(socket),
        };
        let (to_open, to_closed) = (seen(&open), seen(&closed));
        Setting { from, open, to_open, _closed: closed, to_closed }
    };
    vec![
        setting(udp4(), udp4(), false),
        setting(udp6(), udp6(), false),
        setting(dual_stack(), udp4(), true),
        setting(dual_stack(), udp6(), false),
    ]
}

impl Setting {
    fn good(&self) -> SendMsg<'static> {
        SendMsg::to(self.to_open, b"good")
    }

    fn bad(&self) -> SendMsg<'static> {
        SendMsg::to(self.to_closed, b"bad")
    }

    /// Sends a datagram to the closed port, and waits for the error: for its own, since an earlier one's report makes
    /// the socket ready, too.
    fn provoke_error(&self) {
        assert_eq!(self.from.send_batch(&[self.bad()]).expect("it is taken"), 1);
        settle_answers();
        assert!(in_error(&self.from, NET));
    }

    /// Takes `count` reports, and checks that each names the closed destination.
    #[track_caller]
    fn check_reports(&self, count: usize) {
        let expected = (Event::Refused, Some(self.to_closed), Some(self.to_closed.ip()));
        for report in reports(&self.from, count) {
            assert_eq!((summary(&report), report.errno), (expected, libc::ECONNREFUSED));
        }
        assert!(!in_error(&self.from, Duration::ZERO), "there are more than {count}");
    }
}

#[test]
fn e1_an_icmp_error_fails_no_other_datagram() {
    for setting in settings() {
        let Setting { from, open, .. } = &setting;
        for backend in BACKENDS {
            let mut arena = MmsgBuf::with_backend(backend);
            for count in [1, 2, 5] {
                setting.provoke_error();
                let msgs = vec![setting.good(); count];
                assert_eq!(arena.send(from, &msgs).expect("these are innocent"), count);
                assert_eq!(payloads(open, count), vec![b"good"; count]);
                setting.check_reports(1);
            }
        }
        setting.provoke_error();
        assert_eq!(from.send_batch(&[setting.good()]).expect("it is innocent"), 1);
        setting.provoke_error();
        let mut good = [setting.good(); 3].into_iter();
        assert_eq!(from.send_iter(&mut good).expect("these are innocent"), 3);
        assert_eq!(payloads(open, 4), [b"good"; 4]);
        setting.check_reports(2);
    }
}

#[test]
fn e1_a_batch_may_mix_open_and_closed_ports() {
    for setting in settings() {
        let Setting { from, open, .. } = &setting;
        let (good, bad) = (setting.good(), setting.bad());
        let msgs = [bad, good, bad, bad, good, good, bad, good];
        for backend in BACKENDS {
            let mut arena = MmsgBuf::with_backend(backend);
            let mut sent = 0;
            while sent < msgs.len() {
                // The error may come between two messages; no call fails for it.
                sent += arena.send(from, &msgs[sent..]).expect("each of them is taken");
            }
            assert_eq!(payloads(open, 4), [b"good"; 4]);
            setting.check_reports(4);
        }
        let sent = from.send_each(msgs, |index, error| panic!("{index}: {error}"));
        assert_eq!(sent.expect("each of them is taken"), msgs.len());
        assert_eq!(payloads(open, 4), [b"good"; 4]);
        setting.check_reports(4);

        let mut queue = SendQueue::new(1 << 16);
        msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));
        while !queue.is_empty() {
            assert!(from.flush(&mut queue).expect("each of them is taken") > 0);
        }
        assert_eq!(payloads(open, 4), [b"good"; 4]);
        setting.check_reports(4);
    }
}

/// A way to receive: the payloads of what came.
type Receive = fn(&UdpSocket) -> io::Result<Vec<Vec<u8>>>;

const RECEIVES: [Receive; 4] = [
    |socket| recv_msgs(socket, &mut MmsgBuf::with_backend(Backend::Mmsg), 1),
    |socket| recv_msgs(socket, &mut MmsgBuf::with_backend(Backend::Mmsg), 4),
    |socket| recv_msgs(socket, &mut MmsgBuf::with_backend(Backend::Msg), 4),
    |socket| {
        let mut batch = RecvBatch::new(4, 16);
        socket.recv_into(&mut batch)?;
        Ok(batch.iter().map(|datagram| datagram.data().to_vec()).collect())
    },
];

fn recv_msgs(socket: &UdpSocket, arena: &mut MmsgBuf, capacity: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut memory = vec![[0; 16]; capacity];
    let mut msgs: Vec<_> = memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect();
    let count = arena.recv(socket, &mut msgs)?;
    Ok(msgs[..count].iter().map(|msg| msg.data().to_vec()).collect())
}

#[test]
fn d34_a_receive_goes_on_past_the_error_of_another_datagram() {
    for setting in settings() {
        let Setting { from, open, .. } = &setting;
        let to_from = at(&loopback_of(open), from);
        for receive in RECEIVES {
            from.set_nonblocking(true).expect("it can");
            setting.provoke_error();
            let nothing = receive(from).expect_err("nothing is there");
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);

            // The report is where it belongs, and what comes is received past it.
            setting.provoke_error();
            open.send_to(b"data", to_from).expect("it is taken");
            assert_eq!(receive(from).expect("it is there"), [b"data"]);
            setting.check_reports(2);

            from.set_nonblocking(false).expect("it can");
            setting.provoke_error();
            open.send_to(b"data", to_from).expect("it is taken");
            assert_eq!(receive(from).expect("it is there"), [b"data"]);
            setting.check_reports(1);
        }
    }
}

/// Errors that come while a receive waits: it goes on waiting, for as long as the socket says and
/// no longer.
#[test]
fn d34_a_receive_that_waits_is_not_ended_by_the_errors_of_other_datagrams() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    for setting in settings() {
        let Setting { from, open, to_closed, .. } = &setting;
        let to_from = at(&loopback_of(open), from);
        for receive in RECEIVES {
            from.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
            thread::scope(|scope| {
                let start = Instant::now();
                let receiver = scope.spawn(move || (receive(from), start.elapsed()));
                while !receiver.is_finished() {
                    assert!(start.elapsed() < NET, "it waits for as long as errors come");
                    from.send_to(b"bad", to_closed).ok();
                    thread::sleep(Duration::from_millis(20));
                }
                let (result, waited) = receiver.join().expect("it only receives");
                let nothing = result.expect_err("nothing is there");
                assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
                assert!(waited >= TIMEOUT - tick(), "after {waited:?}");
            });
            drain(from);

            for timeout in [None, Some(NET)] {
                from.set_read_timeout(timeout).expect("a timeout");
                thread::scope(|scope| {
                    let receiver = scope.spawn(move || receive(from));
                    for _ in 0..5 {
                        from.send_to(b"bad", to_closed).ok();
                        thread::sleep(Duration::from_millis(5));
                    }
                    open.send_to(b"data", to_from).expect("it is taken");
                    let came = receiver.join().expect("it only receives");
                    assert_eq!(came.expect("it is there"), [b"data"]);
                });
                drain(from);
            }
        }
    }
}

/// An error whose report found no space in the error queue is reported nowhere else.
#[test]
fn d34_a_receive_returns_an_error_that_is_not_in_the_queue() {
    for setting in settings() {
        let Setting { from, to_closed, .. } = &setting;
        from.set_nonblocking(true).expect("it can");
        for receive in RECEIVES {
            // Every other send returns the error of the one before.
            for _ in 0..1_000 {
                let _ = from.send_to(b"bad", to_closed);
            }
            while from.send_to(b"bad", to_closed).is_err() {}
            // (The queue holds reports in any case, so that polling would not wait for the last error.)
            settle_answers();
            let reported = receive(from).expect_err("its report was dropped");
            assert_eq!(reported.raw_os_error(), Some(libc::ECONNREFUSED));
            let nothing = receive(from).expect_err("returned once");
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
            drain(from);
        }
    }
}

fn drain(socket: &UdpSocket) {
    while drain_errors(socket, &mut [Report::EMPTY; 8]).expect("it is a socket") > 0 {}
}

#[test]
fn d34_a_receive_returns_a_connected_peers_error_once() {
    for setting in settings() {
        let Setting { from, to_closed, .. } = &setting;
        from.connect(to_closed).expect("connecting does nothing but remember");
        for receive in RECEIVES {
            from.send(b"bad").expect("no answer yet");
            assert!(in_error(from, NET));
            let error = receive(from).expect_err("the peer is gone");
            assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
            setting.check_reports(1);
            from.set_nonblocking(true).expect("it can");
            let nothing = receive(from).expect_err("returned once");
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
            from.set_nonblocking(false).expect("it can");
        }
    }
}

fn loopback_of(socket: &UdpSocket) -> String {
    addr(socket).ip().to_string()
}

#[test]
fn e1_an_error_of_the_datagram_itself_is_not_hidden() {
    for setting in settings() {
        let Setting { from, to_open, .. } = &setting;
        let too_long = vec![0; 70_000];
        let msgs = [SendMsg::to(*to_open, &too_long), setting.good()];
        for backend in BACKENDS {
            let error = MmsgBuf::with_backend(backend).send(from, &msgs).expect_err("too long");
            assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
            let mut report_buf = [Report::EMPTY; 8];
            let _ = drain_errors(from, &mut report_buf).expect("it is a socket");
        }
    }
}

#[test]
fn e1_reports_are_off_unless_asked_for() {
    let (from, open, closed) = (udp4(), udp4(), refusing([127, 0, 0, 1]));
    for _ in 0..3 {
        let msgs = [SendMsg::to(addr(&closed), b"bad"), SendMsg::to(addr(&open), b"good")];
        assert_eq!(from.send_batch(&msgs).expect("they are taken"), 2);
    }
    assert_eq!(payloads(&open, 3), [b"good"; 3]);
    assert_eq!(drain_errors(&from, &mut [Report::EMPTY; 4]).expect("it is a socket"), 0);
}

#[test]
fn e2_a_drained_queue_ends_the_error() {
    for setting in settings() {
        let epoll = Epoll::of(&setting.from);
        assert!(!epoll.in_error());
        for _ in 0..5 {
            setting.provoke_error();
        }
        assert!(epoll.in_error());
        // Takes the socket's pending error, so that only the queue is left.
        let _ = setting.from.take_error().expect("it is a socket");
        assert!(epoll.in_error() && in_error(&setting.from, Duration::ZERO));
        let mut report_buf = [Report::EMPTY; 2];
        let taken: Vec<_> = (0..4)
            .map(|_| drain_errors(&setting.from, &mut report_buf).expect("it is a socket"))
            .collect();
        assert_eq!(taken, [2, 2, 1, 0]);
        let _ = setting.from.take_error().expect("it is a socket");
        assert!(!epoll.in_error() && !in_error(&setting.from, Duration::ZERO));
    }
}

#[test]
fn e2_draining_alone_ends_the_error() {
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
            // And the socket is as good as new.
            assert_eq!(setting.from.send_batch(&[setting.good()]).expect("it is taken"), 1);
            assert_eq!(one(&setting.open).data, b"good");
        }
        assert_eq!(drain_errors(&setting.from, &mut []).expect("it is a socket"), 0);
    }
}

struct Epoll(OwnedFd);

impl Epoll {
    /// Reports only errors: they need not be asked for.
    fn of(socket: &UdpSocket) -> Self {
        // SAFETY: no pointers; the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let (socket, add) = (socket.as_raw_fd(), libc::EPOLL_CTL_ADD);
        // SAFETY: the struct outlives the call.
        let added = unsafe { libc::epoll_ctl(fd.as_raw_fd(), add, socket, &mut event) };
        assert_eq!(added, 0);
        Self(fd)
    }

    fn in_error(&self) -> bool {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: space for one event, which outlives the call.
        let found = unsafe { libc::epoll_wait(self.0.as_raw_fd(), &mut event, 1, 0) };
        found == 1 && event.events & libc::EPOLLERR as u32 != 0
    }
}

/// The type and code of "port unreachable".
fn port_unreachable(to: SocketAddr) -> Origin {
    match to.ip().to_canonical().is_ipv4() {
        true => Origin::Icmp { ty: 3, code: 3 },
        false => Origin::Icmp6 { ty: 1, code: 4 },
    }
}

#[test]
fn a_report_says_which_datagram_it_is_about() {
    for setting in settings() {
        let Setting { from, to_closed, .. } = &setting;
        // More than are read at a time, of lengths beside that of the buffers; some without a buffer.
        let sent: Vec<_> = (0..20u8).map(|i| vec![i; i.into()]).collect();
        for data in &sent {
            from.send_batch(&[SendMsg::to(*to_closed, data)]).expect("it is taken");
        }
        let mut reports = [Report::EMPTY; 32];
        let mut memory = [[99; 10]; 17];
        let mut got = Vec::new();
        while got.len() < sent.len() {
            assert!(in_error(from, NET));
            let mut buffers = memory.each_mut().map(|buffer| io::IoSliceMut::new(buffer));
            let n = drain_errors_with(from, &mut reports, &mut buffers).expect("it is a socket");
            assert!(n <= buffers.len());
            for (report, buffer) in reports[..n].iter().zip(&buffers) {
                assert_eq!((report.event, report.dest), (Event::Refused, Some(*to_closed)));
                assert_eq!(report.origin, port_unreachable(*to_closed));
                assert_eq!(report.reporter.map(|addr| addr.port()), Some(0));
                got.push(buffer[..report.data_len].to_vec());
            }
        }
        let expected: Vec<_> =
            sent.iter().map(|data| data[..data.len().min(10)].to_vec()).collect();
        assert_eq!(got, expected);
        assert!(!in_error(from, Duration::ZERO));
        assert_eq!(drain_errors_with(from, &mut reports, &mut []).expect("no buffer"), 0);
    }
}

#[test]
fn a_link_local_reporter_has_its_scope() {
    let commands = ["addr add fe80::77/64 dev lo nodad"];
    let Some(host) = Host::new("a_link_local_reporter", &commands) else { return };
    // Loopback is the first device of every namespace.
    let at = |port| {
        SocketAddr::from(SocketAddrV6::new("fe80::77".parse().expect("it is one"), port, 0, 1))
    };
    let (from, closed) = host.within(|| (bind(at(0)), bind(at(0))));
    closed.connect(addr(&closed)).expect("it hears only itself");
    ask(&from, Ancillary::ERRORS);
    // The kernel limits how often a host sends ICMP errors.
    let provoke = || {
        from.send_batch(&[SendMsg::to(addr(&closed), b"data")]).expect("it is taken");
        in_error(&from, Duration::from_secs(1))
    };
    assert!((0..60).any(|_| provoke()));
    let report = reports(&from, 1)[0];
    assert_eq!((report.dest, report.reporter), (Some(addr(&closed)), Some(at(0))));
}

#[test]
fn send_timestamps_carry_a_number_and_a_time() {
    for (from, to) in [(udp4(), udp4()), (udp6(), udp6()), (dual_stack(), udp6())] {
        // Datagrams from before are not counted.
        from.send_to(b"before", addr(&to)).expect("it is taken");
        ask(&from, Ancillary::SEND_TIMESTAMP);
        let mut next = 0;
        for backend in BACKENDS {
            for count in [1, 3, 20] {
                let before = SystemTime::now();
                let msgs = vec![SendMsg::to(addr(&to), b"data"); count];
                let sent = MmsgBuf::with_backend(backend).send(&from, &msgs);
                assert_eq!(sent.expect("they are taken"), count);
                let stamps = reports(&from, count);
                let after = SystemTime::now();
                for report in stamps {
                    assert_eq!((report.dest, report.reporter, report.errno), (None, None, 0));
                    assert_eq!(report.origin, Origin::Timestamping);
                    let Event::Sent { id, time, hardware_time } = report.event else {
                        panic!("{report:?}");
                    };
                    let time = time.expect("loopback stamps what it sends");
                    assert!(before <= time && time <= after, "{before:?} {time:?} {after:?}");
                    assert_eq!((id, hardware_time), (next, None));
                    next += 1;
                }
            }
        }
        assert!(!in_error(&from, Duration::ZERO));
        // Turned on once more it changes nothing: the numbers go on.
        ask(&from, Ancillary::SEND_TIMESTAMP);
        from.send_batch(&[SendMsg::to(addr(&to), b"data")]).expect("it is taken");
        assert!(matches!(reports(&from, 1)[0].event, Event::Sent { id, .. } if id == next));
    }
}

/// `SCM_TS_OPT_ID`, Linux 6.13.
#[test]
fn a_send_timestamp_has_the_number_of_the_callers_choice() {
    let (from, to) = (udp4(), udp4());
    let msg = SendMsg::to(addr(&to), b"data");
    let number = |id| SendMeta::new().with_timestamp_id(id);
    let (seven, last, own) = (number(7), number(u32::MAX), number(77));
    // It is the number of a timestamp, so that without one it is an error.
    let error = from.send_batch(&[msg.with_meta(&seven)]).expect_err("no timestamps");
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    ask(&from, Ancillary::SEND_TIMESTAMP);
    let offload = Offload::new(from.try_clone().expect("a descriptor")).expect("a UDP socket");
    match from.send_batch(&[msg.with_meta(&last)]) {
        Ok(_) => {}
        Err(error) => return skip("a_send_timestamp_has_the_number", error),
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

#[test]
fn timestamps_and_errors_come_together() {
    for setting in settings() {
        ask(&setting.from, Ancillary::SEND_TIMESTAMP | Ancillary::TIMESTAMP | Ancillary::DEST);
        let msgs = [setting.bad(), setting.good()];
        let sent = setting.from.send_each(msgs, |index, error| panic!("{index}: {error}"));
        assert_eq!(sent.expect("they are taken"), 2);
        let reports = reports(&setting.from, 3);
        let is_stamp = |report: &&Report| matches!(report.event, Event::Sent { .. });
        let (stamps, others): (Vec<&Report>, Vec<&Report>) = reports.iter().partition(is_stamp);
        let ids: Vec<_> = stamps
            .iter()
            .map(|report| match report.event {
                Event::Sent { id, time: Some(_), .. } => id,
                event => panic!("{event:?}"),
            })
            .collect();
        let seen: (Event, _, Option<IpAddr>) = summary(others[0]);
        assert_eq!(ids, [0, 1]);
        assert_eq!(seen, (Event::Refused, Some(setting.to_closed), Some(setting.to_closed.ip())));
    }
}
