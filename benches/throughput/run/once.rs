//! Single ways and single figures, for the scripts beside this benchmark.

use std::hint::black_box;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::counting::counted;
use super::load::Load;
use super::peers;
use super::processors;

/// Turns before, so that all memory is allocated.
const WARM_UP: usize = 3;
/// Turns that are counted.
const COUNTED: usize = 100;

/// The frame that the counting of instructions is switched on and off by: its name is known to
/// `benches/instructions_peers.sh`.
#[inline(never)]
fn measured(call: impl FnOnce()) {
    call();
    // So that the call is no jump to what is called.
    black_box(());
}

/// Moves batches of 64 datagrams of 15 bytes by one way, and prints how many datagrams were
/// counted; 0 if it cannot do what is asked.
pub fn for_instructions(way: &str, metadata: bool) -> io::Result<ExitCode> {
    let load = Load { metadata, ..batch(64) };
    let mut datagrams = 0;
    if let Some(mut turn) = peers::turn(way, &load) {
        turn(true);
        (0..WARM_UP).for_each(|_| turn(false));
        measured(|| (0..COUNTED).for_each(|_| turn(false)));
        datagrams = COUNTED * load.datagrams();
    }
    println!("{datagrams}");
    Ok(ExitCode::SUCCESS)
}

/// One side of `benches/xnet/compare.sh`: for each size of batch and each way of this crate the
/// time of a datagram on the wall and on the processors, and allocations a datagram. The Go
/// program prints the same of itself.
pub fn beside_xnet(milliseconds: &str) -> io::Result<ExitCode> {
    let slice = milliseconds.parse().map(Duration::from_millis);
    let slice = slice.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    for size in (0..=9).map(|power| 1 << power) {
        for way in ["mmsg borrowed", "mmsg owned", "mmsg Offload"] {
            let load = batch(size);
            let mut turn = peers::turn(way, &load).expect("it can do without metadata");
            turn(true);
            (0..WARM_UP).for_each(|_| turn(false));
            let pid = std::process::id();
            let (begin, before) = (Instant::now(), processors::time_of(pid));
            let (datagrams, counts) = counted(|| {
                let mut datagrams = 0;
                while begin.elapsed() < slice {
                    turn(false);
                    datagrams += size;
                }
                datagrams
            });
            let times = [begin.elapsed(), processors::time_of(pid) - before];
            let [wall, cpu] = times.map(|time| time.as_nanos() as f64 / datagrams as f64);
            let allocations = counts.allocations as f64 / datagrams as f64;
            println!("{way},{size},{wall:.1},{cpu:.1},{allocations:.3}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What x/net's own benchmark moves.
fn batch(size: usize) -> Load {
    Load { workload: "batch", payload: 15, dests: 1, each: size, slots: size, metadata: false }
}
