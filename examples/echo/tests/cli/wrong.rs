//! Requests that cannot be met print one line on standard error, with status 2.

use crate::run;

#[test]
fn errors_are_one_line() {
    const OFFLOAD: &str = "--no-gso and --no-gro need --mode offload (see --help)";
    let (at, to) = ("127.0.0.1:0", "127.0.0.1:7777");
    let wrong: [(&[&str], &str); 20] = [
        (&["serve"], "<ADDR>"),
        (&["serve", "nonsense"], "nonsense"),
        (&["serve", "127.0.0.1"], "127.0.0.1"),
        (&["serve", at, "--batch", "0"], "0 is not in"),
        (&["serve", at, "--batch", "1025"], "1025 is not in"),
        (&["serve", at, "--threads", "0"], "0 is not in"),
        (&["serve", at, "--mode", "fast"], "fast"),
        (&["serve", at, "--no-gso"], OFFLOAD),
        (&["serve", at, "--no-gro", "--mode", "batch"], OFFLOAD),
        (&["serve", at, "--no-gso", "--no-gro", "--mode", "std"], OFFLOAD),
        (&["load", "localhost"], "localhost"),
        (&["load", at], "the port is 0"),
        (&["load", to, "--size", "65508"], "65508 is not in 8..=65507"),
        (&["load", to, "--size", "7"], "7 is not in 8..=65507"),
        (&["load", to, "--window", "0"], "0 is not in"),
        (&["load", to, "--seconds", "0"], "not a number of seconds"),
        (&["load", to, "--seconds", "NaN"], "not a number of seconds"),
        (&["load", to, "--no-gso"], OFFLOAD),
        (&["load", to, "--mode", "std", "--no-gro"], OFFLOAD),
        (&["dance"], "dance"),
    ];
    for (args, what) in wrong {
        let Some(ended) = run(args) else { return };
        assert_eq!(
            (ended.status, ended.err.len(), ended.out.len()),
            (Some(2), 1, 0),
            "{args:?} {ended:#?}"
        );
        let said = &ended.err[0];
        let is_plain = said.starts_with("error: ") && !said.contains("panicked");
        assert!(is_plain && said.contains(what), "{args:?}: {said}");
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
