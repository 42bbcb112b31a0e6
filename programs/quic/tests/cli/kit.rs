//! Servers and clients.

use std::net::SocketAddr;

use crate::running::{Program, Server};

/// The server's and the client's sockets, in all combinations.
pub const PAIRS: [(&str, &str); 4] =
    [("mmsg", "quinn"), ("quinn", "mmsg"), ("mmsg", "mmsg"), ("quinn", "quinn")];

/// Starts `quic serve`.
pub fn serve(addr: &str, socket: &str, connections: u16) -> Server {
    let connections = connections.to_string();
    let args = ["serve", addr, "--socket", socket, "--connections", &connections];
    Server::start(env!("CARGO_BIN_EXE_quic"), args)
}

/// Stops a server and returns its last output.
#[track_caller]
pub fn stop(server: Server) -> Figures {
    Figures(server.stop().join("\n"))
}

/// Runs `quic COMMAND ADDR ARGS` to its end, which must be a success.
#[track_caller]
pub fn succeed(command: &str, addr: SocketAddr, args: &[&str]) -> Figures {
    let addr = addr.to_string();
    let args = [command, &addr].into_iter().chain(args.iter().copied());
    let ended = Program::start(env!("CARGO_BIN_EXE_quic"), args).wait();
    assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:?}");
    Figures(ended.out.join("\n"))
}

/// A program's last output.
#[derive(Debug)]
pub struct Figures(pub String);

impl Figures {
    /// The number after `words`.
    #[track_caller]
    pub fn get(&self, words: &str) -> u64 {
        let number = || {
            let rest = self.0[self.0.find(words)? + words.len()..].trim_start();
            rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
        };
        number().unwrap_or_else(|| panic!("no number after {words:?} in {self:?}"))
    }

    /// Checks the server's counts.
    #[track_caller]
    pub fn assert_served(&self, connections: u64, requests: u64, bytes: u64) {
        let said = format!(
            "connections {connections}, broken 0; requests {requests}, bytes {bytes}, unfinished 0; CPU "
        );
        assert!(self.0.starts_with(&said), "{self:?}");
    }
}
