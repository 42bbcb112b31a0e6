//! What rustc says about likely mistakes: each file in `tests/mistakes/` makes one, and its `.stderr` is what a
//! newcomer reads.
//!
//! `WRITE_MISTAKES=1 cargo test --test mistakes` writes the `.stderr` files.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The rustc that wrote the `.stderr` files; other versions word messages differently.
const RUSTC: &str = "rustc 1.95.";

/// Each mistake: its file, whether the features `tokio` and `mio` are on, and the words that lead to the fix.
const MISTAKES: [(&str, bool, &str); 12] = [
    ("trait_not_imported", true, "use mmsg::BatchSocket;"),
    ("tokio_is_off", false, "`cargo add mmsg --features tokio`"),
    ("tokio_is_off_import", false, "the item is gated behind the `tokio` feature"),
    ("tokio_by_blocking_trait", true, "use mmsg::AsyncBatchSocket;"),
    ("mio_is_off", false, "`cargo add mmsg --features mio`"),
    ("stream", true, "`TcpStream` is not a `BatchSocket`"),
    ("payloads_for_messages", true, "`Borrow<SendMsg<'_>>` is not implemented for `&&[u8]`"),
    ("replies_with_none", true, "is not implemented for `Option<SendMsg<'_>>`"),
    ("buffer_for_messages", true, "expected `&mut [RecvMsg<'_>]`, found `&mut [u8]`"),
    ("temporary_meta", true, "temporary value created here"),
    ("reply_in_place", true, "returns a value referencing data owned by the current function"),
    ("await_forgotten", true, "socket.recv_into(batch).await?"),
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

/// rustc's messages about the file, compiled with these crates.
fn compile(file: &Path, crates: [(&str, &Path); 3]) -> String {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mistake.rmeta");
    let mut rustc = rustc();
    rustc.args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "-o"]).arg(out).arg(file);
    for (name, path) in crates {
        rustc.arg("--extern").arg(format!("{name}={}", path.display()));
        let folder = path.parent().expect("a folder").display();
        rustc.arg("-L").arg(format!("dependency={folder}"));
    }
    let output = rustc.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("rustc runs");
    assert!(!output.status.success(), "{} compiles", file.display());
    String::from_utf8(output.stderr).expect("text")
}

fn rustc() -> Command {
    Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
}

/// Removes what differs between machines and commits: the code of other crates, and line numbers.
fn normalized(output: &str) -> String {
    let mut text = String::new();
    let mut in_other_crate = false;
    for line in output.lines() {
        let trimmed = line.trim_start();
        let code = trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let is_numbered = trimmed.starts_with(|c: char| c.is_ascii_digit());
        if let Some(path) = trimmed.strip_prefix("--> ").or(trimmed.strip_prefix("::: ")) {
            in_other_crate = path.starts_with('/');
            if !in_other_crate {
                let (file, _) = path.split_once(':').expect("a file, a line and a column");
                text += &format!(" {}{file}\n", &trimmed[..4]);
            }
        } else if code.starts_with('|') || code == "..." || is_numbered {
            if !in_other_crate {
                text += &format!(" {code}\n");
            }
        } else {
            in_other_crate = false;
            let indent = match line.len() - trimmed.len() {
                0 => "",
                _ if trimmed.starts_with("= ") => " ",
                _ => "        ",
            };
            text += &format!("{indent}{trimmed}\n");
        }
    }
    text
}

#[test]
fn rustc_says_what_to_write() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let version = rustc().arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !folder.is_dir() || !version.as_ref().is_ok_and(|version| version.starts_with(RUSTC)) {
        let _ = writeln!(io::stderr().lock(), "skipped: mistakes: for {RUSTC}x, found {version:?}");
        return;
    }
    let [mmsg_off] = check(&[], ["mmsg"]);
    let [mmsg_on, tokio, mio] = check(&["--features=tokio,mio"], ["mmsg", "tokio", "mio"]);
    let mut differing = Vec::new();
    for (name, is_on, lead) in MISTAKES {
        let mmsg = if is_on { &mmsg_on } else { &mmsg_off };
        let file = Path::new("tests/mistakes").join(name).with_extension("rs");
        let crates = [("mmsg", &**mmsg), ("tokio", &*tokio), ("mio", &*mio)];
        let said = normalized(&compile(&file, crates));
        assert!(said.contains(lead), "{name}: {lead:?} is not in\n{said}");
        let expected = folder.join(name).with_extension("stderr");
        if env::var_os("WRITE_MISTAKES").is_some() {
            fs::write(&expected, &said).expect("a writable file");
        } else if fs::read_to_string(&expected).ok().as_ref() != Some(&said) {
            differing.push(format!("{}: rustc says now\n{said}", expected.display()));
        }
    }
    assert!(differing.is_empty(), "{}\nIf meant: WRITE_MISTAKES=1", differing.join("\n"));
}

#[test]
fn each_mistake_is_in_the_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let Ok(entries) = fs::read_dir(folder) else {
        let _ = writeln!(io::stderr().lock(), "skipped: mistakes: the files are not here");
        return;
    };
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_str().expect("text");
        assert!(MISTAKES.iter().any(|mistake| mistake.0 == name), "{}", path.display());
    }
}
