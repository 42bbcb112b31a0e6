//! An authoritative DNS server over UDP, in batches.
//!
//! ```text
//! cargo run --release --example dns -- \
//!     --listen 127.0.0.1:5300 --zone examples/dns/example.zone
//! dig @127.0.0.1 -p 5300 www.example.test
//! ```
//!
//! Read first `server/batch.rs`, which is the loop: a `RecvBatch` received into, a `SendQueue` for
//! the answers. `server/plain.rs` is the same server on tokio's own socket, to compare with. What
//! both answer is in `server/answer.rs`.

// The packages it needs are dev-dependencies of these machines alone.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod server;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn main() -> std::process::ExitCode {
    server::main()
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn main() {
    eprintln!("error: this example is for Linux on x86-64 and on 64-bit Arm");
    std::process::exit(2);
}
