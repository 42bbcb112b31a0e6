//! `examples/echo` as a user has it before them: a program that is started, written to, read from
//! and stopped.
//!
//! `cargo test` builds the example; for these tests alone:
//! `cargo build --example echo && cargo test -p echo --test cli`.

#![cfg(unix)]

mod demo;
mod load;
mod program;
#[path = "../../../../tests/common/program.rs"]
mod running;
mod serve;
mod wrong;
