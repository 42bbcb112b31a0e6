//! The echo server as a running program.

use std::net::{SocketAddr, UdpSocket};

pub use crate::running::{Ended, PATIENCE, Program, example, has_ipv6, loopbacks, skip};

/// A server that runs, and its address, as it says.
pub struct Server {
    pub program: Program,
    pub addr: SocketAddr,
}

/// Starts `echo serve ADDR ARGS`; none where the example is not there.
pub fn serve(addr: &str, args: &[&str]) -> Option<Server> {
    let program = Program::start(example("echo")?, ["serve", addr].iter().chain(args));
    let line = program.line();
    let said = line.strip_prefix("listening on ").expect("the first line says where");
    let addr = said.parse().expect("an address and a port");
    Some(Server { program, addr })
}

/// Runs `echo ARGS` to its end; none where the example is not there.
pub fn run(args: &[&str]) -> Option<Ended> {
    Some(Program::start(example("echo")?, args).wait())
}

/// A socket on loopback of the same family as `addr`.
pub fn client(addr: SocketAddr) -> UdpSocket {
    let local = if addr.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(local).expect("a loopback socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
    socket
}
