//! No `Debug` or `Display` of a public type or error prints payload. Each value holds some if it can.

use std::any::type_name;
use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

use mmsg::control::ControlBuf;
use mmsg::error_queue::{Event, Report, drain_errors};
use mmsg::errors::PushError;
use mmsg::offload::OffloadState;
use mmsg::options::Fragmentation;
use mmsg::{
    Ancillary, Backend, BatchSocket, Ecn, Flags, MmsgBuf, Offload, RecvBatch, RecvMeta, RecvMsg,
    SendMeta, SendMsg, SendQueue, TransmitClock, UnixAddr,
};

use crate::common::is_refused;
use crate::common::sockets::{addr, connected, refusing, udp4};

const SECRET: &[u8] = b"SECRET";
const PUSH_ERRORS: [PushError; 4] =
    [PushError::Full, PushError::TooLong, PushError::HasControl, PushError::HasUnixDest];

/// The output with its trait and type: `("Debug", "RecvBatch", ...)`.
#[derive(Default)]
struct Printed(Vec<(&'static str, String, String)>);

impl Printed {
    fn add<T: ?Sized>(&mut self, by: &'static str, _: &T, text: String) {
        let path = type_name::<T>().split('<').next().unwrap_or_default();
        self.0.push((by, path.rsplit("::").next().unwrap_or_default().into(), text));
    }

    fn debug<T: Debug>(&mut self, value: &T) -> &mut Self {
        self.add("Debug", value, format!("{value:?} {value:#?} {value:x?}"));
        self
    }

    fn display<T: Display + Debug>(&mut self, value: &T) {
        self.debug(value).add("Display", value, format!("{value}"));
    }
}

/// The types that implement a trait, from the list of the public surface.
fn listed(implementing: &str) -> BTreeSet<String> {
    let surface = include_str!("../../docs/public-api.txt");
    let types =
        surface.lines().filter_map(|line| line.split_once(implementing)?.1.split(' ').next());
    let names = types.map(|name| name.split(['<', '(', ';']).next().unwrap_or_default().to_owned());
    names.filter(|name| cfg!(feature = "tokio") || name != "SendWaiter").collect()
}

#[test]
fn no_public_type_or_error_prints_payload() {
    let mut printed = Printed::default();
    let (near, far) = connected();
    let mut control = ControlBuf::new();
    while control.push(libc::SOL_SOCKET, 1_000, SECRET).is_ok() {}
    let message = control.messages().next().expect("there is space for one");
    printed.debug(&control).debug(&control.messages()).debug(&message);

    let msg = SendMsg::new(SECRET);
    near.send_batch(&[msg, msg]).expect("the peer has space");
    near.send_batch(&[msg]).expect("the peer has space");
    let (mut batch, mut memory) = (RecvBatch::new(2, 64), [0; 64]);
    far.recv_into(&mut batch).expect("they came");
    let mut received = RecvMsg::new(&mut memory);
    far.recv_batch(std::slice::from_mut(&mut received)).expect("it came");
    assert_eq!((received.data(), batch.message(0).expect("it came").data()), (SECRET, SECRET));
    printed.debug(&msg).debug(&received).debug(&batch).debug(&batch.iter());
    let message = batch.message(0).expect("it came");
    printed.debug(&message).debug(&message.datagrams()).debug(message.meta());
    printed.debug(&batch.iter().next().expect("it came"));
    printed.debug(&batch.iter_mut().next().expect("it came"));

    let mut queue = SendQueue::new(1_000);
    queue.push(&msg).expect("there is space");
    let state = OffloadState::new(&near).expect("a UDP socket");
    printed.debug(&MmsgBuf::new()).debug(&queue).debug(&state).debug(&state.counters());
    printed.display(&state.gso_status());
    printed.debug(&Offload::new(near).expect("a UDP socket")).debug(&Offload::<()>::builder());

    let (socket, nobody, mut reports) = (udp4(), refusing(), [Report::default()]);
    Ancillary::ERRORS.require(&socket).expect("a UDP socket");
    socket.connect(addr(&nobody)).expect("connecting only stores the peer");
    socket.send_batch(&[msg]).expect("it is sent");
    let refused = socket.recv_into(&mut batch).expect_err("nobody is there");
    assert!(is_refused(&refused));
    assert_eq!(drain_errors(&socket, &mut reports).expect("Linux has an error queue"), 1);
    assert_eq!(reports[0].quote(), SECRET);
    printed.debug(&reports[0]).debug(&reports[0].event).debug(&Event::Other);

    #[cfg(feature = "tokio")]
    printed.debug(&mmsg::SendWaiter::new());
    let meta = SendMeta::new().with_tos(Ecn::Ect0 as u8);
    printed.debug(&meta).debug(&RecvMeta::default()).debug(&Ecn::Ect0).debug(&Ancillary::DEST);
    printed.debug(&Backend::current()).debug(&Flags::NONE);
    printed.debug(&TransmitClock::Tai).debug(&Fragmentation::Allow).debug(&UnixAddr::Unnamed);
    PUSH_ERRORS.iter().for_each(|error| printed.display(error));

    // Values that calls return.
    let (tall, unix) = (SECRET.repeat(20_000), UnixAddr::Abstract(b"peer"));
    let [no_hops, other_family] = [
        SendMeta::new().with_hop_limit(0),
        SendMeta::new().with_source("::1".parse().expect("an address")),
    ];
    let failing = [
        SendMsg::new(&tall),
        msg.with_meta(&no_hops),
        msg.with_meta(&other_family),
        msg.with_unix_dest(unix),
        msg.with_meta(&meta).with_ecn(Ecn::Ce),
        msg.with_meta(&meta).with_control(&control),
    ];
    let offload = Offload::new(socket).expect("a UDP socket");
    let mut errors: Vec<_> =
        failing.iter().filter_map(|msg| offload.send_batch(&[*msg]).err()).collect();
    errors.extend([refused, offload.recv_into(&mut batch).expect_err("no space for GRO")]);
    errors.extend(control.push(1, 1, &tall).err());
    assert!(errors.len() > 6, "{errors:?}");
    errors.iter().for_each(|error| printed.display(error));

    for (by, name, text) in &printed.0 {
        let text: String = text.split_whitespace().collect();
        let is_there = ["SECRET", "83,69,67", "53,45,43"].iter().any(|shape| text.contains(shape));
        assert!(!is_there, "{by} of {name}: {text}");
    }
    let seen = |of: &str| -> BTreeSet<String> {
        let of = printed.0.iter().filter(|(by, name, _)| *by == of && name != "Error");
        of.map(|(_, name, _)| name.clone()).collect()
    };
    assert_eq!(seen("Debug"), listed(" Debug for "), "each type once, and no other");
    assert_eq!(seen("Display"), listed(" Display for "));
    let types: BTreeSet<_> = listed("pub struct ").union(&listed("pub enum ")).cloned().collect();
    assert_eq!(types, listed(" Debug for "), "each public type has `Debug`");
}
