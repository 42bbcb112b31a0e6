//! Error paths: system calls with scripted results, on real loopback sockets.
//!
//! Tests receive through the standard library, not through the code under test. The payload of a message is its number.
//!
//! A fuzzer uses only the model.

// Some helpers are only for multi-message calls, and most only for tests.
#![cfg_attr(not(all(test, mmsg_calls)), allow(dead_code, unused_imports))]

#[cfg(test)]
mod explicit_segment_size;
#[cfg(test)]
mod offload;
mod offload_kit;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod recv;
#[cfg(test)]
pub(crate) mod send;
#[cfg(all(test, has_descriptors))]
mod send_space;

// These script multi-message calls, or model Linux.
#[cfg(all(test, mmsg_calls))]
mod backend;
#[cfg(all(test, mmsg_calls, feature = "tracing"))]
mod events;
#[cfg(all(fuzzing, mmsg_calls))]
pub(crate) mod fuzzing;
#[cfg(mmsg_calls)]
mod model;
#[cfg(all(test, mmsg_calls))]
mod tos;
// Other systems take no destination on a connected socket.
#[cfg(all(test, linux_like))]
mod v4_rules;

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::time::Duration;

use crate::sys::fault::{self, Call, Fate, LoggedCall, errno};
use crate::{Backend, BatchSocket, BatchSocketExt, RecvBatch, RecvMsg, SendMsg, SendQueue};

/// The backends of the platform.
#[cfg(mmsg_calls)]
const BACKENDS: [Backend; 2] = [Backend::Mmsg, Backend::Msg];
#[cfg(not(mmsg_calls))]
const BACKENDS: [Backend; 1] = [Backend::Msg];

/// A blocking call that waits this long fails the test.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Errors that ICMP reports, and that a firewall or a sandbox may return for reasons of its own.
#[cfg(mmsg_calls)]
pub(crate) const ICMP: [i32; 4] =
    [errno::ECONNREFUSED, errno::EACCES, errno::EHOSTUNREACH, errno::EMSGSIZE];

/// The number of a message is its payload.
type Number = [u8; 4];

fn numbers(range: Range<u32>) -> Vec<Number> {
    range.map(u32::to_be_bytes).collect()
}

fn number(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload.try_into().expect("a number has four bytes"))
}

/// Three sockets on loopback: `near` sends, `far` receives, and `marker` shows when everything sent before has arrived,
/// since loopback keeps the order.
struct Loopback {
    near: UdpSocket,
    far: UdpSocket,
    marker: UdpSocket,
}

impl Loopback {
    fn new() -> Self {
        Self { near: socket(), far: socket(), marker: socket() }
    }

    /// The address of `far`.
    fn to(&self) -> SocketAddr {
        addr(&self.far)
    }

    /// Messages to `far`.
    fn msgs<'a>(&self, numbers: &'a [Number]) -> Vec<SendMsg<'a>> {
        numbers.iter().map(|number| SendMsg::to(self.to(), number)).collect()
    }

    /// Receives all datagrams that wait at `far`, and returns their numbers.
    fn delivered(&self) -> Vec<u32> {
        delivered(&self.marker, &self.far).iter().map(|data| number(data)).collect()
    }

    /// Sends datagrams to `far`, and waits until they have arrived.
    fn fill(&self, range: Range<u32>) {
        for number in numbers(range) {
            self.near.send_to(&number, self.to()).expect("loopback takes a datagram");
        }
        self.settle();
    }

    /// Waits until everything sent on loopback so far has arrived.
    fn settle(&self) {
        self.marker.send_to(b"end", addr(&self.marker)).expect("loopback takes a datagram");
        self.marker.recv(&mut [0; 4]).expect("it comes back");
    }
}

/// A blocking socket on loopback.
fn socket() -> UdpSocket {
    socket_on(Ipv4Addr::LOCALHOST.into())
}

/// A blocking socket on an address of this machine.
fn socket_on(ip: IpAddr) -> UdpSocket {
    let socket = UdpSocket::bind((ip, 0)).expect("an address of this machine");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    socket
}

fn addr(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("it is bound")
}

/// Makes the thread use `backend`.
fn choose(backend: Backend) {
    backend.make_process_default().expect("the platform has it");
}

