//! Attacks every server program of this project, the README's included, as the Internet does: datagrams that cannot
//! be answered, empty and oversized ones, ICMP errors, signals, floods. Afterwards each must answer as before, sleep,
//! and have no more descriptors or memory. (The other examples are their own clients: `examples.rs`.)
//!
//! `cargo test` builds the programs and floods each for half a second, `.ci/attack` for ten seconds. To run only these tests:
//! `cargo build --workspace --all-features --bins --examples && cargo test --all-features --test servers`.

#![cfg(target_os = "linux")]
// Each example brings its own `common`.
#![allow(clippy::duplicate_mod)]

mod answers;
mod attack;
mod command_line;
#[path = "../common/mod.rs"]
mod common;
mod errors;
mod examples;
#[path = "../common/program.rs"]
mod running;
#[allow(dead_code)] // The other calls are denied in other test binaries.
#[path = "../common/seccomp.rs"]
mod seccomp;
mod target;

use std::time::Duration;

use attack::Strength;
use target::{Server, file};

/// The servers choose for themselves.
const BACKEND: Option<mmsg::Backend> = None;

/// For every `cargo test`; an emulated machine gets fewer ICMP errors.
fn fast() -> Strength {
    let icmp_errors = common::repetitions(2_000, 500) as u64;
    Strength { icmp_errors, flood: Duration::from_millis(500), most: 100_000 }
}

/// For `.ci/attack`.
const FULL: Strength =
    Strength { icmp_errors: 10_000, flood: Duration::from_secs(10), most: 20_000_000 };

/// The servers: program, command line and requests.
macro_rules! servers {
    ($($(#[$condition:meta])* $name:ident: $server:expr,)*) => {
        mod survives {
            $(
                $(#[$condition])*
                #[test]
                fn $name() {
                    super::attack::run(&$server, &super::fast());
                }
            )*
        }

        #[test]
        #[ignore = "takes minutes"]
        fn every_server_survives_the_full_attack() {
            $(
                $(#[$condition])*
                attack::run(&$server, &FULL);
            )*
        }
    };
}

servers! {
    readme: crate::Server {
        program: "server",
        args: |at| vec![at],
        listen: "[::]:0",
        request: crate::target::ECHO,
    },
    #[cfg(feature = "tokio")]
    readme_tokio: crate::Server {
        program: "server_tokio",
        args: |at| vec![at],
        listen: "[::]:0",
        request: crate::target::ECHO,
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    dns: crate::Server {
        program: "dns",
        // Without the rate limit, which the program's own tests attack: here one network sends everything.
        args: |at| vec![
            "--listen".into(), at, "--zone".into(), crate::target::file("programs/dns/example.zone"),
            "--rate-limit".into(), "0".into(),
        ],
        listen: "0.0.0.0:0",
        request: crate::target::DNS,
    },
}

/// The lines of a page without indentation, comment marks and lines that rustdoc hides.
fn lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.trim_start_matches([' ', '/', '!']).trim_end());
    lines.filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn every_documented_server_is_one_that_is_attacked() {
    if !std::path::Path::new(&file("README.md")).is_file() {
        return common::skip("the source is not here");
    }
    let server = include_str!("../../examples/server.rs");
    for page in ["README.md", "src/lib.rs"] {
        let from = server.lines().skip_while(|line| line.trim() != "loop {");
        let body: String =
            from.take_while(|line| *line != "    }").flat_map(|l| [l, "\n"]).collect();
        let body = lines(&body);
        assert!(body.len() > 5);
        let text = std::fs::read_to_string(file(page)).expect("a page of the documentation");
        let shown = lines(&text);
        assert!(shown.windows(body.len()).any(|part| part == body), "{page} has another server");
    }
}
