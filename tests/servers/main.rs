//! What a server on the Internet meets, sent to every program of this project that serves others, those of the
//! README included: datagrams that cannot be answered, empty ones, the longest, ICMP errors, signals, a flood.
//! Afterwards each answers as before, sleeps, and has no more descriptors and memory. The other examples are
//! their own clients.
//!
//! `cargo test` builds the programs, and floods each for a second; `.ci/attack` for ten. For these tests
//! alone: `cargo build --workspace --all-features --bins --examples && cargo test --all-features --test servers`.

#![cfg(target_os = "linux")]

mod answers;
mod attack;
#[path = "../common/mod.rs"]
mod common;
mod documented;
mod errors;
mod measure;
mod requests;
#[path = "../common/program.rs"]
mod running;
mod target;
mod upstream;

use std::time::Duration;

use attack::Strength;
use target::Server;

/// The servers choose for themselves.
const BACKEND: Option<mmsg::Backend> = None;

/// A part of every `cargo test`; with fewer ICMP errors where the machine is emulated.
fn fast() -> Strength {
    let icmp_errors = common::smaller(10_000, 500) as u64;
    Strength { icmp_errors, flood: Duration::from_secs(1), most: 200_000 }
}

/// By hand.
const FULL: Strength =
    Strength { icmp_errors: 10_000, flood: Duration::from_secs(10), most: 20_000_000 };

/// The servers: the program, its command line, and its requests.
macro_rules! servers {
    ($($(#[$condition:meta])* $name:ident: $server:expr,)*) => {
        mod d3_survives {
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
        fn d3_every_server_survives_the_full_attack() {
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
        args: |at, _| vec![at],
        listen: "[::]:0",
        request: crate::requests::ECHO,
    },
    #[cfg(feature = "tokio")]
    readme_tokio: crate::Server {
        program: "server_tokio",
        args: |at, _| vec![at],
        listen: "[::]:0",
        request: crate::requests::ECHO,
    },
    // It leaves the source of its replies to the system, so it listens on one address.
    echo: crate::Server {
        program: "echo",
        args: |at, _| vec!["serve".into(), at],
        listen: "127.0.0.1:0",
        request: crate::requests::ECHO,
    },
    echo_offload: crate::Server {
        program: "echo",
        args: |at, _| vec!["serve".into(), at, "--mode".into(), "offload".into()],
        listen: "127.0.0.1:0",
        request: crate::requests::ECHO,
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    dns: crate::Server {
        program: "dns",
        // Without the limit, which its own tests attack: here one network asks for everything.
        args: |at, _| vec![
            "--listen".into(), at, "--zone".into(), crate::target::file("programs/dns/example.zone"),
            "--rate-limit".into(), "0".into(),
        ],
        listen: "0.0.0.0:0",
        request: crate::requests::DNS,
    },
    ntp: crate::Server {
        program: "ntp",
        args: |at, _| vec![at],
        listen: "0.0.0.0:0",
        request: crate::requests::NTP,
    },
    forward: crate::Server {
        program: "forward",
        args: |at, upstream| vec![at, upstream.to_string(), "--idle".into(), "0.5".into()],
        listen: "0.0.0.0:0",
        request: crate::requests::ECHO,
    },
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    quic: crate::Server {
        program: "quic",
        args: |at, _| vec![
            "serve".into(), at, "--root".into(), crate::target::file("examples"),
            "--cert".into(), crate::target::scratch("quic.pem"),
        ],
        listen: "0.0.0.0:0",
        request: crate::requests::QUIC,
    },
}