fn payload(msg: &SendMsg<'_>) -> u32 {
    number(&msg.slices().collect::<Vec<_>>().concat())
}

/// The ways to receive a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    Batch,
    Into,
    Slices,
}

impl Receiving {
    /// All ways, by `backend`.
    fn each(backend: Backend) -> impl Iterator<Item = Self> {
        [Self::Batch, Self::Into, Self::Slices].into_iter().inspect(move |_| choose(backend))
    }

    /// Receives once, with space for `capacity` messages, and returns their numbers.
    fn recv(self, socket: &UdpSocket, capacity: usize) -> io::Result<Vec<u32>> {
        if self == Self::Into {
            let mut batch = RecvBatch::new(capacity, size_of::<Number>());
            let result = socket.recv_into(&mut batch);
            assert_eq!(batch.message_count(), *result.as_ref().unwrap_or(&0));
            return result.map(|_| batch.iter().map(|datagram| number(datagram.data())).collect());
        }
        let mut memory = vec![Number::default(); capacity];
        if self == Self::Slices {
            let mut buffers: Vec<_> = memory.iter_mut().map(|b| IoSliceMut::new(b)).collect();
            let mut numbers = Vec::new();
            let result = socket.recv_slices(&mut buffers, &mut |i, message| {
                assert_eq!(i, numbers.len());
                numbers.push(number(message.data()));
            });
            assert_eq!(numbers.len(), *result.as_ref().unwrap_or(&0));
            return result.map(|_| numbers);
        }
        let mut msgs: Vec<_> = memory.iter_mut().map(|buffer| RecvMsg::new(buffer)).collect();
        let count = socket.recv_batch(&mut msgs)?;
        assert!(
            msgs[count..].iter().all(|msg| msg.message().is_empty()),
            "more messages are set than were counted"
        );
        Ok(msgs[..count].iter().map(|msg| number(msg.data())).collect())
    }
}

/// The call that sends `left` messages by `backend`. A single message goes by the single-message call.
fn send_call(backend: Backend, left: usize) -> Call {
    if backend == Backend::Mmsg && left > 1 { Call::SendMmsg } else { Call::SendMsg }
}

/// The same for a receive with space for `capacity`.
fn recv_call(backend: Backend, capacity: usize) -> Call {
    if backend == Backend::Mmsg && capacity > 1 { Call::RecvMmsg } else { Call::RecvMsg }
}

/// How many of `left` messages such a call offers.
fn offered(call: Call, left: usize) -> usize {
    if matches!(call, Call::SendMmsg | Call::RecvMmsg) { left } else { 1 }
}

/// Receives the datagrams that wait at `far`. A last one from `near` marks the end.
fn delivered(near: &UdpSocket, far: &UdpSocket) -> Vec<Vec<u8>> {
    const END: &[u8] = b"the end of it all";
    near.send_to(END, addr(far)).expect("loopback takes a datagram");
    let mut delivered = Vec::new();
    let mut buffer = [0; 2_000];
    loop {
        let len = far.recv(&mut buffer).expect("the end comes last");
        if &buffer[..len] == END {
            return delivered;
        }
        delivered.push(buffer[..len].to_vec());
    }
}

/// The fates that let `backend` send `k` of `offered` messages, and fail the next one with `errno`. The caller sees the
/// error only if `k` is 0.
fn stopped_send(backend: Backend, offered: usize, k: usize, errno: i32) -> Vec<(Call, Fate)> {
    match (send_call(backend, offered), k) {
        (call, 0) => vec![(call, Fate::Fail(errno))],
        (Call::SendMmsg, k) => vec![(Call::SendMmsg, Fate::AtMost(k))],
        (call, k) => {
            let mut fates = vec![(call, Fate::Kernel); k];
            fates.extend((k < offered).then_some((call, Fate::Fail(errno))));
            fates
        }
    }
}

/// Ends the script and returns the calls made.
fn calls() -> Vec<(Call, usize)> {
    fault::finish().into_iter().map(|LoggedCall { call, offered, .. }| (call, offered)).collect()
}

/// The error number of a call that is expected to fail.
#[track_caller]
fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    let error = result.expect_err("the call is expected to fail");
    error.raw_os_error().unwrap_or_else(|| panic!("not an error of the system: {error:?}"))
}
