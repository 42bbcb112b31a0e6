//! Events of the feature `tracing`: exactly one for each decision.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, subscriber};

use super::offload_kit::*;
use super::*;
use crate::Offload;

/// Collects events as lines of level, message and fields.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("a string takes any text");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "mmsg"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Checks that the call emits exactly the expected events. Each is a level, and parts that its line contains.
#[track_caller]
fn assert_events(call: impl FnOnce(), expected: &[(&str, &[&str])]) {
    let lines = Lines::default();
    subscriber::with_default(lines.clone(), call);
    let lines = lines.0.lock().unwrap();
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, (level, parts)) in lines.iter().zip(expected) {
        assert!(line.starts_with(level), "{line}");
        assert!(parts.iter().all(|part| line.contains(part)), "{line} lacks one of {parts:?}");
    }
}

#[test]
fn a_rejected_gso_batch_says_what_the_kernel_said() {
    let Some(net) = Net::new() else { return };
    Backend::Mmsg.make_process_default().unwrap();
    let to = net.to(0);
    let msgs = [SendMsg::to(to, b"ab"), SendMsg::to(to, b"cd")];
    let send = || assert_eq!(net.near.send_batch(&msgs).unwrap(), 2);
    let fail = |errno| {
        // The batch is one header, so the single-message call sends it.
        fault::script([(Call::SendMsg, Fate::Fail(errno))]);
    };
    assert_events(send, &[]);
    fail(errno::EMSGSIZE);
    assert_events(send, &[("DEBUG", &["rejected a GSO batch", "segment_size=2"])]);
    fail(errno::EIO);
    assert_events(send, &[("WARN", &["GSO is off for a minute", "segment_size=2", "os error 5"])]);
    fault::finish();
    assert_events(send, &[]);
}

#[test]
fn missing_calls_are_said_once() {
    let loopback = Loopback::new();
    Backend::Mmsg.make_process_default().unwrap();
    let data = numbers(0..2);
    let msgs = loopback.msgs(&data);
    let send = || assert_eq!(loopback.near.send_batch(&msgs).unwrap(), 2);
    fault::script([(Call::SendMmsg, Fate::Fail(errno::ENOSYS))]);
    assert_events(
        send,
        &[("WARN", &["one message a call", &format!("os error {}", errno::ENOSYS)])],
    );
    fault::finish();
    assert_events(send, &[]);
}

#[test]
fn a_socket_without_gso_says_so_when_it_is_asked_for() {
    let stream = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a socket");
    let off = || {
        Offload::builder().gso(false).gro(false).build(&stream).expect("any socket can be wrapped");
    };
    assert_events(off, &[]);
    let on = || {
        Offload::builder().gro(false).build(&stream).expect("any socket can be wrapped");
    };
    assert_events(on, &[("WARN", &["GSO is off", "does not support it"])]);
}

#[test]
fn a_buffer_below_what_was_asked_is_said() {
    let socket = socket();
    let set =
        |bytes| crate::options::set_send_buffer(&socket, bytes).expect("a socket has buffers");
    assert_events(|| assert!(set(8_192) >= 8_192), &[]);
    // Beyond the system's limit, unless the process may exceed it.
    let asked = i32::MAX as usize / 2;
    let lines = Lines::default();
    let size = subscriber::with_default(lines.clone(), || set(asked));
    let lines = lines.0.lock().unwrap();
    let expected = format!("asked={asked} in_force={size}");
    assert_eq!(lines.len(), usize::from(size < asked), "{lines:?}");
    assert!(lines.iter().all(|line| line.contains(&expected)), "{lines:?}");
}
