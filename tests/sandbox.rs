//! Real sandboxes: seccomp filters on the calls that move messages.
//!
//! A filter cannot be removed, and the library's choice of backend holds for the process. So each test runs its own
//! binary again as a child, which installs a filter on that test's thread.
#![cfg(target_os = "linux")]

mod common;
#[allow(dead_code)] // The other calls are denied in other test binaries.
#[path = "common/seccomp.rs"]
mod seccomp;

use std::env;
use std::io::{self, IoSliceMut, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::linux::{UDP_GRO, UDP_SEGMENT};
use common::threads::Call;
use common::{exchange, skip, sockets, test_name};
use mmsg::error_queue::{Report, drain_errors};
use mmsg::offload::GsoStatus;
use mmsg::{Ancillary, Backend, BatchSocket, BatchSocketExt, Offload, TransmitClock, options};
use mmsg::{RecvBatch, RecvMsg, SendMsg, SendQueue};
use seccomp::{DeniedCall, RECVMMSG, RECVMSG, SENDMMSG, SENDMMSG_IS_A_LOOP, SENDMSG, SENDTO};

/// The library chooses, which these tests check.
const BACKEND: Option<Backend> = None;

/// Set for a child to the name of its test.
const CHILD: &str = "MMSG_SANDBOX_CHILD";
/// A child's last line, after its test or if it cannot make a sandbox.
const DONE: &str = "the child is done";
const CANNOT: &str = "no filter can be installed here: ";

/// In the child: runs `child`. Otherwise: starts the child and checks its output.
fn in_child(child: impl FnOnce() -> io::Result<()>) {
    let test = test_name();
    if env::var(CHILD).is_ok_and(|name| name == test) {
        let word = match child() {
            Ok(()) => DONE.into(),
            Err(error) => format!("{CANNOT}{error}"),
        };
        // The test harness would capture `println!`.
        return writeln!(io::stdout(), "\n{word}").expect("the parent reads");
    }
    let program = env::current_exe().expect("this program has a file");
    let output = Command::new(program)
        .args(["--exact", &test, "--test-threads=1"])
        .env(CHILD, &test)
        .output()
        .expect("it runs once more");
    let said = String::from_utf8_lossy(&output.stdout);
    if let Some((_, reason)) = said.split_once(CANNOT) {
        return skip(reason.lines().next().unwrap_or_default());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(DONE), "{said}\n{complaint}");
}

/// Under a filter of `calls` everything works, with single-message calls from the first messages on.
#[track_caller]
fn works_without(calls: &'static [DeniedCall], errno: i32) {
    in_child(|| {
        let (near, far) = (sockets::udp4(), sockets::udp4());
        assert_eq!(Backend::current(), Backend::Mmsg);
        seccomp::deny(calls, errno)?;
        // A C library whose `sendmmsg` is a loop never meets a filter of it.
        let is_met = calls[0] == RECVMMSG || !SENDMMSG_IS_A_LOOP;
        // The other sockets of the process use that backend from the start.
        for near in [near, sockets::udp4()] {
            exchange(&near, &far, 20);
            assert_eq!(Backend::current(), if is_met { Backend::Msg } else { Backend::Mmsg });
        }
        Ok(())
    });
}

#[test]
fn a_kernel_without_the_calls() {
    works_without(&[RECVMMSG, SENDMMSG], libc::ENOSYS);
}

#[test]
fn a_sandbox_that_forbids_both_calls() {
    works_without(&[RECVMMSG, SENDMMSG], libc::EPERM);
}

#[test]
fn a_sandbox_that_forbids_sendmmsg_alone() {
    works_without(&[SENDMMSG], libc::EPERM);
}

#[test]
fn a_sandbox_that_forbids_recvmmsg_alone() {
    works_without(&[RECVMMSG], libc::EPERM);
}

/// The calls of one socket on which every system call that moves messages fails with `errno`. None of them waits, loops or
/// says `Interrupted`; each message is reported.
fn assert_each_call_fails(socket: &UdpSocket, to: SocketAddr, errno: i32) {
    let failed = |result: io::Result<usize>| result.unwrap_err().raw_os_error() == Some(errno);
    let mut memory = [[0; 4]; 4];
    let mut batch = RecvBatch::new(4, 4);
    assert!(failed(socket.recv_batch(&mut memory.each_mut().map(|buffer| RecvMsg::new(buffer)))));
    let mut buffers = memory.each_mut().map(|buffer| IoSliceMut::new(buffer));
    assert!(failed(socket.recv_slices(&mut buffers, &mut |_, _| panic!("nothing came"))));
    assert!(failed(socket.recv_into(&mut batch)));
    assert!(failed(socket.recv_into(&mut RecvBatch::new(1, 4))));
    assert!(failed(socket.recv_more(&mut batch)));
    assert!(failed(socket.recv_more_until(&mut batch, Instant::now() + common::TIME_LIMIT)));

    let msgs = [SendMsg::to(to, b"data"); 3];
    let (mut queue, mut errors) = (SendQueue::new(1 << 12), Vec::new());
    msgs.iter().for_each(|msg| queue.push(msg).expect("the queue is ample"));
    assert!(failed(socket.send_batch(&msgs)) && failed(socket.send_batch(&msgs[..1])));
    assert!(failed(socket.flush(&mut queue)) && queue.len() == 3);
    let sent = socket.send_each(msgs, |_, error| errors.push(error.raw_os_error()));
    assert_eq!(sent.expect("each is reported"), 3);
    let sent = socket.flush_each(&mut queue, |_, error| errors.push(error.raw_os_error()));
    assert_eq!(sent.expect("each is reported"), 3);
    assert_eq!(errors, [Some(errno); 6]);
}

/// SELinux, BPF programs and sandboxes answer calls with the numbers of ICMP errors. With `ERRORS` each call ends with the
/// number, although reports about other datagrams arrive and another thread reads them.
#[test]
fn a_policy_that_answers_with_an_icmp_error_ends_each_call() {
    in_child(|| {
        let calls = &[RECVMMSG, RECVMSG, SENDMMSG, SENDMSG, SENDTO];
        for errno in [libc::ECONNREFUSED, libc::EACCES, libc::EHOSTUNREACH, libc::EMSGSIZE] {
            for nonblocking in [false, true] {
                let socket = sockets::udp4();
                socket.set_read_timeout(None).expect("a timeout");
                socket.set_nonblocking(nonblocking).expect("a mode");
                Ancillary::ERRORS.require(&socket).expect("Linux has it");
                let (to, refusing) = (sockets::addr(&socket), sockets::refusing());
                socket.send_to(b"data", to).expect("loopback takes it");
                let one_more = socket.try_clone().expect("a descriptor");
                let is_over = AtomicBool::new(false);
                let reports = || {
                    let mut reports = [Report::EMPTY; 4];
                    while !is_over.load(Ordering::Relaxed) {
                        let _ = socket.send_to(b"refused", sockets::addr(&refusing));
                        drain_errors(&socket, &mut reports).expect("no filter is on this thread");
                    }
                };
                let filtered = || {
                    seccomp::deny(calls, errno)?;
                    assert_each_call_fails(&one_more, to, errno);
                    io::Result::Ok(())
                };
                thread::scope(|scope| {
                    scope.spawn(reports);
                    let result = scope.spawn(filtered).join();
                    is_over.store(true, Ordering::Relaxed);
                    result.expect("the test passes")
                })?;
            }
        }
        Ok(())
    });
}

/// gVisor rejects `MSG_WAITFORONE`.
#[test]
fn a_recvmmsg_that_cannot_wait_for_its_first_message() {
    in_child(|| {
        let (near, far) = (sockets::udp4(), sockets::udp4());
        let refusing = sockets::refusing();
        seccomp::reject_wait_flag()?;
        let mut batch = RecvBatch::new(8, 4);
        let send_three = |to: &UdpSocket| {
            for _ in 0..3 {
                near.send_to(b"data", sockets::addr(to)).expect("loopback takes it");
            }
        };
        // Several threads' first receives meet the rejection, and take all that is there.
        let start = Barrier::new(16);
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let (socket, mut batch) = (sockets::udp4(), RecvBatch::new(8, 4));
                    send_three(&socket);
                    start.wait();
                    assert_eq!(socket.recv_into(&mut batch).expect("three came"), 3);
                });
            }
        });
        send_three(&far);
        assert_eq!(far.recv_into(&mut batch).expect("three came"), 3);
        // An error may have ended the call, and nothing keeps it.
        assert!(!batch.drained());
        exchange(&near, &far, 20);
        assert_eq!(Backend::current(), Backend::Mmsg);

        assert!(common::would_block(far.recv_more(&mut batch)));
        let (timeout, begin) = (Duration::from_millis(30), Instant::now());
        far.set_read_timeout(Some(timeout)).expect("a timeout");
        assert!(common::would_block(far.recv_into(&mut batch)));
        assert!(begin.elapsed() + common::tick() >= timeout);
        far.set_read_timeout(None).expect("a timeout");
        let to = sockets::addr(&far);
        let receiver = Call::blocked(move || far.recv_into(&mut RecvBatch::new(8, 4)));
        near.send_to(b"data", to).expect("loopback takes it");
        assert_eq!(receiver.result().expect("it came"), 1);

        Ancillary::ERRORS.require(&near).expect("Linux has it");
        for _ in 0..4 {
            let _ = near.send_to(b"refused", sockets::addr(&refusing));
        }
        sockets::settle_answers();
        let mut reports = [Report::EMPTY; 8];
        assert!(drain_errors(&near, &mut reports).expect("it has a queue") >= 2);
        assert_eq!(drain_errors(&near, &mut reports).expect("it has a queue"), 0);
        Ok(())
    });
}

