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
    let server = include_str!("../../examples/server.rs");
    for page in ["README.md", "src/lib.rs"] {
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
