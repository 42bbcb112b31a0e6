//! Receives that add to a batch: `recv_more` and `recv_more_until`.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, RecvMeta, RecvMsg, SendMsg};

use crate::common::recv::in_one_receive;
use crate::common::sockets::{addr, connected, settle, udp4};
use crate::common::threads::Call;
use crate::common::{TIME_LIMIT, is_emulated, is_refused, numbered, repetitions};

const SLOTS: usize = 10;
/// How late a call may be where the system runs the thread in time; Windows counts in ticks.
const LATE: Duration = Duration::from_millis(if cfg!(windows) { 20 } else { 2 });

fn data(batch: &RecvBatch) -> Vec<Vec<u8>> {
    batch.iter().map(|datagram| datagram.data().to_vec()).collect()
}

fn send(to: &UdpSocket, payloads: &[Vec<u8>]) {
    let from = udp4();
    for data in payloads {
        from.send_to(data, addr(to)).expect("loopback takes it");
    }
    settle();
}

fn in_millis(millis: u64) -> Instant {
    Instant::now() + Duration::from_millis(millis)
}

/// Tries until a call is in time, since a busy machine delays some calls.
#[track_caller]
pub(super) fn in_time(mut late_by: impl FnMut() -> Duration) {
    let is_in_time = |late| late < LATE || is_emulated();
    assert!((0..1_000).any(|_| is_in_time(late_by())), "late a thousand times");
}

#[test]
fn a_deadline_is_kept_whatever_waits() {
    let socket = udp4();
    let sent = numbered(SLOTS + 2, 20);
    // Shorter than the wait.
    socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a timeout");
    for nonblocking in [false, true] {
        socket.set_nonblocking(nonblocking).expect("it can");
        for waiting in [0, 1, SLOTS - 1, SLOTS, SLOTS + 2] {
            in_time(|| {
                send(&socket, &sent[..waiting]);
                let mut batch = RecvBatch::new(SLOTS, 64);
                let (start, wait) = (Instant::now(), Duration::from_millis(20));
                let added = socket.recv_more_until(&mut batch, start + wait).expect("no error");
                let took = start.elapsed();
                assert_eq!((added, batch.message_count()), (waiting.min(SLOTS), added));
                assert_eq!(data(&batch), sent[..added]);
                // Takes those that did not fit.
                while socket.recv_more(&mut RecvBatch::new(2, 64)).is_ok() {}
                if waiting >= SLOTS {
                    return took;
                }
                assert!(took >= wait, "gave up after {took:?}");
                took - wait
            });
        }
    }
}

#[test]
fn after_the_deadline_all_that_waits_is_taken() {
    let socket = udp4();
    // More than one call takes.
    let sent = numbered(repetitions(1_500, 50), 20);
    let mut batch = RecvBatch::new(2_000, 64);
    let past = Instant::now();
    assert_eq!(socket.recv_more_until(&mut batch, past).expect("nothing is no error"), 0);
    if crate::common::sockets::has_space_for(&socket, sent.len()) {
        send(&socket, &sent);
        assert_eq!(socket.recv_more_until(&mut batch, past).expect("they are there"), sent.len());
        assert_eq!(data(&batch), sent);
    }
}

#[test]
fn what_comes_meanwhile_is_added_and_the_last_ends_the_wait() {
    let socket = udp4();
    let (to, sent) = (addr(&socket), numbered(SLOTS, 20));
    let net = Instant::now() + crate::common::TIME_LIMIT;
    let receiver = Call::blocked(move || {
        let mut batch = RecvBatch::new(SLOTS, 64);
        (socket.recv_more_until(&mut batch, net), data(&batch))
    });
    let from = udp4();
    for data in &sent {
        assert!(!receiver.is_over());
        from.send_to(data, to).expect("loopback takes it");
    }
    let (added, came) = receiver.result();
    assert_eq!((added.expect("no error"), came), (SLOTS, sent));
}

