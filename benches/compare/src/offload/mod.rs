//! Offload beside std one by one, and beside raw calls on trains that were prepared. Ratios of the
//! thread's time on a processor: taken in turn, A B A B, so that both meet the same machine, and told
//! as the median of the ratios with its quartiles.
//!
//! `compare ratios` prints a table with the promise beside each ratio. It judges
//! nothing: a busy machine gives wide quartiles, and such a row says little. With `--test` it makes
//! one short pass and prints no figures.

mod pair;
mod raw;

use std::hint::black_box;
use std::time::Duration;

use crate::clock::Clock;
use mmsg::{BatchSocket, Offload, RecvBatch, SendMsg, SendQueue};
use pair::{Pair, by_queue, by_recv_into, by_std, scattered};
use raw::{Raw, Train};

/// How long one side of a round takes.
const SIDE: Duration = Duration::from_millis(4);

struct Bench {
    rounds: usize,
    filter: Option<String>,
}

pub fn run(filter: &str, test: bool) {
    let filter = Some(filter.to_string());
    let bench = Bench { rounds: if test { 0 } else { 101 }, filter };
    if !test {
        println!(
            "{:<58} {:>6} {:>7} {:>15} {:>9} {:>9}",
            "A / B", "goal", "median", "quartiles", "A ns", "B ns"
        );
    }
    for len in [15, 1_200] {
        offload(&bench, len);
    }
    fan_out(&bench);
}

impl Bench {
    /// Compares A with B; each moves `per` datagrams at a time.
    fn ratio(&self, name: &str, goal: &str, per: usize, mut a: impl FnMut(), mut b: impl FnMut()) {
        if self.filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
            return;
        }
        a();
        b();
        if self.rounds == 0 {
            return;
        }
        let (times_a, times_b) = (repeats(&mut a), repeats(&mut b));
        let mut rounds: Vec<(f64, f64, f64)> = (0..self.rounds)
            .map(|round| {
                // Who goes first changes, too.
                let (ns_a, ns_b) = if round % 2 == 0 {
                    let ns_a = time(&mut a, times_a);
                    (ns_a, time(&mut b, times_b))
                } else {
                    let ns_b = time(&mut b, times_b);
                    (time(&mut a, times_a), ns_b)
                };
                (ns_a / ns_b, ns_a / per as f64, ns_b / per as f64)
            })
            .collect();
        let mut quantile = |key: fn(&(f64, f64, f64)) -> f64, part: usize| {
            rounds.sort_by(|x, y| key(x).total_cmp(&key(y)));
            key(&rounds[(rounds.len() - 1) * part / 4])
        };
        let ratio = [1, 2, 3].map(|part| quantile(|round| round.0, part));
        let (ns_a, ns_b) = (quantile(|round| round.1, 2), quantile(|round| round.2, 2));
        let [low, median, high] = ratio;
        println!(
            "{name:<58} {goal:>6} {median:>7.3} {low:>7.3}-{high:<7.3} {ns_a:>9.1} {ns_b:>9.1}"
        );
    }
}

/// How often one side is done in a round.
fn repeats(work: &mut impl FnMut()) -> usize {
    let start = Clock::start();
    let mut times = 0;
    while start.elapsed() < SIDE {
        work();
        times += 1;
    }
    times
}

fn time(work: &mut impl FnMut(), times: usize) -> f64 {
    let start = Clock::start();
    (0..times).for_each(|_| work());
    start.elapsed().as_nanos() as f64 / times as f64
}

