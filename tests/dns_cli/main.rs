//! `examples/dns` as a user has it before them, asked by programs that know nothing of this crate:
//! dig and dnsperf (Debian: bind9-dnsutils, dnsperf).
//!
//! `cargo test` builds the example; for these tests alone:
//! `cargo build --example dns && cargo test --test dns_cli`.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod dig;
mod load;
mod program;
mod raw;
#[path = "../common/program.rs"]
mod running;
mod wrong;

/// Every way in which the server moves datagrams.
const MODES: [&str; 3] = ["batch", "offload", "tokio"];
