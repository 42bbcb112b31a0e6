//! The DNS server as a user sees it, asked by dig and dnsperf (Debian: bind9-dnsutils, dnsperf).

mod abuse;
mod dig;
mod load;
mod metrics;
mod program;
mod raw;
#[path = "../../../../tests/common/program.rs"]
mod running;
mod tcp;
mod wrong;

/// All values of `--mode`.
const MODES: [&str; 3] = ["batch", "offload", "tokio"];
