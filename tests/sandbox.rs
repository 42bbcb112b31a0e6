//! Real sandboxes: seccomp filters on the multi-message calls, and a memory limit.
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use common::{no_failure, skip, sockets};
use mmsg::error_queue::{Report, drain_errors};
use mmsg::{Ancillary, AsSocket, Backend, BatchSocket, BatchSocketExt};
use mmsg::{RecvBatch, RecvMsg, SendMsg, SendQueue};
use seccomp::{RECVMMSG, RECVMSG, SENDMMSG, SENDMMSG_IS_A_LOOP, SENDMSG, SENDTO};
use socket2::{Domain, SockRef, Socket, Type};

/// The library chooses, which these tests check.
const BACKEND: Option<Backend> = None;

/// Set for a child to the name of its test.
const CHILD: &str = "MMSG_SANDBOX_CHILD";
/// A child's last line, after its test or if it cannot make a sandbox.
const DONE: &str = "the child is done";
const CANNOT: &str = "no filter can be installed here: ";

const BATCH: usize = 20;

/// In the child: runs `child`. Otherwise: starts the child and checks its output.
fn in_child(test: &str, child: impl FnOnce() -> io::Result<()>) {
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
        .args(["--exact", test, "--test-threads=1"])
        .env(CHILD, test)
        .output()
        .expect("it runs once more");
    let said = String::from_utf8_lossy(&output.stdout);
    if let Some((_, reason)) = said.split_once(CANNOT) {
        return skip(test, reason.lines().next().unwrap_or_default());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(DONE), "{said}\n{complaint}");
}

/// Sends and receives in every way; all datagrams arrive in order.
fn exchange(near: &UdpSocket, far: &UdpSocket) {
    let data: Vec<_> = (0..BATCH as u32).map(u32::to_be_bytes).collect();
    let to = sockets::addr(far);
    let msgs: Vec<_> = data.iter().map(|bytes| SendMsg::to(to, bytes)).collect();
    let mut memory = [[0; 4]; BATCH + 4];
    let mut batch = RecvBatch::new(BATCH + 4, 4);
    let mut queue = SendQueue::new(1 << 16);
    for way in 0..3 {
        let sent = match way {
            0 => near.send_batch(&msgs),
            1 => near.send_each(&msgs, no_failure),
            _ => {
                msgs.iter().for_each(|msg| queue.push(msg).expect("the queue is ample"));
                near.flush(&mut queue)
            }
        };
        assert_eq!(sent.expect("a sandbox is no reason to fail"), BATCH);

        let mut received = Vec::new();
        while received.len() < BATCH {
            if way % 2 == 0 {
                let mut recv_msgs = memory.each_mut().map(|buffer| RecvMsg::new(buffer));
                let count = far.recv_batch(&mut recv_msgs).expect("something is waiting");
                received.extend(recv_msgs[..count].iter().map(|msg| msg.data().to_vec()));
            } else {
                far.recv_into(&mut batch).expect("something is waiting");
                received.extend(batch.iter().map(|datagram| datagram.data().to_vec()));
            }
        }
        assert_eq!(received, data);
    }
}

/// Under a filter that returns `errno` for `calls`, everything works with single-message calls, permanently.
fn falls_back(test: &str, calls: &'static [seccomp::DeniedCall], errno: i32) {
    works(test, calls, errno, Backend::Msg);
}

/// The same for `sendmmsg` only. A C library that does not use the system call never meets the filter.
fn works_without_sendmmsg(test: &str, errno: i32) {
    let backend = if SENDMMSG_IS_A_LOOP { Backend::Mmsg } else { Backend::Msg };
    works(test, &[SENDMMSG], errno, backend);
}

/// Under the filter everything works, and after the first messages with `backend`.
fn works(test: &str, calls: &'static [seccomp::DeniedCall], errno: i32, backend: Backend) {
    in_child(test, || {
        let (near, far) = (sockets::udp4(), sockets::udp4());
        assert_eq!(Backend::current(), Backend::Mmsg);
        seccomp::deny(calls, errno)?;
        exchange(&near, &far);
        assert_eq!(Backend::current(), backend);
        // Other sockets of the process use that backend from the start.
        exchange(&sockets::udp4(), &far);
        assert_eq!(Backend::current(), backend);
        Ok(())
    });
}

#[test]
fn a_kernel_without_the_calls() {
    falls_back("a_kernel_without_the_calls", &[RECVMMSG, SENDMMSG], libc::ENOSYS);
}

#[test]
fn a_sandbox_that_forbids_both_calls() {
    falls_back("a_sandbox_that_forbids_both_calls", &[RECVMMSG, SENDMMSG], libc::EPERM);
}

#[test]
fn a_sandbox_that_forbids_sendmmsg_alone() {
    works_without_sendmmsg("a_sandbox_that_forbids_sendmmsg_alone", libc::EPERM);
}

#[test]
fn a_sandbox_that_forbids_recvmmsg_alone() {
    falls_back("a_sandbox_that_forbids_recvmmsg_alone", &[RECVMMSG], libc::EPERM);
}

