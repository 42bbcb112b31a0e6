//! Shared by the integration tests: sockets, payloads, waiting, and printing why a test is skipped.
//!
//! Each test binary includes this module and defines a constant `BACKEND`, the backend of its sockets; `None` leaves
//! the choice to the test.

// Each test binary uses only a part.
#![allow(dead_code, unused_imports)]

pub mod recv;
pub mod sockets;
pub mod threads;

#[cfg(any(target_os = "linux", target_os = "freebsd"))]
pub mod descriptors;
#[cfg(target_os = "linux")]
pub mod firewall;
#[cfg(target_os = "linux")]
pub mod linux;

#[cfg(unix)]
pub use libc as errno;

/// Windows' error numbers, under their Unix names.
#[cfg(windows)]
pub mod errno {
    pub use windows_sys::Win32::Networking::WinSock::{
        WSAECONNREFUSED as ECONNREFUSED, WSAEDESTADDRREQ as EDESTADDRREQ, WSAEINVAL as EINVAL,
        WSAEMSGSIZE as EMSGSIZE, WSAENOBUFS as ENOBUFS, WSAENOTCONN as ENOTCONN,
        WSAENOTSOCK as ENOTSOCK, WSAEOPNOTSUPP as EOPNOTSUPP, WSAEWOULDBLOCK as EAGAIN,
    };
}

use std::borrow::Borrow;
use std::env;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::sync::Once;
use std::time::Duration;

use mmsg::{Backend, BatchSocket, BatchSocketExt, RecvMsg, SendMeta, SendMsg, SendQueue};

/// Time limit of blocking calls: a test fails instead of hanging. Passing tests take far less, even in an emulated
/// machine that gets a tenth of a CPU.
pub const TIME_LIMIT: Duration = Duration::from_secs(300);

/// The backends of this platform.
pub const BACKENDS: &[Backend] = if cfg!(any(windows, target_vendor = "apple")) {
    &[Backend::Msg]
} else {
    &[Backend::Mmsg, Backend::Msg]
};

/// Selects the backend of this test binary. Every socket of a test is made after this.
pub fn choose_backend() {
    static CHOSEN: Once = Once::new();
    let Some(backend) = crate::BACKEND else { return };
    CHOSEN.call_once(|| backend.make_process_default().expect("this platform has the backend"));
    // Selected once and checked each time: no call may have changed it.
    assert_eq!(Backend::current(), backend, "some call has switched the backend");
}

/// Whether the test runs in an emulated machine, where a system call takes thirty times as long.
pub fn is_emulated() -> bool {
    env::var_os("CROSS_RUN").is_some_and(|run| run == "guest")
}

/// How much earlier than requested the kernel may end a wait. It counts in ticks of up to 10 ms, the first of which
/// may be almost over. A busy emulated machine gets several ticks at once.
pub fn tick() -> Duration {
    Duration::from_millis(if is_emulated() { 50 } else { 10 })
}

/// The test that runs in this thread, which has its name.
pub fn test_name() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