/// After a shutdown, a blocking `recvmsg` of gVisor returns 0 and leaves the header as it was. So does this filter.
#[test]
fn a_receive_that_says_nothing_about_the_source_has_met_a_shutdown() {
    in_child(|| {
        let socket = sockets::udp4();
        seccomp::reject_wait_flag()?;
        seccomp::deny(&[RECVMSG], 0)?;
        let mut memory = [[0; 4]; 4];
        for slots in [1, 4] {
            assert_eq!(socket.recv_into(&mut RecvBatch::new(slots, 4)).expect("the end"), 0);
            let memory = memory[..slots].iter_mut();
            let mut msgs: Vec<_> = memory.map(|buffer| RecvMsg::new(buffer)).collect();
            assert_eq!(socket.recv_batch(&mut msgs).expect("the end"), 0);
        }
        Ok(())
    });
}

/// gVisor accepts many options that it does not have, and cannot read them.
#[test]
fn an_option_that_cannot_be_read_is_not_on() {
    in_child(|| {
        let socket = sockets::udp4();
        // Linux before 5.12 cannot read UDP_GRO, but UDP_SEGMENT.
        seccomp::ignore_option(UDP_GRO, true)?;
        assert!(Ancillary::GRO.enable(&socket)? == Ancillary::GRO);
        let by_level = [UDP_SEGMENT, UDP_GRO, libc::IP_MTU_DISCOVER, libc::SO_SNDBUFFORCE];
        for name in [libc::SO_TIMESTAMPNS, libc::SO_TIMESTAMPING, libc::SO_RXQ_OVFL] {
            seccomp::ignore_option(name, false)?;
        }
        for name in by_level.into_iter().chain([libc::SO_MAX_PACING_RATE, libc::SO_TXTIME]) {
            seccomp::ignore_option(name, false)?;
        }
        let ignored = [Ancillary::TIMESTAMP, Ancillary::SEND_TIMESTAMP, Ancillary::DROPPED];
        for member in ignored.into_iter().chain([Ancillary::HARDWARE_TIMESTAMP, Ancillary::GRO]) {
            assert!((member | Ancillary::TOS).enable(&socket)? == Ancillary::TOS, "{member:?}");
            let error = member.require(&socket).expect_err("it is not on");
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{member:?}");
        }
        let unread = |result: io::Result<()>| common::code(result) == libc::ENOPROTOOPT;
        assert!(unread(options::set_max_pacing_rate(&socket, Some(1 << 20))));
        assert!(unread(TransmitClock::Monotonic.select(&socket)));
        assert!(unread(options::Fragmentation::Probe.set(&socket)));
        // The send buffer has its other option.
        assert_eq!(options::set_send_buffer(&socket, 64 << 10)?, 64 << 10);
        let offload = Offload::new(socket)?;
        assert!(!offload.state().gro() && offload.state().gso_status() == GsoStatus::Unsupported);
        Ok(())
    });
}
