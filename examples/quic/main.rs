//! Files over QUIC, by quinn on this crate's sockets or on its own.
//!
//! ```text
//! cargo run --release --example quic -- serve 127.0.0.1:4433 --root . --cert target/quic.pem
//! cargo run --release --example quic -- get 127.0.0.1:4433 README.md --cert target/quic.pem \
//!     -o target/copy.md
//! ```
//!
//! The server makes a self-signed certificate and writes it to a file, `quic.pem` if none is named;
//! the client reads it there. With `--socket quinn` either end uses quinn's own socket layer instead, and with
//! `--stats` it tells how datagrams were moved. `compare.sh` measures one against the other.
//!
//! What is of interest here is `app/mmsg_socket.rs`, a quinn socket on this crate, and
//! `app/outbox.rs`, by which what it sends goes together.

// Where quinn is a dependency of the examples: see Cargo.toml.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod app;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn main() -> std::process::ExitCode {
    app::main()
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn main() -> std::process::ExitCode {
    eprintln!("error: this example is made for Linux on x86-64 and 64-bit Arm");
    std::process::ExitCode::FAILURE
}
