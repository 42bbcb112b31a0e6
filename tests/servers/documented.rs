//! The servers in the documentation are the ones that the tests attack.

use std::fs;
use std::path::Path;

use crate::common::skip;

/// The lines of a page without indentation, comment marks and lines that rustdoc hides.
fn lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| line.trim_start_matches([' ', '/', '!']).trim_end());
    lines.filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn every_documented_server_is_one_that_is_attacked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join("README.md").is_file() {
        return skip("every_documented_server", "the source is not here");
    }
    let blocking = include_str!("../../examples/server.rs");
    let tokio = include_str!("../../examples/server_tokio.rs");
    for (server, page) in [
        (blocking, "README.md"),
        (blocking, "src/lib.rs"),
        (blocking, "src/guide/porting.md"),
        (tokio, "src/tokio/socket.rs"),
    ] {
        let from = server.lines().skip_while(|line| line.trim() != "loop {");
        let body: String =
            from.take_while(|line| *line != "    }").flat_map(|l| [l, "\n"]).collect();
        let body = lines(&body);
        assert!(body.len() > 5);
        let text = fs::read_to_string(root.join(page)).expect("a page of the documentation");
        let shown = lines(&text);
        assert!(shown.windows(body.len()).any(|part| part == body), "{page} has another server");
    }
}

/// quinn is no dependency of the guide's examples, so its part is an example of mmsg-quinn.
#[test]
fn the_guide_s_change_for_quinn_is_an_example_of_mmsg_quinn() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(example) = fs::read_to_string(root.join("crates/quinn/src/lib.rs")) else {
        return skip("the_guide_s_change_for_quinn", "the source is not here");
    };
    let page = fs::read_to_string(root.join("src/guide/porting.md")).expect("the page");
    let (_, rest) = page.split_once("```ignore\n").expect("the change");
    let (change, _) = rest.split_once("```").expect("its end");
    let (change, example) = (lines(change), lines(&example));
    assert!(change.len() > 3);
    assert!(example.windows(change.len()).any(|part| part == change), "{change:#?}");
}
