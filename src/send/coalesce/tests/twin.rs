//! The naive twin of finding runs and of wiring them, and messages to compare by.

use std::cell::RefCell;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::LazyLock;

use super::super::*;
use crate::ancillary::{ControlBuf, SendMeta};
use crate::send::joined::Joined;
use crate::send::msg::SendMsg;
use crate::send::single::wire_single;
use crate::send::wire::wire;
use crate::sys::{SendStorage, SingleHeader, Storage, borrow};

/// More than any run here has.
const BUFFERS: usize = 1024;

/// Starts a run with a message.
pub(super) fn start<'r, 'm>(
    msg: &'r SendMsg<'m>,
    options: &'r MsgOptions<'m>,
    limits: Limits,
    buffers: usize,
) -> Run<'r, 'm> {
    let options = match msg.unlent() {
        Some((_, inline)) => OptionsRef::Inline(inline),
        None => OptionsRef::Any(options),
    };
    Run::start(msg.dest_ref(), msg.len(), options, &limits, buffers)
}

/// Counts what joins a run, and copies nothing.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) buffers: usize,
    pub(super) bytes: usize,
}

impl<'m> Joined<'m> for Counted {
    fn join(&mut self, data: &'m [u8]) {
        self.buffers += 1;
        self.bytes += data.len();
    }

    fn add_part(&mut self, data: &'m [u8]) {
        self.join(data);
    }

    fn join_alike(&mut self, data: &'m [u8], _: usize) -> Others<'_, 'm> {
        self.join(data);
        Others::Apart
    }

    fn join_copied(&mut self, _: usize) {
        unreachable!("there is no space");
    }
}

/// The lengths of the runs that a slice of messages falls into.
pub(super) fn runs(msgs: &[SendMsg<'_>], limits: Limits) -> Vec<usize> {
    let options: Vec<_> = msgs.iter().map(SendMsg::options).collect();
    let mut runs: Vec<Run<'_, '_>> = Vec::new();
    for (msg, options) in msgs.iter().zip(&options) {
        if runs.last_mut().is_none_or(|run| run.take(msg).is_none()) {
            runs.push(start(msg, options, limits, BUFFERS));
        }
    }
    assert_eq!(joined(msgs, limits), runs.iter().map(Run::count).collect::<Vec<_>>());
    runs.iter().map(Run::count).collect()
}

/// The same by `join`, which reads most messages in another way.
fn joined(msgs: &[SendMsg<'_>], limits: Limits) -> Vec<usize> {
    let (mut counts, mut msgs) = (Vec::new(), msgs.iter());
    let mut next = msgs.next();
    while let Some(msg) = next {
        let options = msg.options();
        let mut run = start(msg, &options, limits, BUFFERS);
        let mut joined = Counted::default();
        next = run.join(&mut msgs, &mut joined);
        assert_eq!(run.bytes(), msg.len() + joined.bytes);
        counts.push(run.count());
    }
    counts
}

/// The naive twin: checks whole prefixes by the written rules.
fn naive(msgs: &[SendMsg<'_>], limits: Limits) -> Vec<usize> {
    let mut counts = Vec::new();
    let mut rest = msgs;
    while !rest.is_empty() {
        let most = rest.len().min(limits.max_segments);
        let longest = (1..=most).rev().find(|n| *n == 1 || is_batch(&rest[..*n], limits));
        let count = longest.expect("one is always a run");
        counts.push(count);
        rest = &rest[count..];
    }
    counts
}

fn is_batch(msgs: &[SendMsg<'_>], limits: Limits) -> bool {
    let first = &msgs[0];
    let (last, others) = msgs.split_last().expect("not empty");
    let v6 = matches!(first.dest(), Some(SocketAddr::V6(a)) if a.ip().to_ipv4_mapped().is_none());
    let same = |msg: &SendMsg<'_>| {
        (msg.dest(), msg.meta()) == (first.dest(), first.meta())
            && msg.options().control() == first.options().control()
    };
    // The cheap checks come first: most prefixes are no GSO batch.
    first.meta().segment_size.is_none()
        && first.meta().timestamp_id.is_none()
        && first.len() < limits.rejected_len
        && last.len() <= first.len()
        && others.iter().all(|msg| msg.len() == first.len())
        && msgs.iter().all(|msg| !msg.is_empty() && same(msg))
        && msgs.iter().map(SendMsg::len).sum::<usize>() <= if v6 { 65_527 } else { 65_507 }
}

/// A message: which destination, how long, what it has beside a payload, and where that is.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) dest: usize,
    pub(crate) len: usize,
    pub(crate) kind: usize,
    pub(crate) place: Place,
}

/// Where in memory a payload is: at the start, or after that of the message before, side by side or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Start,
    Beside,
    Apart,
}

/// Memory of which no part is like another.
static MEMORY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..1 << 18).map(|_| next()).collect()
});

