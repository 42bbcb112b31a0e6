//! `programs/dns` as a user has it before them, asked by programs that know nothing of this crate:
//! dig and dnsperf (Debian: bind9-dnsutils, dnsperf).

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

/// Every way in which the server moves datagrams.
const MODES: [&str; 3] = ["batch", "offload", "tokio"];
