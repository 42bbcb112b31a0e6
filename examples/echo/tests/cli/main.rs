//! The program `examples/echo`, started and stopped as a user would.
//!
//! `cargo test` builds the example. To run only these tests: `cargo build --example echo && cargo test -p echo --test
//! cli`.

#![cfg(unix)]

mod demo;
mod load;
mod program;
#[path = "../../../../tests/common/program.rs"]
mod running;
mod serve;
mod wrong;
