//! The server on this crate, in batches.

use std::cmp::Reverse;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use mmsg::{BatchSocket, BatchSocketExt, Offload, RecvBatch, SendMeta, SendMsg};

use crate::responder::Responder;
use crate::{STOP, Totals};

/// Maximum of datagrams in one call.
const BATCH: usize = 64;
/// Longer than any query, and by so much that slots do not begin at the same place in each page.
const QUERY: usize = (1 << 16) + 128;

struct Answer {
    to: SocketAddr,
    meta: SendMeta,
    bytes: Range<usize>,
}

/// Answers queries until `STOP` is set.
pub fn run(socket: &Offload<UdpSocket>, responder: &Responder) -> Totals {
    let mut queries = RecvBatch::new(BATCH, QUERY);
    let mut answers = Vec::with_capacity(BATCH);
    let mut bytes = vec![0; BATCH * responder.max_udp()];
    let mut totals = Totals::default();
    while !STOP.load(Relaxed) {
        match socket.recv_into(&mut queries) {
            Ok(_) => write(responder, &queries, &mut answers, &mut bytes),
            // A timeout, or a signal.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                continue;
            }
            // The error is about no particular query. The pause keeps a repeating error from occupying a core.
            Err(error) => {
                responder.counts.receive_failed(&error);
                thread::sleep(Duration::from_millis(1));
                continue;
            }
        }
        totals.received += queries.datagram_count() as u64;
        if socket.state().gso() {
            // Sorts each client's answers by length, longest first, because only the last datagram of a GSO batch may
            // be shorter. DNS clients expect no order.
            answers.sort_unstable_by_key(|answer: &Answer| {
                (answer.to, answer.meta.source, Reverse(answer.bytes.len()))
            });
        }
        let mut rest = &answers[..];
        while !rest.is_empty() && !STOP.load(Relaxed) {
            let msg = |answer| message(answer, &bytes);
            let mut failed = 0;
            // Goes on after an error about one client (no route, a firewall). The call itself fails only if the
            // socket had no space before its timeout.
            let sent = socket.send_each(rest.iter().map(msg), |_, _| failed += 1);
            let handled = sent.unwrap_or(0);
            totals.answered += handled as u64 - failed;
            if failed > 0 {
                responder.counts.send_errors.fetch_add(failed, Relaxed);
            }
            rest = &rest[handled..];
        }
        if !rest.is_empty() {
            responder.counts.send_errors.fetch_add(rest.len() as u64, Relaxed);
        }
    }
    totals
}

/// Writes the answers to a batch of queries, one after the other.
fn write(responder: &Responder, queries: &RecvBatch, answers: &mut Vec<Answer>, bytes: &mut [u8]) {
    answers.clear();
    let (zone, mut start) = (responder.zone(), 0);
    for query in queries {
        let Some(to) = query.reply_addr() else { continue };
        let Some(len) = responder.answer_udp(&zone, query.data(), to, &mut bytes[start..]) else {
            continue;
        };
        answers.push(Answer { to, meta: query.meta().reply_meta(), bytes: start..start + len });
        start += len;
    }
}

fn message<'a>(answer: &'a Answer, bytes: &'a [u8]) -> SendMsg<'a> {
    SendMsg::to(answer.to, &bytes[answer.bytes.clone()]).with_meta(&answer.meta)
}
