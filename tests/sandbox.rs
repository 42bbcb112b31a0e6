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
use std::io::{self, Write};
use std::net::UdpSocket;
use std::process::Command;

use common::{no_failure, skip, sockets};
use mmsg::{Backend, BatchSocket, BatchSocketExt, RecvBatch, RecvMsg, SendMsg, SendQueue};
use seccomp::{RECVMMSG, SENDMMSG, SENDMMSG_IS_A_LOOP};

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
