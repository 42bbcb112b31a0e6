//! The DNS server as a user sees it, asked by dig and dnsperf (Debian: bind9-dnsutils, dnsperf).

mod abuse;
mod dig;
mod load;
mod operator;
mod program;
mod raw;
#[path = "../../../../tests/common/program.rs"]
mod running;
#[path = "../../../../tests/common/seccomp.rs"]
#[allow(dead_code)]
mod seccomp;
mod tcp;
mod wrong;

/// All values of `--mode`.
const MODES: [&str; 3] = ["batch", "offload", "tokio"];
