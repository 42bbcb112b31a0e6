//! Makes a page with charts of what `--bench throughput` and the scripts beside it have measured.
//!
//! `cargo bench --bench report -- --write` reads `target/throughput/` and writes
//! `docs/benchmarks.md` and its charts; `--from FOLDER` and `--to FOLDER` choose others.
//! `benches/report.sh` measures first. Without `--write` it writes nothing, so that `cargo bench`
//! does not replace a page that was made on a quiet machine.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod write;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn main() -> std::io::Result<()> {
    write::main()
}

/// What draws the charts is built for these targets alone: see Cargo.toml.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn main() {
    println!("skipped: report: it is made on Linux, x86_64 or aarch64");
}
