//! Times over the size of the batch, by criterion: to look at, beside the times taken in turn.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};

use super::load::Load;
use super::peers;

pub fn run(loads: &[Load]) {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
        .sample_size(20)
        .without_plots();
    for payload in [15, 1200] {
        let mut group = criterion.benchmark_group(format!("{payload} bytes"));
        let sweep =
            |load: &&Load| load.workload == "batch" && load.payload == payload && !load.metadata;
        for load in loads.iter().filter(sweep) {
            group.throughput(Throughput::Elements(load.datagrams() as u64));
            for way in peers::NAMES {
                let Some(mut turn) = peers::turn(way, load) else { continue };
                group.bench_function(BenchmarkId::new(way, load.each), |b| b.iter(|| turn(false)));
            }
        }
        group.finish();
    }
    criterion.final_summary();
}
