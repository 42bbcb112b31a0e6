//! The example runs to its end and prints what it promises.

#![cfg(target_os = "linux")]

#[path = "../../../tests/common/program.rs"]
mod running;

use running::{Program, find};

#[test]
fn statsd() {
    let Some(example) = find("statsd") else { return };
    let ended = Program::start(example, [""; 0]).wait();
    assert_eq!(ended.status, Some(0), "{ended:#?}");
    // Said once.
    assert_eq!(ended.err, ["datagrams of more than 1500 bytes are dropped"]);
    let sums = ["requests: 20000 of ", "bytes: 30000000 of ", "dropped: 1 datagrams, 0 lines"];
    assert!(ended.out.iter().zip(sums).all(|(line, sum)| line.starts_with(sum)), "{ended:#?}");
    assert_eq!(ended.out.len(), sums.len());
}
