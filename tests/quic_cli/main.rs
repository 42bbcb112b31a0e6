//! `examples/quic` as a user has it before them: its server and its client on either socket layer,
//! and quinn itself, as it comes, at the other end.
//!
//! `cargo test` builds the example; for these tests alone:
//! `cargo build --example quic && cargo test --test quic_cli`.

// Where quinn is a dependency: see Cargo.toml.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod kit;
mod migration;
mod refusals;
#[path = "../common/program.rs"]
mod running;
mod stock;
mod transfers;
