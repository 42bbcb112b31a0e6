//! A UDP echo server, a load generator that checks it, and a demonstration of both.
//!
//! ```text
//! cargo run --release --example echo                          the demonstration
//! cargo run --release --example echo -- serve 127.0.0.1:7777  the server
//! cargo run --release --example echo -- load 127.0.0.1:7777   the load generator
//! ```
//!
//! The demonstration takes ten seconds and prints a table: datagrams a second, CPU time, losses. The server's loop is
//! `batches` in `serve.rs`. Keep echo servers off the Internet: they send whatever they receive to a forged source.

fn main() -> std::process::ExitCode {
    echo_example::main()
}
