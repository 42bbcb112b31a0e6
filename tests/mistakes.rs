//! rustc names the missing feature when a socket's feature is off.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// For each feature, a program that lacks it, and the command that rustc must suggest.
const MISTAKES: [(&str, &str); 2] = [
    (
        "async fn receive(socket: tokio::net::UdpSocket, batch: &mut mmsg::RecvBatch) {
            use mmsg::prelude::*;
            socket.recv_into(batch).await;
        }",
        "`cargo add mmsg --features tokio`",
    ),
    (
        "fn receive(socket: mmsg::Offload<mio::net::UdpSocket>, batch: &mut mmsg::RecvBatch) {
            use mmsg::prelude::*;
            socket.recv_into(batch);
        }",
        "`cargo add mmsg --features mio`",
    ),
];

/// The `.rmeta` files that `cargo check` makes of these packages with these arguments.
fn check<const N: usize>(arguments: &[&str], packages: [&str; N]) -> [PathBuf; N] {
    let output = Command::new(env!("CARGO"))
        .args(["check", "--locked", "--offline", "-p", "mmsg", "--lib", "--message-format=json"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let messages = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{messages}{}", String::from_utf8_lossy(&output.stderr));
    packages.map(|package| {
        let is_its = |path: &&str| {
            let file = path.rsplit('/').next().expect("a name");
            file.starts_with(&format!("lib{package}-")) && file.ends_with(".rmeta")
        };
        messages.split('"').find(is_its).expect("the package was checked").into()
    })
}

/// rustc's messages about a library, compiled with these crates.
fn compile(source: &str, crates: [(&str, &Path); 3]) -> String {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mistake.rmeta");
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "-", "-o"]).arg(out);
    for (name, path) in crates {
        rustc.arg("--extern").arg(format!("{name}={}", path.display()));
        let folder = path.parent().expect("a folder").display();
        rustc.arg("-L").arg(format!("dependency={folder}"));
    }
    let mut running =
        rustc.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("rustc runs");
    let mut stdin = running.stdin.take().expect("a pipe");
    stdin.write_all(source.as_bytes()).expect("rustc reads");
    drop(stdin);
    let output = running.wait_with_output().expect("rustc ends");
    assert!(!output.status.success(), "it compiles: {source}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
#[cfg_attr(planted_fault, ignore = "a library under a sanitizer is not of this rustc's std")]
fn rustc_names_the_missing_feature() {
    // Under Wine, cargo's path on this machine has no drive.
    let cargo = Path::new(env!("CARGO"));
    if !cargo.is_absolute() || !cargo.is_file() {
        let line = "skipped: rustc_names_the_missing_feature: cargo is on another system\n";
        return drop(io::stderr().write_all(line.as_bytes()));
    }
    let [mmsg] = check(&[], ["mmsg"]);
    let [tokio, mio] = check(&["--features=tokio,mio"], ["tokio", "mio"]);
    for (source, suggestion) in MISTAKES {
        let said = compile(source, [("mmsg", &mmsg), ("tokio", &tokio), ("mio", &mio)]);
        assert!(said.contains(suggestion), "{suggestion} is not in\n{said}");
    }
}
