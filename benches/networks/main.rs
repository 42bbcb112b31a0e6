//! The programs and the futures under load for minutes, over a network with faults, on demand:
//! `.ci/soak` runs them. Each needs minutes, and most need root, `/dev/net/tun` and `ip`.
#![cfg(target_os = "linux")]

#[path = "../../tests/common/mod.rs"]
mod common;
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
#[path = "../../tests/common/program.rs"]
mod running;
mod soak;
mod tun;
#[path = "../../tests/common/veth.rs"]
mod veth;
mod world;

use std::net::{SocketAddr, UdpSocket};

/// The backend of this build.
const BACKEND: Option<mmsg::Backend> = None;

fn addr(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("it is bound")
}
