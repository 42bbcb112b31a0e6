//! Raw control messages that a message keeps.

use mmsg::control::{ControlBuf, ControlMessages};
use mmsg::{Ancillary, BatchSocket, Flags, MmsgBuf, Offload, RecvMeta, RecvMsg};

use crate::common::recv::{fill, memory};
use crate::common::sockets::{addr, borrow, settle, udp4};

fn raw(messages: ControlMessages<'_>) -> Vec<(i32, i32, Vec<u8>)> {
    messages.map(|message| (message.level, message.ty, message.data.to_vec())).collect()
}

#[test]
fn a_message_keeps_its_raw_control_messages() {
    let (from, to) = (udp4(), udp4());
    let asked = Ancillary::DEST | Ancillary::HOP_LIMIT | Ancillary::TOS;
    let on = asked.enable(&to).expect("a UDP socket");
    let offload = Offload::builder().gro(false).build(&to).expect("a UDP socket");
    let by_arena = |msgs: &mut [RecvMsg<'_>]| MmsgBuf::new().recv(borrow(&to), msgs, Flags::NONE);
    type Way<'w> = &'w dyn Fn(&mut [RecvMsg<'_>]) -> std::io::Result<usize>;
    let ways: [Way<'_>; 3] =
        [&|msgs| to.recv_batch(msgs), &|msgs| offload.recv_batch(msgs), &by_arena];
    for (way, hops) in ways.into_iter().zip(21..) {
        // Wine heeds the socket's option alone.
        from.set_ttl(hops.into()).expect("a UDP socket");
        assert_eq!(from.send_to(b"data", addr(&to)).expect("loopback takes it"), 4);
        let (mut buffer, mut control) = ([0; 16], ControlBuf::new());
        control.push(7, 1, b"old").expect("there is space");
        let mut msgs = [RecvMsg::new(&mut buffer).with_control(&mut control)];
        assert_eq!(msgs[0].message().control_messages().count(), 0, "nothing came yet");
        assert_eq!(way(&mut msgs).expect("it arrives"), 1);
        let message = msgs[0].message();
        assert!(!message.control_truncated() && message.data() == b"data");
        let (meta, seen) = (*message.meta(), raw(message.control_messages()));
        assert_eq!(raw(control.messages()), seen);
        assert_eq!(RecvMeta::from_control(control.as_bytes()), meta);
        if on.contains(Ancillary::HOP_LIMIT) {
            assert_eq!(meta.hop_limit, Some(hops));
        }
        assert_eq!(seen.is_empty(), on == Ancillary::NONE);
    }
}

/// Each message has a buffer of its own, or none.
#[test]
fn a_batch_keeps_the_control_messages_of_each_message() {
    let (from, to) = (udp4(), udp4());
    if !Ancillary::HOP_LIMIT.enable(&to).expect("a UDP socket").contains(Ancillary::HOP_LIMIT) {
        return;
    }
    let mut controls = [const { ControlBuf::new() }; 3];
    let mut memory = memory(4, 16);
    for round in [10, 20] {
        for hops in round..round + 4 {
            from.set_ttl(hops.into()).expect("a UDP socket");
            from.send_to(b"data", addr(&to)).expect("loopback takes it");
        }
        settle();
        let mut left = controls.iter_mut();
        let mut msgs: Vec<_> = memory
            .iter_mut()
            .map(|buffer| match (RecvMsg::new(buffer), left.next()) {
                (msg, Some(control)) => msg.with_control(control),
                (msg, None) => msg,
            })
            .collect();
        fill(&to, &mut msgs);
        for (msg, hops) in msgs.iter().zip(round..) {
            assert_eq!(msg.message().meta().hop_limit, Some(hops));
        }
        assert_eq!(msgs[3].message().control_messages().count(), 0);
        for (control, hops) in controls.iter().zip(round..) {
            assert_eq!(RecvMeta::from_control(control.as_bytes()).hop_limit, Some(hops));
        }
    }
    // A stand-in's message has none.
    let mut buffer = [0; 8];
    let mut msg = RecvMsg::new(&mut buffer).with_control(&mut controls[0]);
    msg.fill(b"double", None, RecvMeta::default());
    assert_eq!(msg.message().control_messages().count(), 0);
}
