//! Single ways and single figures, for the scripts beside this benchmark.

use std::io;
use std::time::{Duration, Instant};

use crate::clock;
use crate::counting::counted;
use crate::load::Load;
use crate::peers;

/// Turns before, so that all memory is allocated.
const WARM_UP: usize = 3;

/// One side of `benches/compare/xnet/compare.sh`: for each size of batch and each way of this crate the
/// time of a datagram on the wall and on the processors, and allocations a datagram. The Go
/// program prints the same of itself.
pub fn beside_xnet(milliseconds: u64) -> io::Result<()> {
    let slice = Duration::from_millis(milliseconds);
    for size in (0..=9).map(|power| 1 << power) {
        for way in ["mmsg RecvMsg", "mmsg RecvBatch", "mmsg Offload"] {
            let load = batch(size);
            let mut turn = peers::turn(way, &load).expect("it can do without metadata");
            turn(true);
            (0..WARM_UP).for_each(|_| turn(false));
            let pid = std::process::id();
            let (begin, before) = (Instant::now(), clock::of_process(pid));
            let (datagrams, counts) = counted(|| {
                let mut datagrams = 0;
                while begin.elapsed() < slice {
                    turn(false);
                    datagrams += size;
                }
                datagrams
            });
            let times = [begin.elapsed(), clock::of_process(pid) - before];
            let [wall, cpu] = times.map(|time| time.as_nanos() as f64 / datagrams as f64);
            let allocations = counts.allocations as f64 / datagrams as f64;
            println!("{way},{size},{wall:.1},{cpu:.1},{allocations:.3}");
        }
    }
    Ok(())
}

/// What x/net's own benchmark moves.
fn batch(size: usize) -> Load {
    Load { workload: "batch", payload: 15, dests: 1, each: size, slots: size, metadata: false }
}
