//! The example runs to its end and prints what it promises.

#![cfg(target_os = "linux")]

#[path = "../../../tests/common/program.rs"]
mod running;

use running::{Program, find};

#[test]
fn statsd() {
    let Some(example) = find("statsd") else { return };
    let ended = Program::start(example, [""; 0]).wait();
    assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:#?}");
    let sums = ["requests: 20000 of ", "bytes: 30000000 of "];
    assert!(ended.out.iter().zip(sums).all(|(line, sum)| line.starts_with(sum)), "{ended:#?}");
    assert_eq!(ended.out.len(), sums.len());
}
