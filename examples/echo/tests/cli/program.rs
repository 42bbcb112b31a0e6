//! Starts the echo program.

pub use crate::running::{
    Ended, PATIENCE, Program, Server, client, example, has_ipv6, loopbacks, skip,
};

/// Starts `echo serve ADDR ARGS`; `None` if the example was not built.
pub fn serve(addr: &str, args: &[&str]) -> Option<Server> {
    Some(Server::start(example("echo")?, ["serve", addr].iter().chain(args)))
}

/// Runs `echo ARGS` to its end; `None` if the example was not built.
pub fn run(args: &[&str]) -> Option<Ended> {
    Some(Program::start(example("echo")?, args).wait())
}
