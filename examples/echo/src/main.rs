//! A UDP echo server, a load generator that checks it, and a demonstration of both.
//!
//! ```text
//! cargo run --release --example echo                          the demonstration
//! cargo run --release --example echo -- serve 127.0.0.1:7777  the server
//! cargo run --release --example echo -- load 127.0.0.1:7777   the load generator
//! ```
//!
//! Any echo server floods a forged source with what it is sent: keep it off the Internet.
//!
//! The server's loop is `Batched` in `serve.rs`: a `RecvBatch` to receive into and a `SendQueue` for
//! the replies. With `--mode offload` the socket is in an `Offload`, and the loop is the same.

fn main() -> std::process::ExitCode {
    echo_example::main()
}