/// A payload in one buffer, and one in two, which touch unless it is `Apart`.
struct Payload {
    whole: &'static [u8],
    parts: [IoSlice<'static>; 2],
}

fn payloads(specs: &[Spec]) -> Vec<Payload> {
    let (memory, mut end): (&'static [u8], _) = (&MEMORY, 0);
    let mut payload = |spec: &Spec| {
        let gap = usize::from(spec.place == Place::Apart);
        let start = if spec.place == Place::Start { 0 } else { end + gap };
        let start = if start + spec.len < memory.len() { start } else { 0 };
        let (half, whole) = (spec.len / 2, &memory[start..start + spec.len]);
        end = start + spec.len;
        let other = &memory[start + half + gap..end + gap];
        Payload { whole, parts: [IoSlice::new(&whole[..half]), IoSlice::new(other)] }
    };
    specs.iter().map(&mut payload).collect()
}

/// Compares the runs of these messages with those of the twin, and the headers with the messages.
pub(crate) fn check(specs: &[Spec], limits: &[Limits]) {
    const DESTS: [Option<SocketAddr>; 4] = [
        None,
        Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1)),
        Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 1)),
        Some(SocketAddr::new(IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped()), 1)),
    ];
    let mut control = ControlBuf::new();
    control.push(1, 2, b"x").expect("there is space");
    let payloads = payloads(specs);
    // Two that are equal, so that both are compared by value.
    let tos = [SendMeta::new().with_tos(1); 2];
    let numbered = SendMeta::new().with_timestamp_id(7);
    let make = |i: usize| {
        let (spec, payload) = (&specs[i], &payloads[i]);
        let mut msg = match spec.kind {
            3 => SendMsg::gather(&payload.parts),
            _ => SendMsg::new(payload.whole),
        };
        if let Some(dest) = DESTS[spec.dest] {
            msg = msg.with_dest(dest);
        }
        match spec.kind {
            1 => msg.with_meta(&tos[i % 2]),
            2 => msg.with_control(&control),
            4 => msg.with_segment_size(7),
            5 => msg.with_meta(&numbered),
            _ => msg,
        }
    };
    let msgs: Vec<SendMsg<'_>> = (0..specs.len()).map(make).collect();
    for limits in limits {
        let expected = naive(&msgs, *limits);
        assert_eq!(runs(&msgs, *limits), expected);
        check_headers(&msgs, *limits, &expected, false);
        // Where no batch must be looked at before it is sent.
        if limits.rejected_len == usize::MAX && !msgs.is_empty() {
            check_headers(&msgs, *limits, &expected, true);
        }
    }
}

/// Wires the messages, and reads back what the headers point to: that of the messages of each run. The first header may
/// be one on the stack that the others adopt.
fn check_headers(msgs: &[SendMsg<'_>], limits: Limits, runs: &[usize], on_stack: bool) {
    thread_local! {
        static STORAGE: RefCell<SendStorage> = const { RefCell::new(SendStorage::new()) };
        static SOCKET: UdpSocket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    }
    STORAGE.with_borrow_mut(|storage| {
        // Headers and buffers for all, so that no run ends for want of them.
        storage.reserve(msgs.len().max(256)).expect("there is memory");
        let mut source = Source::new(msgs.iter());
        if limits.rejected_len > 0 {
            storage.reserve_copies().expect("there is memory");
        }
        let (mut headers, mut first) = (storage.begin(), SingleHeader::new());
        let unsendable = SOCKET.with(|socket| {
            let socket = borrow(socket);
            if on_stack {
                match wire_single(&mut headers, &mut first, socket, &mut source, &limits) {
                    Some(Ok(())) => headers.adopt(&first),
                    Some(Err(error)) => return Some(error),
                    None => assert!(!msgs[0].options().control().is_empty()),
                }
            }
            wire(&mut headers, socket, &mut source, limits)
        });
        // Not every system has a control message for each of the options.
        assert!(headers.len() == runs.len() || unsendable.is_some());
        let mut rest = msgs;
        for (i, count) in runs.iter().enumerate().take(headers.len()) {
            let run;
            (run, rest) = rest.split_at(*count);
            let (batch, memory) = (headers.batch(i), headers.memory(i));
            let bytes = run.iter().map(SendMsg::len).sum();
            assert_eq!((batch.messages, batch.bytes), (*count, bytes));
            let is_same = same_bytes(memory.payload, run.iter().flat_map(SendMsg::slices));
            assert!(is_same, "header {i} of {runs:?} has other bytes");
            assert_eq!(memory.name.is_empty(), run[0].dest().is_none());
            let control = run[0].options().control();
            assert!(control.is_empty() || memory.control == control);
        }
    });
}

/// Whether both are the same bytes, however they are divided.
fn same_bytes<'a>(
    mut one: impl Iterator<Item = &'a [u8]>,
    mut other: impl Iterator<Item = &'a [u8]>,
) -> bool {
    let (mut a, mut b): (&[u8], &[u8]) = (&[], &[]);
    loop {
        if a.is_empty() {
            a = one.find(|part| !part.is_empty()).unwrap_or_default();
        }
        if b.is_empty() {
            b = other.find(|part| !part.is_empty()).unwrap_or_default();
        }
        let len = a.len().min(b.len());
        if len == 0 {
            return a.is_empty() && b.is_empty();
        }
        let ((in_a, after_a), (in_b, after_b)) = (a.split_at(len), b.split_at(len));
        // Most buffers are the message's own, and not copies.
        if !std::ptr::eq(in_a, in_b) && in_a != in_b {
            return false;
        }
        (a, b) = (after_a, after_b);
    }
}