#[test]
fn a_coalesced_message_is_added_and_counted_once() {
    let (near, far) =
        (Offload::new(udp4()).expect("a socket"), Offload::new(udp4()).expect("a socket"));
    let sent = numbered(30, 100);
    let to = addr(far.get_ref());
    let mut batch = RecvBatch::for_gro(8);
    for part in sent.chunks(10) {
        let msgs: Vec<_> = part.iter().map(|data| mmsg::SendMsg::to(to, data)).collect();
        near.send_each(msgs, crate::common::no_failure).expect("loopback takes it");
        settle();
        while batch.datagram_count() % 10 > 0 || data(&batch).last() != part.last() {
            let full = batch.message_count() == batch.slots();
            if full {
                // Without GRO each datagram is a message.
                return assert!(!far.state().gro());
            }
            far.recv_more_until(&mut batch, Instant::now()).expect("they are there");
        }
    }
    assert_eq!(data(&batch), sent);
    assert_eq!(far.state().counters().received, 30);
    let mut short = RecvBatch::new(4, 1_500);
    if far.state().gro() {
        let error = far.recv_more_until(&mut short, in_millis(60_000)).expect_err("too short");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

/// Receives more by a closure.
#[cfg(target_os = "linux")]
struct ReceivesMoreBy<F> {
    socket: UdpSocket,
    recv_more: F,
}

#[cfg(target_os = "linux")]
impl<F> std::os::fd::AsFd for ReceivesMoreBy<F> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(target_os = "linux")]
impl<F: Fn(&UdpSocket, &mut RecvBatch) -> io::Result<usize>> BatchSocket for ReceivesMoreBy<F> {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        self.socket.recv_batch(msgs)
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        self.socket.send_batch(msgs)
    }

    fn recv_more(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        (self.recv_more)(&self.socket, batch)
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_came_before_a_shutdown_is_taken() {
    let (socket, peer) = connected();
    let sent = std::cell::Cell::new(false);
    let recv_more = |socket: &UdpSocket, batch: &mut RecvBatch| {
        let result = socket.recv_more(batch);
        if !sent.replace(true) {
            peer.send(b"last").expect("loopback takes it");
            settle();
            let how = std::net::Shutdown::Read;
            socket2::SockRef::from(socket).shutdown(how).expect("it is connected");
        }
        result
    };
    let mut batch = RecvBatch::new(SLOTS, 64);
    let socket = ReceivesMoreBy { socket, recv_more };
    let added = socket.recv_more_until(&mut batch, Instant::now() + TIME_LIMIT);
    assert_eq!((added.expect("the end is no error"), data(&batch)), (1, vec![b"last".to_vec()]));
    // Nor does it wait where a receive brings nothing without an error.
    let idle =
        ReceivesMoreBy { socket: udp4(), recv_more: |_: &UdpSocket, _: &mut RecvBatch| Ok(0) };
    assert_eq!(idle.recv_more_until(&mut batch, Instant::now() + TIME_LIMIT).expect("no error"), 0);
}

/// gVisor reports a socket that was shut down as readable for ever.
#[cfg(target_os = "linux")]
#[test]
fn a_readable_socket_without_messages_makes_no_busy_loop() {
    let (socket, calls) = (udp4(), std::cell::Cell::new(0));
    send(&socket, &numbered(1, 20));
    // Nobody takes the datagram that `poll` sees.
    let recv_more = |_: &UdpSocket, _: &mut RecvBatch| {
        calls.set(calls.get() + 1);
        Err(ErrorKind::WouldBlock.into())
    };
    let socket = ReceivesMoreBy { socket, recv_more };
    let added = socket.recv_more_until(&mut RecvBatch::new(2, 64), in_millis(50));
    assert_eq!(added.expect("the deadline is no error"), 0);
    assert!(calls.get() <= 53, "{} calls in 50 ms", calls.get());
}

/// `poll` always returns at once while the error queue holds a report.
#[cfg(target_os = "linux")]
#[test]
fn a_report_in_the_error_queue_makes_no_busy_loop() {
    use crate::common::linux::time;
    use std::os::fd::AsRawFd;
    let (socket, nobody) = (udp4(), crate::common::sockets::refusing());
    mmsg::Ancillary::ERRORS.require(&socket).expect("Linux has it");
    let from = udp4();
    let mut batch = RecvBatch::new(2, 64);
    in_time(|| {
        socket.send_to(b"to nobody", addr(&nobody)).expect("loopback takes it");
        crate::common::sockets::settle_answers();
        // Clears the socket's error, and leaves the report in its queue.
        while fails_by_icmp_error(socket.recv_more(&mut batch)) {}
        let mut look = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one `pollfd`, which outlives the call.
        assert_eq!(unsafe { libc::poll(&mut look, 1, 0) }, 1, "the report is there");
        let (start, before) = (Instant::now(), time(libc::CLOCK_THREAD_CPUTIME_ID));
        let deadline = start + Duration::from_millis(60);
        assert_eq!(socket.recv_more_until(&mut batch, deadline).expect("nothing comes"), 0);
        let (took, cpu) = (start.elapsed(), time(libc::CLOCK_THREAD_CPUTIME_ID) - before);
        assert!(took >= Duration::from_millis(60));
        // A busy loop uses all of the time.
        (took - Duration::from_millis(60)).max(cpu.saturating_sub(took / 2))
    });
    // Nevertheless it receives a datagram.
    let own = socket.try_clone().expect("a second descriptor");
    let receiver = Call::blocked(move || {
        let mut batch = RecvBatch::new(1, 64);
        own.recv_more_until(&mut batch, Instant::now() + crate::common::TIME_LIMIT)
            .map(|_| data(&batch))
    });
    from.send_to(b"it", addr(&socket)).expect("loopback takes it");
    assert_eq!(receiver.result().expect("it came"), [b"it"]);
}

/// Whether the receive returned an ICMP error. Otherwise the socket has no error left.
#[cfg(target_os = "linux")]
fn fails_by_icmp_error(result: std::io::Result<usize>) -> bool {
    is_refused(&result.expect_err("nothing was sent"))
}

/// Compares a batch with a list of its messages, over receives, pushes and clears in random order.
#[test]
fn a_batch_holds_what_was_added_whatever_was_done_before() {
    let sockets = [udp4(), udp4()];
    // Only the first socket's messages have metadata.
    let meta = mmsg::Ancillary::HOP_LIMIT.enable(&sockets[0]).expect("an option");
    sockets.iter().for_each(|socket| socket.set_nonblocking(true).expect("it can"));
    let from = udp4();
    let mut waiting: [VecDeque<Vec<u8>>; 2] = Default::default();
    let (mut batch, mut twin) = (RecvBatch::new(7, 16), Vec::new());
    let numbers = numbered(repetitions(4_000, 400), 20);
    let mut state = 1u32;
    let mut random = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 16) % below) as usize
    };
    for data in numbers {
        let which = random(2);
        match random(8) {
            0 => {
                batch.clear();
                twin.clear();
            }
            1 => {
                let added = batch.push(Some(addr(&from)), &data, RecvMeta::default());
                assert_eq!(added, twin.len() < 7);
                twin.extend(added.then_some((data, false)));
            }
            2..5 => {
                from.send_to(&data, addr(&sockets[which])).expect("loopback takes it");
                waiting[which].push_back(data);
            }
            step => {
                settle();
                let (socket, waiting) = (&sockets[which], &mut waiting[which]);
                let result = match step {
                    5 => {
                        twin.clear();
                        socket.recv_into(&mut batch)
                    }
                    6 => socket.recv_more(&mut batch),
                    _ => socket.recv_more_until(&mut batch, Instant::now()),
                };
                let free = 7 - twin.len();
                let added = result.unwrap_or_else(|error| {
                    assert!(error.kind() == ErrorKind::WouldBlock && waiting.is_empty());
                    0
                });
                let all = waiting.len().min(free);
                assert_eq!(added, if step == 7 { all } else { in_one_receive(all) });
                let has_meta = which == 0 && meta != mmsg::Ancillary::NONE;
                twin.extend(waiting.drain(..added).map(|data| (data, has_meta)));
            }
        }
        assert_eq!(batch.message_count(), twin.len());
        for (message, (data, has_meta)) in batch.messages().zip(&twin) {
            assert_eq!((message.data(), message.truncated()), (&data[..16], true));
            assert_eq!(message.addr(), Some(addr(&from)));
            assert_eq!(message.meta().hop_limit.is_some(), *has_meta);
        }
        assert!(
            batch.iter_mut().map(|d| d.data().to_vec()).eq(twin.iter().map(|t| t.0[..16].to_vec()))
        );
    }
}
