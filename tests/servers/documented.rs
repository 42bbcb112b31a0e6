//! The servers in the documentation are the ones that the tests attack.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::skip;

/// The loops of the attacked servers.
fn attacked() -> Vec<String> {
    let sources =
        [include_str!("../../examples/server.rs"), include_str!("../../examples/server_tokio.rs")];
    sources.into_iter().flat_map(loops).collect()
}

/// All loops in these lines, without indentation.
fn loops(text: &str) -> Vec<String> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(indent) = line.strip_suffix("loop {").filter(|before| before.trim().is_empty())
        else {
            continue;
        };
        let end = format!("{indent}}}");
        let body = lines[at..].iter().take_while(|line| **line != end);
        found.push(
            body.map(|line| format!("{}\n", line.strip_prefix(indent).unwrap_or(line))).collect(),
        );
    }
    found
}

/// The code in a page, without lines that rustdoc hides and without diffs, whose programs are checked instead.
fn code_in(page: &str) -> String {
    let (mut code, mut inside, mut is_diff) = (String::new(), false, false);
    for line in page.lines() {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            (inside, is_diff) = (!inside, fence == "diff");
        } else if inside && !is_diff && !line.starts_with("# ") && line != "#" {
            code += line;
            code.push('\n');
        }
    }
    code
}

/// A page, or the documentation in a source file's comments.
fn page(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a readable file");
    if path.extension().is_some_and(|extension| extension == "md") {
        return text;
    }
    let comment = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("//!").or(line.strip_prefix("///"))?;
        Some(format!("{}\n", text.strip_prefix(' ').unwrap_or(text)))
    };
    text.lines().filter_map(comment).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the source") {
        let path = entry.expect("an entry of it").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn d3_every_documented_server_is_one_that_is_attacked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !root.join("README.md").is_file() {
        return skip("d3_every_documented_server", "the source is not here");
    }
    let mut pages = vec![root.join("README.md")];
    pages.extend(files(&root.join("docs/guide")));
    pages.extend(files(&root.join("src")));
    // The forwarder of that page has two sockets in its loop.
    let migrated =
        ["std", "tokio"].map(|name| format!("programs/migration/src/bin/{name}_after.rs"));
    let migrated = migrated.iter().filter_map(|path| fs::read_to_string(root.join(path)).ok());
    let attacked = attacked();
    assert_eq!(attacked.len(), 2, "{attacked:#?}");
    let mut shown = 0;
    let documented = pages.iter().map(|path| (code_in(&page(path)), path.display().to_string()));
    for (code, name) in documented.chain(migrated.map(|code| (code, "programs/migration".into()))) {
        // Code that receives batches and sends in a loop is a server. `recv_from` is std's and tokio's.
        let is_server = |code: &String| {
            ["recv_into", "recv_batch", "recv_slices"].iter().any(|call| code.contains(call))
                && ["send", "flush"].iter().any(|call| code.contains(call))
        };
        for server in loops(&code).into_iter().filter(is_server) {
            assert!(attacked.contains(&server), "{name}: not attacked:\n{server}");
            shown += 1;
        }
    }
    // One each in the README, on the crate's page and at `AsyncBatchSocket`.
    assert!(shown >= 3, "{shown} servers in the documentation");
}
