//! The echo server as a running program.

pub use crate::running::{
    Ended, PATIENCE, Program, Server, client, example, has_ipv6, loopbacks, skip,
};

/// Starts `echo serve ADDR ARGS`; none where the example is not there.
pub fn serve(addr: &str, args: &[&str]) -> Option<Server> {
    Some(Server::start(example("echo")?, ["serve", addr].iter().chain(args)))
}

/// Runs `echo ARGS` to its end; none where the example is not there.
pub fn run(args: &[&str]) -> Option<Ended> {
    Some(Program::start(example("echo")?, args).wait())
}