/// With offload against std's calls, and against raw calls on prepared trains.
fn offload(bench: &Bench, len: usize) {
    const BATCH: usize = 64;
    let pair = Pair::new();
    let offloaded =
        || Offload::new(pair.near.try_clone().expect("a second handle")).expect("a UDP socket");
    let near = offloaded();
    if !near.gso() {
        println!("skipped: no segmentation offload on this kernel");
        return;
    }
    // Two receivers: std's loop cannot read trains.
    let plain = Pair::new();
    let far = Offload::new(pair.far.try_clone().expect("a second handle")).expect("a UDP socket");
    let payloads = scattered(BATCH, len);
    let slab = vec![7; BATCH * len];
    let slab_msgs: Vec<_> = slab.chunks(len).map(|payload| SendMsg::to(pair.to, payload)).collect();
    let msgs: Vec<_> = payloads.iter().map(|payload| SendMsg::to(pair.to, payload)).collect();
    let (mut batch, mut queue, mut buffer) =
        (RecvBatch::for_trains(16), SendQueue::new(1 << 20), [0; 2_048]);
    let goals = if len == 15 { ["40", "25", "40"] } else { ["10", "8.5", "10"] };
    let name = |how: &str| format!("std / Offload from {how}, {len} B x {BATCH}");
    bench.ratio(
        &name("a slab"),
        goals[0],
        BATCH,
        || by_std(&plain, &payloads, &mut buffer),
        || by_recv_into(&near, &far, &slab_msgs, &mut batch),
    );
    bench.ratio(
        &name("scattered buffers"),
        goals[1],
        BATCH,
        || by_std(&plain, &payloads, &mut buffer),
        || by_recv_into(&near, &far, &msgs, &mut batch),
    );
    bench.ratio(
        &name("a SendQueue"),
        goals[2],
        BATCH,
        || by_std(&plain, &payloads, &mut buffer),
        || by_queue(&near, &far, &msgs, &mut queue, &mut batch),
    );

    let cut = Some(len as u16);
    let per_train = (65_507 / len).min(64);
    let of = |memory: Vec<Vec<&[u8]>>| {
        let trains: Vec<_> = memory.into_iter().map(|buffers| (pair.to, buffers, cut)).collect();
        Raw::with_trains(&trains, 16, 65_535)
    };
    let mut raw_slab = of(slab.chunks(len * per_train).map(|part| vec![part]).collect());
    let mut raw_scattered = of(payloads
        .chunks(per_train)
        .map(|part| part.iter().map(Vec::as_slice).collect())
        .collect());
    let name = |how: &str| format!("Offload / raw trains, from {how}, {len} B x {BATCH}");
    let goal = if len == 15 { "-" } else { "1.05" };
    bench.ratio(
        &name("a slab"),
        goal,
        BATCH,
        || by_recv_into(&near, &far, &slab_msgs, &mut batch),
        || by_raw_trains(&pair, &mut raw_slab, BATCH),
    );
    bench.ratio(
        &name("scattered buffers"),
        goal,
        BATCH,
        || by_recv_into(&near, &far, &msgs, &mut batch),
        || by_raw_trains(&pair, &mut raw_scattered, BATCH),
    );
}

/// Trains out and in, by raw calls; each datagram of a train is looked at.
fn by_raw_trains(pair: &Pair, raw: &mut Raw, count: usize) {
    raw.send(&pair.near).expect("they are taken");
    let mut received = 0;
    while received < count {
        let n = raw.recv(&pair.far).expect("they arrive");
        for i in 0..n {
            let (source, bytes, segment) = raw.received(i);
            let segment = if segment == 0 { usize::MAX } else { segment };
            for datagram in bytes.chunks(segment) {
                black_box((datagram, Some(source)));
                received += 1;
            }
        }
    }
}

/// Many destinations: 32 of four datagrams each, and 512 of one each, where looking for runs finds
/// none. Nobody reads: the receivers' buffers fill, and the datagrams are dropped at their end.
fn fan_out(bench: &Bench) {
    let pair = Pair::new();
    let socket = |_| std::net::UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
    let receivers: Vec<_> = (0..512).map(socket).collect();
    let dests: Vec<_> = receivers.iter().map(|r| r.local_addr().expect("it is bound")).collect();
    let payloads = scattered(512, 1_200);
    let msgs: Vec<_> = payloads.iter().zip(&dests).map(|(p, to)| SendMsg::to(*to, p)).collect();
    let near = Offload::new(pair.near.try_clone().expect("a second handle")).expect("a UDP socket");
    let fours: Vec<_> = payloads
        .chunks(4)
        .zip(&dests[..32])
        .map(|(four, to)| (*to, four.iter().map(Vec::as_slice).collect(), Some(1_200)))
        .collect();
    let to_fours: Vec<_> = fours
        .iter()
        .flat_map(|(to, four, _): &Train<'_>| four.iter().map(|payload| SendMsg::to(*to, payload)))
        .collect();
    let mut raw = Raw::with_trains(&fours, 1, 1);
    bench.ratio(
        "Offload / raw trains, 32 destinations x 4, sends alone",
        "1.05",
        128,
        || assert_eq!(near.send_batch(&to_fours).expect("they are taken"), 128),
        || assert_eq!(raw.send(&pair.near).expect("they are taken"), 32),
    );
    bench.ratio(
        "Offload / without, 512 destinations x 1, sends alone",
        "1.02",
        512,
        || assert_eq!(near.send_batch(&msgs).expect("they are taken"), 512),
        || assert_eq!(pair.near.send_batch(&msgs).expect("they are taken"), 512),
    );
}
