//! Shared by the integration tests: sockets, payload, waiting, and printing why a test is skipped.
//!
//! Each test binary names the backend that its sockets use in a constant `BACKEND`, and has this
//! module for its own; `None` leaves the choice to the test.

// Every test binary uses another part of it.
#![allow(dead_code, unused_imports)]

pub mod recv;
pub mod sockets;
pub mod threads;

#[cfg(target_os = "linux")]
pub mod descriptors;
#[cfg(target_os = "linux")]
pub mod firewall;
#[cfg(target_os = "linux")]
pub mod linux;
#[cfg(target_os = "linux")]
pub mod raw;

#[cfg(unix)]
pub use libc as errno;

/// The system's error numbers, by the names that Unix has for them.
#[cfg(windows)]
pub mod errno {
    pub use windows_sys::Win32::Networking::WinSock::{
        WSAECONNREFUSED as ECONNREFUSED, WSAEDESTADDRREQ as EDESTADDRREQ, WSAEINVAL as EINVAL,
        WSAEMSGSIZE as EMSGSIZE, WSAENOBUFS as ENOBUFS, WSAENOTCONN as ENOTCONN,
        WSAENOTSOCK as ENOTSOCK, WSAEOPNOTSUPP as EOPNOTSUPP, WSAEWOULDBLOCK as EAGAIN,
    };
}

use std::env;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::sync::Once;
use std::time::Duration;

use mmsg::{Backend, BatchSocket, BatchSocketExt, SendMsg};

/// After this time a blocking call gives up, and the test fails instead of hanging. A test that passes takes far
/// less, even in an emulated machine that has a tenth of a CPU.
pub const NET: Duration = Duration::from_secs(300);

/// The backends that this platform has.
pub const BACKENDS: &[Backend] = if cfg!(any(windows, target_vendor = "apple")) {
    &[Backend::Msg]
} else {
    &[Backend::Mmsg, Backend::Msg]
};

/// Makes the process use the backend of this test binary; every socket of a test begins here.
pub fn choose_backend() {
    static CHOSEN: Once = Once::new();
    let Some(backend) = crate::BACKEND else { return };
    CHOSEN.call_once(|| backend.make_process_default().expect("this platform has the backend"));
    // Chosen once and checked each time: no call may have changed it by itself.
    assert_eq!(Backend::current(), backend, "some call has switched the backend");
}

/// Whether the test runs in an emulated machine, where a system call takes thirty times as long.
pub fn is_emulated() -> bool {
    env::var_os("CROSS_RUN").is_some_and(|run| run == "guest")
}

/// How much earlier than it was asked the kernel may end a wait. It counts in ticks of up to 10 ms, of which the
/// first may be nearly over; a machine that is emulated beside other work gets several ticks at once.
pub fn tick() -> Duration {
    Duration::from_millis(if is_emulated() { 50 } else { 10 })
}

/// Says that a test is not run here and why, past the capture of the test harness.
pub fn skip(test: &str, reason: impl std::fmt::Display) {
    let line = format!("skipped: {test}: {reason}\n");
    // A skipped test does not fail if it cannot print.
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// `len` bytes that differ from those of any other seed, so that a wrong, shifted or mixed payload shows.
pub fn payload(seed: usize, len: usize) -> Vec<u8> {
    let mut state = (seed as u32).wrapping_mul(0x9e37_79b9) ^ (len as u32).rotate_left(16) ^ 0x5bd1;
    let mut next = || {
        // Knuth's multiplier; the upper bits are the good ones.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// `count` payloads of `len` bytes that begin with their number, all different.
pub fn numbered(count: usize, len: usize) -> Vec<Vec<u8>> {
    let one = |i: usize| {
        let mut bytes = payload(i, len.max(4));
        bytes[..4].copy_from_slice(&(i as u32).to_be_bytes());
        bytes
    };
    (0..count).map(one).collect()
}

/// A test's number of repetitions: fewer in an emulated machine and under valgrind.
pub fn smaller(usual: usize, slow: usize) -> usize {
    let is_slow = ["CROSS_RUN", "MEMCHECK"].iter().any(|name| std::env::var_os(name).is_some());
    if is_slow { slow } else { usual }
}

/// For `send_each` where no message may fail.
pub fn no_failure(index: usize, error: io::Error) {
    panic!("message {index}: {error}");
}

/// The operating system's number of an error; the call is expected to fail.
#[track_caller]
pub fn code<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    let error = result.expect_err("the call is expected to fail");
    error.raw_os_error().unwrap_or_else(|| panic!("not the system's error: {error:?}"))
}

/// `bad` fails with this error wherever it stands in a call; `good` messages around it reach `far`.
#[track_caller]
pub fn fails_alone(
    from: &dyn BatchSocket,
    far: &dyn BatchSocket,
    [good, bad]: [SendMsg<'_>; 2],
    errno: i32,
) {
    assert_eq!(code(from.send_batch(&[bad])), errno);
    assert_eq!(code(from.send_batch(&[bad, good])), errno);
    assert_eq!(from.send_batch(&[good, bad, good]).expect("the first is good"), 1);
    assert_eq!(from.send_batch(&[good, good, bad]).expect("two are good"), 2);
    let mut failed = Vec::new();
    let note = |index, error: io::Error| failed.push((index, error.raw_os_error()));
    let done = from.send_each([bad, good, bad, bad, good, bad], note);
    assert_eq!(done.expect("the socket takes datagrams"), 6);
    assert_eq!(failed, [0, 2, 3, 5].map(|index| (index, Some(errno))));
    let data = good.slices().collect::<Vec<_>>().concat();
    assert_eq!(recv::payloads(far, 5), vec![data; 5]);
}

/// Sends `count` datagrams by each of two calls, and checks that these have come and no others.
#[track_caller]
pub fn exchange(near: &dyn BatchSocket, far: &UdpSocket, count: usize) {
    let data = numbered(count, 40);
    let to = sockets::addr(far);
    let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(to, data)).collect();
    assert_eq!(near.send_batch(&msgs).expect("loopback takes it"), count);
    assert_eq!(near.send_each(&msgs, no_failure).expect("loopback takes it"), count);
    assert_eq!(recv::payloads(far, 2 * count), [&data[..], &data[..]].concat());
}

/// Whether a call found nothing, or timed out.
#[track_caller]
pub fn would_block<T: std::fmt::Debug>(result: io::Result<T>) -> bool {
    let error = result.expect_err("there is nothing to be had");
    // Windows tells a time-out from a socket that does not wait.
    let timed_out = cfg!(windows) && error.kind() == io::ErrorKind::TimedOut;
    timed_out || error.kind() == io::ErrorKind::WouldBlock
}

/// Whether receives report ICMP errors, as they do on every system but Wine; there it says that the test is skipped.
pub fn has_icmp_errors(test: &str) -> bool {
    if is_wine() {
        skip(test, "Wine reports ICMP errors by sends alone");
    }
    !is_wine()
}

/// Whether an error says that the peer's port is closed. Windows says that the connection was reset.
pub fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
        || cfg!(windows) && error.kind() == io::ErrorKind::ConnectionReset
}

/// Whether the system is Wine, which the script that uses it says.
pub fn is_wine() -> bool {
    std::env::var_os("CROSS_RUN").is_some_and(|run| run == "wine")
}
