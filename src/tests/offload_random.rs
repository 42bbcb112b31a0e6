//! Batches and scripts at random: each message has one outcome for any answers of the system.

use std::io::IoSlice;

use proptest::prelude::*;

use super::fates::fates;
use super::offload_kit::{Net, Way, send_all};
use super::*;

/// Error numbers that say something about GSO, and some that do not.
const CODES: [i32; 15] = [
    errno::ENOMEM,
    errno::EACCES,
    errno::ENETUNREACH,
    errno::EHOSTUNREACH,
    errno::EPIPE,
    errno::EINTR,
    errno::EAGAIN,
    errno::ECONNREFUSED,
    errno::EPERM,
    errno::ENOSYS,
    errno::ENOBUFS,
    errno::EMSGSIZE,
    errno::EINVAL,
    errno::EIO,
    errno::EOPNOTSUPP,
];

/// A message: where to, how long, and the segment size of its own, if it has one.
#[derive(Clone, Copy, Debug)]
struct Spec {
    far: usize,
    len: usize,
    own: Option<u16>,
    gathered: bool,
}

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let len = prop_oneof![4 => Just(40usize), 2 => Just(300), 1 => Just(0), 2 => 0usize..60];
    // Few pieces: all datagrams of a case wait in a receive buffer, and none may be dropped there.
    let own = prop_oneof![8 => Just(None), 1 => Just(Some(40)), 1 => Just(Some(70))];
    let gathered = prop_oneof![2 => Just(false), 1 => Just(true)];
    let row = (0usize..2, len, own, gathered, 1usize..7);
    prop::collection::vec(row, 1..8).prop_map(|rows| {
        let each = rows.into_iter().flat_map(|(far, len, own, gathered, count)| {
            std::iter::repeat_n(Spec { far, len, own, gathered }, count)
        });
        each.collect()
    })
}

/// The datagrams that a message is to be.
fn pieces(spec: Spec, data: &[u8]) -> Vec<&[u8]> {
    match spec.own {
        Some(size) if !data.is_empty() => data.chunks(size.into()).collect(),
        _ => vec![data],
    }
}

proptest! {
    #[test]
    fn each_message_has_one_outcome_whatever_the_system_says(
        backend in prop::sample::select(&BACKENDS[..]),
        way in prop::sample::select(&Way::ALL[..]),
        specs in specs(),
        fates in fates(&CODES, Call::SendMmsg, Call::SendMsg),
        adjacent in any::<u64>(),
    ) {
        let Some(net) = Net::new() else { return Ok(()) };
        backend.make_process_default().unwrap();
        // Any part of a message shows which message it is of, and where it belongs in it.
        let mut memory = Vec::new();
        let ranges: Vec<_> = specs.iter().enumerate().map(|(i, spec)| {
            // Whether it begins where the one before it ends.
            memory.resize(memory.len() + usize::from(adjacent >> (i % 64) & 1 == 0), 0);
            let start = memory.len();
            memory.extend((0..spec.len).map(|j| if j % 2 == 0 { i as u8 } else { j as u8 }));
            start..memory.len()
        }).collect();
        let data: Vec<_> = ranges.into_iter().map(|range| &memory[range]).collect();
        let parts: Vec<Vec<IoSlice<'_>>> =
            data.iter().map(|data| data.chunks(25).map(IoSlice::new).collect()).collect();
        let msgs: Vec<_> = specs.iter().zip(data.iter().zip(&parts)).map(|(spec, (data, parts))| {
            let msg = if spec.gathered { SendMsg::gather(parts) } else { SendMsg::new(data) };
            let msg = msg.with_dest(net.to(spec.far));
            spec.own.map_or(msg, |size| msg.with_segment_size(size))
        }).collect();

        fault::script(fates);
        let failed: Vec<_> = send_all(&net, way, &msgs).into_iter().map(|(i, _)| i).collect();
        let log = fault::log();
        fault::script([]);

        prop_assert!(failed.is_sorted_by(|a, b| a < b), "reported twice or out of order: {failed:?}");
        let delivered = net.delivered();
        let mut delivered = delivered.each_ref().map(|datagrams| datagrams.iter().peekable());
        let mut sent = 0;
        for (i, (spec, data)) in specs.iter().zip(&data).enumerate() {
            let came = &mut delivered[spec.far];
            if failed.contains(&i) {
                // None of its datagrams came, or the first ones of a message that was segmented.
                let most = if spec.own.is_some() { pieces(*spec, data).len() - 1 } else { 0 };
                for piece in pieces(*spec, data).into_iter().take(most) {
                    sent += usize::from(came.next_if(|came| **came == piece).is_some());
                }
                continue;
            }
            for piece in pieces(*spec, data) {
                prop_assert_eq!(came.next().map(Vec::as_slice), Some(piece), "{} {:?} {:?}", i, failed, log);
                sent += 1;
            }
        }
        for mut rest in delivered {
            prop_assert_eq!(rest.next(), None, "delivered without being counted: {:?}", log);
        }
        prop_assert_eq!(net.near.counters().sent, sent as u64, "{:?}", log);
    }
}
