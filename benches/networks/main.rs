//! Every way to send and receive over a network with faults: only the network loses or duplicates datagrams, and every
//! error is reported. `.ci/soak` runs the programs behind the same network.
//!
//! Prints a table (needs root, `/dev/net/tun`, `ip` and `tc`):
//!
//! ```text
//! cargo test -p networks -- --ignored --nocapture table
//! ```
#![cfg(target_os = "linux")]

#[path = "../../tests/common/mod.rs"]
mod common;
mod conditions;
mod futures;
mod link;
#[allow(dead_code)] // These tests make their own network.
#[path = "../../tests/ancillary/kit/net.rs"]
mod net;
mod packet;
mod programs;
#[allow(dead_code)] // The client reads only the number.
#[path = "../../tests/servers/requests.rs"]
mod requests;
mod run;
#[path = "../../tests/common/program.rs"]
mod running;
mod soak;
mod tun;
mod ways;
mod world;

use std::net::{SocketAddr, UdpSocket};

use common::{TIME_LIMIT, skip};
use conditions::{CONDITIONS, Condition};
use world::Family;

/// The backend of this build.
const BACKEND: Option<mmsg::Backend> = None;

/// A blocking socket with a time limit on receives.
fn bind(addr: impl Into<SocketAddr>) -> UdpSocket {
    let socket = UdpSocket::bind(addr.into()).expect("an address of this host");
    socket.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
    socket
}

fn addr(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("it is bound")
}

/// Whether the condition's name contains the words in `NETWORKS_ONLY`, if set. Useful on a slow machine.
fn is_chosen(condition: &str) -> bool {
    condition.contains(&std::env::var("NETWORKS_ONLY").unwrap_or_default())
}

/// Each table is printed for one family, then for the other.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

#[test]
#[ignore = "takes most of a minute"]
fn table_of_sockets() {
    for family in FAMILIES {
        println!("\nSockets over {family}:\n");
        println!(
            "| condition | what the socket sees | what the crate does | sent | reported | lost by the network | doubled by the network | lost by the crate | doubled by the crate |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        let has = |one: &&Condition| one.families.contains(&family) && is_chosen(one.name);
        for condition in CONDITIONS.iter().filter(has) {
            let Some(outcome) = run::run(condition, family) else { continue };
            println!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                condition.name,
                condition.sees,
                condition.does,
                outcome.sent,
                outcome.reported,
                outcome.lost_by_network,
                outcome.doubled_by_network,
                outcome.lost_by_crate,
                outcome.doubled_by_crate,
            );
        }
    }
}
