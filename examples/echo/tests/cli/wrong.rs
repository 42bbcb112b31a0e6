//! Requests that cannot be met print one line on standard error, with status 2.

use crate::run;

#[test]
fn errors_are_one_line() {
    let wrong: [&[&str]; 31] = [
        &["serve"],
        &["serve", ""],
        &["serve", "nonsense"],
        &["serve", "127.0.0.1"],
        &["serve", "127.0.0.1:65536"],
        &["serve", "::1:7777"],
        &["serve", "127.0.0.1:0", "--batch", "0"],
        &["serve", "127.0.0.1:0", "--batch", "1025"],
        &["serve", "127.0.0.1:0", "--threads", "0"],
        &["serve", "127.0.0.1:0", "--threads", "-1"],
        &["serve", "127.0.0.1:0", "--mode", "fast"],
        &["serve", "127.0.0.1:0", "127.0.0.1:0"],
        &["serve", "127.0.0.1:0", "--no-gso"],
        &["serve", "127.0.0.1:0", "--no-gro", "--mode", "batch"],
        &["serve", "127.0.0.1:0", "--no-gso", "--no-gro", "--mode", "std"],
        &["serve", "127.0.0.1:0", "--mode", "offload", "--no-gso=yes"],
        &["load"],
        &["load", "localhost"],
        &["load", "127.0.0.1:0"],
        &["load", "127.0.0.1:7777", "--size", "65508"],
        &["load", "127.0.0.1:7777", "--size", "7"],
        &["load", "127.0.0.1:7777", "--size", "99999999999999999999"],
        &["load", "127.0.0.1:7777", "--window", "0"],
        &["load", "127.0.0.1:7777", "--seconds", "0"],
        &["load", "127.0.0.1:7777", "--seconds", "-1"],
        &["load", "127.0.0.1:7777", "--seconds", "NaN"],
        &["load", "127.0.0.1:7777", "--mode", "fast"],
        &["load", "127.0.0.1:7777", "--no-gso"],
        &["load", "127.0.0.1:7777", "--mode", "std", "--no-gro"],
        &["dance"],
        &["--fast"],
    ];
    for args in wrong {
        let Some(ended) = run(args) else { return };
        assert_eq!(
            (ended.status, ended.err.len(), ended.out.len()),
            (Some(2), 1, 0),
            "{args:?} {ended:#?}"
        );
        let said = &ended.err[0];
        assert!(said.starts_with("error: ") && !said.contains("panicked"), "{args:?}: {said}");
    }
}

#[test]
fn an_error_names_the_size_that_is_too_large() {
    let Some(ended) = run(&["load", "127.0.0.1:7777", "--size", "65508"]) else { return };
    assert!(ended.err[0].contains("65508 is not in 8..=65507"), "{ended:?}");
}

#[test]
fn switches_of_offload_need_mode_offload() {
    for command in ["serve", "load"] {
        let Some(ended) = run(&[command, "127.0.0.1:7777", "--no-gro"]) else { return };
        let said = "error: --no-gso and --no-gro need --mode offload (see --help)";
        assert_eq!(ended.err, [said]);
    }
}

#[test]
fn help_is_no_error() {
    for args in [&["--help"][..], &["serve", "--help"], &["load", "-h"], &["--version"]] {
        let Some(ended) = run(args) else { return };
        assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{args:?} {ended:#?}");
        assert!(!ended.out.is_empty(), "{args:?}");
    }
}
