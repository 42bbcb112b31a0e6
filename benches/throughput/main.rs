//! What a user could pick, on the same work, in the same run: `cargo bench --bench throughput`.
//!
//! Sends and receives on one thread over loopback, by std, nix, quinn-udp, raw calls and this crate
//! (`run/peers/` has a file for each, which says what it does), and echo servers in processes of
//! their own. Three kinds of figures come of it:
//!
//! - criterion prints times over the size of the batch, to look at;
//! - times taken in turn, each way a few milliseconds a round, many rounds: ratios come from these,
//!   since what else the machine does meets all of a round;
//! - allocations, by a counting allocator. If a way of this crate allocates, the run fails.
//!
//! `target/throughput/` has the last two as tables, which `--bench report` makes a page of;
//! `benches/report.sh` does all of it. Options, after `--`:
//!
//! | | |
//! |---|---|
//! | `FILTER` | only workloads whose name holds it: batch, bulk, fan-out, idle, echo |
//! | `--quick` | fewer rounds, and no criterion: a look, not figures to quote |
//! | `--no-criterion` | only what the tables need |
//! | `--test` | everything once, and every datagram's arrival checked; no figures |

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod run;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn main() -> std::process::ExitCode {
    run::main()
}

/// What it compares with is built for these targets alone: see Cargo.toml.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn main() {
    println!("skipped: throughput: the comparison is for Linux on x86_64 and aarch64");
}
