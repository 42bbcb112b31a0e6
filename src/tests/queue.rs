//! Flushes that the socket takes in part or not at all.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::SendMeta;

fn left(queue: &SendQueue) -> Vec<u32> {
    queue.iter().map(|msg| payload(&msg)).collect()
}

/// Each call removes the last number of `takes` and accepts as many datagrams. It fails when `takes` is empty.
struct Limited {
    takes: RefCell<Vec<usize>>,
    taken: RefCell<Vec<(u16, u32)>>,
}

impl BatchSocket for Limited {
    fn recv_batch(&self, _: &mut [RecvMsg<'_>]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn send_batch(&self, msgs: &[SendMsg<'_>]) -> io::Result<usize> {
        let Some(max) = self.takes.borrow_mut().pop() else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let taken = &msgs[..max.min(msgs.len())];
        self.taken.borrow_mut().extend(taken.iter().map(identify));
        Ok(taken.len())
    }
}

/// Destination and number.
fn identify(msg: &SendMsg<'_>) -> (u16, u32) {
    (msg.dest().expect("it has a destination").port(), payload(msg))
}

/// A step of the test below.
#[derive(Clone, Debug)]
enum Action {
    /// Pushes a datagram to this destination, with settings or without.
    Push(u16, bool),
    /// Flushes to a socket whose calls accept these numbers of datagrams.
    Flush(Vec<usize>),
    Discard,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        8 => (1u16..5, any::<bool>()).prop_map(|(dest, settings)| Action::Push(dest, settings)),
        1 => prop::collection::vec(1usize..40, 0..3).prop_map(Action::Flush),
        1 => Just(Action::Discard),
    ];
    prop::collection::vec(action, 0..120)
}

proptest! {
    /// The naive twin is a list for each destination.
    #[test]
    fn a_grouped_queue_keeps_the_order_of_each_destination(steps in actions(), v6 in any::<bool>()) {
        let ip: IpAddr = if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let meta = SendMeta::new().with_hop_limit(9);
        let mut queue = SendQueue::new(1 << 20).grouped_by_dest();
        let mut twin: BTreeMap<u16, VecDeque<(u32, usize)>> = BTreeMap::new();
        let mut next = 0u32;
        for step in steps {
            let mut gone = Vec::new();
            match step {
                Action::Push(dest, settings) => {
                    let data = next.to_be_bytes();
                    let msg = SendMsg::to((ip, dest).into(), &data);
                    let msg = if settings { msg.with_meta(&meta) } else { msg };
                    queue.push(&msg).expect("the queue is ample");
                    twin.entry(dest).or_default().push_back((next, SendQueue::cost(&msg)));
                    next += 1;
                }
                Action::Flush(takes) => {
                    let socket = Limited { takes: RefCell::new(takes), taken: RefCell::default() };
                    let result = socket.flush(&mut queue);
                    gone = socket.taken.into_inner();
                    prop_assert_eq!(result.unwrap_or(0), gone.len());
                }
                Action::Discard => {
                    gone.extend(queue.front().map(|msg| identify(&msg)));
                    prop_assert_eq!(queue.discard_front(), !gone.is_empty());
                }
            }
            for (dest, number) in gone {
                let first = twin.get_mut(&dest).and_then(VecDeque::pop_front);
                prop_assert_eq!(first.map(|(number, _)| number), Some(number));
            }
            let costs = twin.values().flatten().map(|(_, cost)| cost);
            prop_assert_eq!(queue.bytes(), costs.sum::<usize>());
            let mut left: BTreeMap<u16, VecDeque<u32>> = BTreeMap::new();
            for (dest, number) in queue.iter().map(|msg| identify(&msg)) {
                left.entry(dest).or_default().push_back(number);
            }
            twin.retain(|_, numbers| !numbers.is_empty());
            prop_assert!(left.into_values().flatten().eq(twin.values().flatten().map(|(n, _)| *n)));
        }
    }
}

#[test]
fn a_grouped_queue_sends_together_what_goes_to_one_destination() {
    let mut queue = SendQueue::new(1 << 20).grouped_by_dest();
    let to = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let data = numbers(0..8);
    for (i, data) in data[..6].iter().enumerate() {
        queue.push(&SendMsg::to(to(1 + i as u16 % 2), data)).expect("the queue is ample");
    }
    assert_eq!(left(&queue), [0, 1, 2, 3, 4, 5]);
    let socket = Limited { takes: RefCell::new(vec![2]), taken: RefCell::default() };
    assert_eq!(socket.flush(&mut queue).expect("two are taken"), 2);
    assert_eq!(socket.taken.take(), [(1, 0), (1, 2)]);
    // After an error the front stays. A datagram pushed now comes after it.
    assert!(socket.flush(&mut queue).is_err());
    assert_eq!(queue.front().map(|msg| identify(&msg)), Some((1, 4)));
    queue.push(&SendMsg::to(to(1), &data[6])).expect("the queue is ample");
    *socket.takes.borrow_mut() = vec![9, 9];
    while !queue.is_empty() {
        socket.flush(&mut queue).expect("all are taken");
    }
    assert_eq!(socket.taken.take(), [(1, 4), (2, 1), (2, 3), (2, 5), (1, 6)]);
}
