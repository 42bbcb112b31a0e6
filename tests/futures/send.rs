//! Sends on sockets with space, and on test doubles. `full` tests sends that wait.

use mmsg::{AsyncBatchSocket, Offload, SendMsg, SendQueue};

use super::{run, udp};
use crate::common::numbered;
use crate::common::recv::payloads;
use crate::common::sockets::{addr, udp4};

pub fn msgs(payloads: &[Vec<u8>]) -> Vec<SendMsg<'_>> {
    payloads.iter().map(|data| SendMsg::new(data)).collect()
}

pub fn queue(payloads: &[Vec<u8>]) -> SendQueue {
    let mut queue = SendQueue::new(1 << 20);
    payloads.iter().for_each(|data| queue.push(&SendMsg::new(data)).expect("there is space"));
    queue
}

#[test]
fn offload_sends_gso_batches() {
    run(async {
        let (to, (from, _)) = (udp4(), udp());
        let from = Offload::new(from).expect("a UDP socket");
        let data = numbered(30, 100);
        let msgs: Vec<_> = data.iter().map(|data| SendMsg::to(addr(&to), data)).collect();
        let mut queue = SendQueue::new(1 << 20);
        msgs.iter().for_each(|msg| queue.push(msg).expect("there is space"));

        assert_eq!(from.send_batch(&msgs).await.expect("loopback takes it"), 30);
        from.flush(&mut queue).await.expect("loopback takes it");
        let no_error = |index, error| panic!("message {index}: {error}");
        from.send_each(msgs, no_error).await.expect("loopback takes it");
        assert_eq!(payloads(&to, 90), [&data[..], &data, &data].concat());
        assert_eq!(from.counters().sent, 90);
        // Where the kernel has GSO, one GSO batch and not a call for each datagram.
        assert!(!from.gso() || from.counters().send_calls <= 6, "{:?}", from.counters());
    });
}
