//! Every way to send and receive over a network with faults: only the network loses or duplicates datagrams, and every
//! error is reported.
//!
//! Prints tables (needs root, `/dev/net/tun`, `ip` and `tc`):
//!
//! ```text
//! cargo build --workspace --all-features --bins --examples &&
//! cargo test --all-features --test networks -- --nocapture --test-threads 1 table
//! ```
#![cfg(target_os = "linux")]

#[path = "../common/mod.rs"]
mod common;
mod conditions;
mod latency;
mod link;
#[allow(dead_code)] // These tests make their own network.
#[path = "../ancillary/kit/net.rs"]
mod net;
mod packet;
mod programs;
#[allow(dead_code)] // The client reads only the number.
#[path = "../servers/requests.rs"]
mod requests;
mod run;
#[path = "../common/program.rs"]
mod running;
mod soak;
mod spacing;
mod tun;
#[path = "../common/veth.rs"]
mod veth;
mod ways;
mod world;

use std::net::{SocketAddr, UdpSocket};

use common::{TIME_LIMIT, skip};
use conditions::{CONDITIONS, Condition};
use programs::Quic;
use world::{Family, World};

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
fn table_of_programs() {
    for family in FAMILIES {
        println!("\nPrograms over {family}:\n");
        println!(
            "| program | condition | requests | answers | lost by the network | doubled by the network | lost by the program | doubled by the program |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for program in &programs::PROGRAMS {
            for (condition, device, rules) in programs::conditions(family) {
                if !is_chosen(condition) {
                    continue;
                }
                let outcome = programs::run(program, family, condition, *device, *rules);
                let Some(outcome) = outcome else { break };
                println!(
                    "| {} | {condition} | {} | {} | {} | {} | {} | {} |",
                    program.name,
                    outcome.requests,
                    outcome.answers,
                    outcome.lost_by_network,
                    outcome.doubled_by_network,
                    outcome.lost,
                    outcome.doubled,
                );
            }
        }
    }
}

#[test]
fn table_of_quic() {
    for family in FAMILIES {
        println!("\nA file over {family}:\n");
        println!(
            "| condition | bytes of the file | datagrams | lost by the network | doubled by the network |"
        );
        println!("|---|---|---|---|---|");
        for (condition, device, rules) in programs::conditions(family) {
            let Some(world) = World::new(condition, *device, family) else { break };
            let Some(quic) = Quic::start(&world) else { break };
            let [datagrams, lost, doubled] = quic.get(&world, condition, *rules, 0x0dd_5eed);
            let bytes = quic.len();
            println!("| {condition} | {bytes} | {datagrams} | {lost} | {doubled} |");
        }
    }
}

#[test]
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
