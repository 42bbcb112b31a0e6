//! Each server answers its client.

#![cfg(unix)]

use std::process::Command;

#[track_caller]
fn assert_echoes(program: &str) {
    let output = Command::new(program).output().expect("it was built");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1000 echoes\n");
}

#[test]
fn async_io() {
    assert_echoes(env!("CARGO_BIN_EXE_async_io"));
}

#[test]
fn compio() {
    assert_echoes(env!("CARGO_BIN_EXE_compio"));
}

#[test]
fn epoll() {
    assert_echoes(env!("CARGO_BIN_EXE_epoll"));
}

#[test]
fn mio() {
    assert_echoes(env!("CARGO_BIN_EXE_mio"));
}