/// The calls of one socket on which every system call that moves messages fails with `errno`. None of them waits, loops or
/// says `Interrupted`; each message is reported.
fn assert_each_call_fails(socket: &(impl BatchSocket + AsSocket), to: SocketAddr, errno: i32) {
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

/// The same for the futures.
#[cfg(feature = "tokio")]
fn assert_each_future_fails(socket: UdpSocket, to: SocketAddr, errno: i32) {
    use mmsg::AsyncBatchSocket;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let socket = tokio::net::UdpSocket::from_std(socket).expect("it does not block");
        let failed = |result: io::Result<usize>| result.unwrap_err().raw_os_error() == Some(errno);
        let mut batch = RecvBatch::new(4, 4);
        assert!(failed(socket.recv_into(&mut batch).await));
        let deadline = Instant::now() + common::TIME_LIMIT;
        assert!(failed(socket.recv_more_until(&mut batch, deadline).await));
        let msgs = [SendMsg::to(to, b"data"); 3];
        let (mut queue, mut errors) = (SendQueue::new(1 << 12), Vec::new());
        msgs.iter().for_each(|msg| queue.push(msg).expect("the queue is ample"));
        assert!(failed(socket.send_batch(&msgs).await) && failed(socket.flush(&mut queue).await));
        let sent = socket.send_each(msgs, |_, error| errors.push(error.raw_os_error())).await;
        assert_eq!(sent.expect("each is reported"), 3);
        let each = |_: &SendMsg<'_>, error: io::Error| errors.push(error.raw_os_error());
        assert_eq!(socket.flush_each(&mut queue, each).await.expect("each is reported"), 3);
        assert_eq!(errors, [Some(errno); 6]);
    });
}

/// SELinux, BPF programs and sandboxes answer calls with the numbers of ICMP errors. With `ERRORS` each call ends with the
/// number, although reports about other datagrams arrive and another thread reads them.
#[test]
fn a_policy_that_answers_with_an_icmp_error_ends_each_call() {
    in_child("a_policy_that_answers_with_an_icmp_error_ends_each_call", || {
        let calls = &[RECVMMSG, RECVMSG, SENDMMSG, SENDMSG, SENDTO];
        for errno in [libc::ECONNREFUSED, libc::EACCES, libc::EHOSTUNREACH, libc::EMSGSIZE] {
            for kind in ["blocking", "non-blocking", "mio", "tokio"] {
                let socket = sockets::udp4();
                socket.set_read_timeout(None).expect("a timeout");
                socket.set_nonblocking(kind != "blocking").expect("a mode");
                Ancillary::ERRORS.require(&socket).expect("Linux has it");
                let (to, closed) = (sockets::addr(&socket), sockets::addr(&sockets::udp4()));
                socket.send_to(b"data", to).expect("loopback takes it");
                let one_more = socket.try_clone().expect("a descriptor");
                let is_over = AtomicBool::new(false);
                let reports = || {
                    let mut reports = [Report::EMPTY; 4];
                    while !is_over.load(Ordering::Relaxed) {
                        let _ = socket.send_to(b"nobody is there", closed);
                        drain_errors(&socket, &mut reports).expect("no filter is on this thread");
                    }
                };
                let filtered = || {
                    seccomp::deny(calls, errno)?;
                    match kind {
                        #[cfg(feature = "tokio")]
                        "tokio" => assert_each_future_fails(one_more, to, errno),
                        #[cfg(feature = "mio")]
                        "mio" => {
                            let socket = mio::net::UdpSocket::from_std(one_more);
                            assert_each_call_fails(&socket, to, errno);
                        }
                        _ => assert_each_call_fails(&one_more, to, errno),
                    }
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

/// Half of a member would mislead: replies to one family would leave from any address.
#[test]
fn metadata_is_off_for_both_families_where_one_familys_options_are_refused() {
    in_child("metadata_is_off_for_both_families_where_one_familys_options_are_refused", || {
        let members = Ancillary::DEST | Ancillary::TOS | Ancillary::HOP_LIMIT;
        let v4 = sockets::udp4();
        let Some(dual) = sockets::dual_stack() else { return Ok(()) }; // No IPv6.
        let only_v6 = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
        only_v6.set_only_v6(true)?;
        seccomp::deny_level(libc::IPPROTO_IP, libc::EINVAL)?;
        assert_eq!(members.enable(&v4).expect("a socket"), Ancillary::NONE);
        assert_eq!(
            (members | Ancillary::DROPPED).enable(&dual).expect("a socket"),
            Ancillary::DROPPED
        );
        let error = Ancillary::DEST.require(&dual).expect_err("IPv4 has none");
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(!SockRef::from(&dual).recv_tclass_v6()?, "the other family's option is as before");
        members.require(&only_v6).expect("it carries no IPv4");
        Ok(())
    });
}

/// The filters work: the C library's own calls meet them.
#[test]
fn the_filter_is_in_force() {
    in_child("the_filter_is_in_force", || {
        let socket = sockets::udp4();
        assert_eq!(seccomp::ask(&socket), [Ok(()), Ok(())]);
        let denied = if SENDMMSG_IS_A_LOOP { Ok(()) } else { Err(libc::EPERM) };
        seccomp::deny(&[SENDMMSG], libc::EPERM)?;
        assert_eq!(seccomp::ask(&socket), [Ok(()), denied]);
        seccomp::deny(&[RECVMMSG], libc::ENOSYS)?;
        assert_eq!(seccomp::ask(&socket), [Err(libc::ENOSYS), denied]);
        Ok(())
    });
}
