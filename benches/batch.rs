//! Time per datagram over the size of the batch: `cargo bench --bench batch`.
//!
//! One thread sends a batch over loopback and receives it again, in each way that `support` has; the
//! raw calls are the limit. For ratios, which a busy machine moves less, see `paired`.

#[allow(dead_code)] // `paired` needs more of it.
mod support;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use mmsg::{BatchSocket, SendMsg, SendQueue};
use support::{PAYLOADS, Size, Way, Wire, turn};

const WAYS: [Way; 6] =
    [Way::Raw, Way::Std, Way::RecvInto, Way::RecvBatch, Way::DynRecvInto, Way::DynRecvBatch];

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .sample_size(20)
        .configure_from_args();
    let wire = Wire::new().expect("two loopback sockets");
    for payload in PAYLOADS {
        round_trips(&mut criterion, &wire, payload);
    }
    one_waiting(&mut criterion, &wire);
    queues(&mut criterion);
    criterion.final_summary();
}

/// Send and receive of a whole batch.
fn round_trips(criterion: &mut Criterion, wire: &Wire, payload: usize) {
    let mut group = criterion.benchmark_group(format!("{payload} bytes"));
    for batch in (0..=9).map(|power| 1 << power) {
        if batch > wire.room {
            println!("{batch} datagrams do not fit the receive buffer: left out (root has more)");
            continue;
        }
        group.throughput(Throughput::Elements(batch as u64));
        for way in WAYS {
            let mut turn = turn(way, wire, Size::batch(batch, payload));
            turn(true);
            group.bench_function(BenchmarkId::new(way.name(), batch), |b| b.iter(|| turn(false)));
        }
    }
    group.finish();
}

/// 512 slots offered and one datagram waiting.
fn one_waiting(criterion: &mut Criterion, wire: &Wire) {
    let mut group = criterion.benchmark_group("one of 512 slots");
    for way in [Way::Std, Way::RecvInto, Way::RecvBatch] {
        let mut turn = turn(way, wire, Size { slots: 512, ..Size::batch(1, PAYLOADS[0]) });
        group.bench_function(way.name(), |b| b.iter(|| turn(false)));
    }
    group.finish();
}

/// Push and flush. Nobody reads: what does not fit the receiver is dropped at the end of its way.
fn queues(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queue");
    group.sample_size(10);
    let wire = Wire::new().expect("two loopback sockets");
    let msg = SendMsg::to(wire.to, &[7; 15]);
    for length in [1, 16, 256, 4_096, 65_536, 1_000_000] {
        group.throughput(Throughput::Elements(length as u64));
        let mut queue = SendQueue::new(1 << 30);
        group.bench_function(BenchmarkId::new("push and flush", length), |b| {
            b.iter(|| {
                (0..length).for_each(|_| queue.push(&msg).expect("there is room"));
                while !queue.is_empty() {
                    wire.near.flush(&mut queue).expect("loopback takes them");
                }
            });
        });
    }
    group.finish();
}