/// Prints that the test is skipped and why, where the test harness does not capture it.
pub fn skip(reason: impl std::fmt::Display) {
    let line = format!("skipped: {}: {reason}\n", test_name());
    // A skipped test must not fail because it cannot print.
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// `len` bytes that depend on `seed`, so that a wrong, shifted or mixed payload shows.
pub fn payload(seed: usize, len: usize) -> Vec<u8> {
    let mut state = (seed as u32).wrapping_mul(0x9e37_79b9) ^ (len as u32).rotate_left(16) ^ 0x5bd1;
    let mut next = || {
        // Knuth's multiplier; the upper bits are the better ones.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// `count` different payloads of `len` bytes, each of which begins with its number.
pub fn numbered(count: usize, len: usize) -> Vec<Vec<u8>> {
    let one = |i: usize| {
        let mut bytes = payload(i, len.max(4));
        bytes[..4].copy_from_slice(&(i as u32).to_be_bytes());
        bytes
    };
    (0..count).map(one).collect()
}

/// A number of repetitions: `slow` in an emulated machine and under valgrind, else `usual`.
pub fn repetitions(usual: usize, slow: usize) -> usize {
    if is_slow() { slow } else { usual }
}

/// Whether the test runs in an emulated machine or under valgrind, where a thread may not run for many milliseconds.
pub fn is_slow() -> bool {
    ["CROSS_RUN", "MEMCHECK"].iter().any(|name| env::var_os(name).is_some())
}

/// For a `send_each` in which no message may fail.
pub fn no_failure(index: usize, error: io::Error) {
    panic!("message {index}: {error}");
}

/// A socket that sends by this closure, and finds nothing to receive.
pub struct SendsBy<F>(pub F);

impl<F: Fn(&[SendMsg<'_>]) -> io::Result<usize>> BatchSocket for SendsBy<F> {
    fn recv_batch(&self, _: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        (self.0)(msgs)
    }
}

/// A socket that receives by this closure, and sends nothing.
pub struct ReceivesBy<F>(pub F);

impl<F: Fn(&mut [RecvMsg<'_>]) -> io::Result<usize>> BatchSocket for ReceivesBy<F> {
    fn recv_batch(&self, msgs: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        (self.0)(msgs)
    }

    fn send_batch(&self, _: &[SendMsg<'_>]) -> io::Result<usize> {
        unreachable!()
    }
}

/// The errno of a call that must fail.
#[track_caller]
pub fn code<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    let error = result.expect_err("the call is expected to fail");
    error.raw_os_error().unwrap_or_else(|| panic!("not the system's error: {error:?}"))
}

/// Messages to the connected peer.
pub fn msgs(payloads: &[Vec<u8>]) -> Vec<SendMsg<'_>> {
    payloads.iter().map(|data| SendMsg::new(data)).collect()
}

/// Settings that the system can send with an IPv4 datagram.
pub fn some_settings() -> SendMeta {
    match () {
        () if cfg!(any(target_os = "linux", windows)) => SendMeta::new().with_hop_limit(7),
        () if cfg!(any(target_os = "freebsd", target_vendor = "apple")) => {
            SendMeta::new().with_tos(4)
        }
        () => SendMeta::new(),
    }
}

/// An ample queue that holds these messages.
pub fn queue_of<'m>(msgs: impl IntoIterator<Item = impl Borrow<SendMsg<'m>>>) -> SendQueue {
    let mut queue = SendQueue::new(4 << 20);
    msgs.into_iter().for_each(|msg| queue.push(msg.borrow()).expect("there is space"));
    queue
}

/// Checks that `bad` fails with this error at every position in a call, and that `good` messages around it reach
/// `far`. Without a number the error is the library's `InvalidInput`.
#[track_caller]
pub fn fails_alone(
    from: &dyn BatchSocket,
    far: &dyn BatchSocket,
    [good, bad]: [SendMsg<'_>; 2],
    errno: impl Into<Option<i32>>,
) {
    let errno = errno.into();
    let check = |error: io::Error| {
        assert_eq!(error.raw_os_error(), errno, "{error}");
        assert!(errno.is_some() || error.kind() == io::ErrorKind::InvalidInput, "{error}");
    };
    check(from.send_batch(&[bad]).expect_err("it cannot be sent"));
    check(from.send_batch(&[bad, good]).expect_err("the first cannot be sent"));
    assert_eq!(from.send_batch(&[good, bad, good]).expect("the first is good"), 1);
    assert_eq!(from.send_batch(&[good, good, bad]).expect("two are good"), 2);
    let mut failed = Vec::new();
    let done = from.send_each([bad, good, bad, bad, good, bad], |index, error| {
        check(error);
        failed.push(index);
    });
    assert_eq!(done.expect("the socket takes datagrams"), 6);
    assert_eq!(failed, [0, 2, 3, 5]);
    let data = good.slices().collect::<Vec<_>>().concat();
    assert_eq!(recv::payloads(far, 5), vec![data; 5]);
}

/// Sends `count` datagrams with each of two calls, and checks that exactly these arrive.
#[track_caller]
pub fn exchange(near: &dyn BatchSocket, far: &UdpSocket, count: usize) {
    let data = numbered(count, 40);
    let to = sockets::addr(far);
    let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(to, data)).collect();
    assert_eq!(near.send_batch(&msgs).expect("loopback takes it"), count);
    assert_eq!(near.send_each(&msgs, no_failure).expect("loopback takes it"), count);
    assert_eq!(recv::payloads(far, 2 * count), [&data[..], &data[..]].concat());
}

/// Whether a call found nothing or timed out.
#[track_caller]
pub fn would_block<T: std::fmt::Debug>(result: io::Result<T>) -> bool {
    let error = result.expect_err("there is nothing to be had");
    // Windows has separate errors for a timeout and a non-blocking socket.
    let timed_out = cfg!(windows) && error.kind() == io::ErrorKind::TimedOut;
    timed_out || error.kind() == io::ErrorKind::WouldBlock
}

/// Whether receives report ICMP errors. They do not on Wine, where this prints that the test is skipped.
pub fn has_icmp_errors() -> bool {
    if is_wine() {
        skip("Wine reports ICMP errors by sends alone");
    }
    !is_wine()
}

/// Whether an error says that the peer's port is closed. On Windows it is "connection reset".
pub fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
        || cfg!(windows) && error.kind() == io::ErrorKind::ConnectionReset
}

/// Whether the system is Wine. The script that runs Wine sets the variable.
pub fn is_wine() -> bool {
    std::env::var_os("CROSS_RUN").is_some_and(|run| run == "wine")
}
