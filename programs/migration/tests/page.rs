//! The diffs in the guide's page "migration" are those of these programs, and as short as the page says.

use std::fs;
use std::path::Path;

/// The blocks of the page, without their fences.
fn diffs(page: &str) -> Vec<&str> {
    page.split("```diff\n").skip(1).map(|rest| rest.split("```").next().expect("its end")).collect()
}

/// The lines of a diff that begin with `sign`, without the sign.
fn side(diff: &str, sign: char) -> String {
    let lines =
        diff.lines().skip(2).filter(|line| line.is_empty() || line.starts_with([' ', sign]));
    lines.map(|line| line.get(1..).unwrap_or_default().to_owned() + "\n").collect()
}

#[test]
fn the_page_shows_the_programs_and_the_lines_that_change() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/guide/migration.md")).expect("the page");
    let mut shown = Vec::new();
    for diff in diffs(&page) {
        let name = diff.strip_prefix("--- ").and_then(|rest| rest.split_once("_before.rs\n"));
        let (name, _) = name.expect("a diff begins with its program's name");
        for (sign, time) in [('-', "before"), ('+', "after")] {
            let file = fs::read_to_string(here.join(format!("src/bin/{name}_{time}.rs")));
            assert_eq!(side(diff, sign), file.expect("a program"), "{name} {time}");
        }
        let added = diff.lines().skip(2).filter(|line| line.starts_with('+')).count();
        shown.push((name, added));
    }
    assert_eq!(shown, [("std", 11), ("tokio", 11), ("forwarder", 10), ("quinn", 3)]);
}
