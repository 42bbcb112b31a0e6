//! The program `examples/echo`, started and stopped as a user would.
//!
//! `cargo test` builds the example. To run only these tests: `cargo build --example echo && cargo test -p echo --test
//! cli`.

#![cfg(unix)]

mod load;
#[path = "../../../../tests/common/program.rs"]
mod running;
mod serve;
mod wrong;

use running::{Ended, Program, Server, example};

/// Starts `echo serve ADDR ARGS`; `None` if the example was not built.
fn serve(addr: &str, args: &[&str]) -> Option<Server> {
    Some(Server::start(example("echo")?, ["serve", addr].iter().chain(args)))
}

/// Runs `echo ARGS` to its end; `None` if the example was not built.
fn run(args: &[&str]) -> Option<Ended> {
    Some(Program::start(example("echo")?, args).wait())
}

#[test]
fn the_demonstration_ends_by_itself_with_a_table() {
    let Some(ended) = run(&[]) else { return };
    assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:#?}");
    let table: Vec<_> =
        ended.out.iter().skip_while(|line| !line.starts_with("datagrams ")).collect();
    let [heading, std, batches, offload] = table[..] else { panic!("not four: {ended:#?}") };
    assert!(heading.ends_with("lost"), "{heading}");
    assert!(std.starts_with("one at a time (std)"), "{std}");
    assert!(batches.starts_with("in batches (mmsg)"), "{batches}");
    assert!(offload.starts_with("with offload (mmsg)"), "{offload}");
    for row in [std, batches, offload] {
        let (_, figures) = row.split_once(')').expect("a name, then figures");
        let rate = figures.split_whitespace().next().expect("a rate");
        assert!(rate.replace(',', "").parse::<u64>().is_ok_and(|rate| rate > 0), "{row}");
        // Of the server and of the load generator.
        let cpu = figures.matches("ns each").count();
        assert_eq!(cpu, if cfg!(target_os = "linux") { 2 } else { 0 }, "{row}");
    }
}
