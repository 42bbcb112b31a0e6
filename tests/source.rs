//! The library's source: calls that it must not contain, and pages that must agree with it.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the source") {
        let path = entry.expect("an entry of it").path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Some sandboxes kill a process that makes system calls by number, so the library calls functions of the C library.
#[test]
fn system_calls_are_made_by_the_c_library() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    if !source.is_dir() {
        // An emulated machine has only the test binary.
        let _ = writeln!(io::stderr().lock(), "skipped: the calls: the source is not here");
        return;
    }
    let files = rust_files(&source);
    for path in &files {
        let text = fs::read_to_string(path).expect("a readable file");
        for (number, line) in (1..).zip(text.lines()) {
            let by_number = ["syscall(", "SYS_", "__NR_", "asm!"];
            let found = by_number.iter().find(|word| line.contains(*word));
            assert_eq!(found, None, "{}:{number}: {line}", path.display());
        }
    }
    // Shows that the search covers the right files: this one makes the calls.
    let calls = fs::read_to_string(source.join("sys/unix/calls.rs")).expect("a file of sys/unix");
    assert!(calls.contains("libc::sendmmsg("));
}

/// Each row of the tables of faults names tests that exist.
#[test]
fn every_fault_of_the_table_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(table) = fs::read_to_string(root.join("docs/faults.md")) else {
        let _ = writeln!(io::stderr().lock(), "skipped: the table of faults: it is not here");
        return;
    };
    let mut source = String::new();
    for folder in ["src", "tests", "crates", "examples", "programs"] {
        for path in rust_files(&root.join(folder)) {
            source += &fs::read_to_string(path).expect("a readable file");
        }
    }
    let mut named = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        // The names are in the last column; headings and figures have none there.
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().expect("a column");
        for name in names(tests) {
            assert!(source.contains(&format!("fn {name}(")), "no test {name}: {row}");
            named += 1;
        }
    }
    assert!(named > 50, "the table has {named} names");
}

/// `.ci/suites` checks the other scripts' lists, which name test binaries.
#[test]
fn each_test_that_the_sanitizers_leave_out_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(script) = fs::read_to_string(root.join(".ci/sanitizers")) else {
        let _ = writeln!(io::stderr().lock(), "skipped: the sanitizers: the script is not here");
        return;
    };
    let (_, list) = script.split_once("\nleft_out=(\n").expect("the list");
    let files: Vec<_> =
        rust_files(&root.join("tests")).into_iter().map(fs::read_to_string).collect();
    let words = list.lines().map(str::trim).take_while(|line| *line != ")");
    for name in words.filter(|line| !line.starts_with('#')) {
        // A macro makes the test of each server.
        let name = name.trim_start_matches("survives::");
        let [test, server] = [format!("fn {name}("), format!(" {name}: crate::Server {{")];
        let has_it = |text: &String| text.contains(&test) || text.contains(&server);
        assert!(files.iter().flatten().any(has_it), "no test {name}");
    }
}

/// The text of ARCHITECTURE.md between two headings; `None` where the source is absent.
fn architecture(from: &str, to: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(page) = fs::read_to_string(root.join("ARCHITECTURE.md")) else {
        let _ = writeln!(io::stderr().lock(), "skipped: {from:?}: the page is not here");
        return None;
    };
    let (_, rest) = page.split_once(from).expect("the first heading");
    Some(rest.split_once(to).expect("the second heading").0.to_owned())
}

/// The words in backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn each_invariant_has_its_tests() {
    let Some(table) = architecture("| invariant | checked", "The tests run under") else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["src", "tests"].into_iter().flat_map(|folder| rust_files(&root.join(folder)));
    let source: String =
        files.map(|path| fs::read_to_string(path).expect("a readable file")).collect();
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).collect();
    assert_eq!(rows.len(), 7);
    for row in rows {
        let tests = row.rsplit(" | ").next().expect("a cell");
        // Types in this cell are skipped: their examples must not compile.
        for name in names(tests).filter(|name| name.contains('_') && *name != "compile_fail") {
            assert!(source.contains(&format!("fn {name}(")), "no test {name}: {row}");
        }
    }
}

/// The Markdown pages in a folder, without those that builds and tools leave there.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry of it").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // The parts of the benchmark report have links from where it will stand.
        if path.is_dir() && !name.starts_with('.') && !["target", "report"].contains(&&*name) {
            found.extend(pages(&path));
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found
}

/// The anchors of a page's headings, on docs.rs and on sites that show repositories.
fn anchors(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).expect("a readable page");
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let name = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(name).collect()
}

/// Each relative link leads to a file and a heading in it. A page that rustdoc shows may only link to items.
#[test]
fn every_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = root.join("docs/guide");
    if !guide.is_dir() {
        let _ = writeln!(io::stderr().lock(), "skipped: links: the pages are not here");
        return;
    }
    let mut found = 0;
    for page in pages(root).into_iter().chain(rust_files(&root.join("src"))) {
        let text = fs::read_to_string(&page).expect("a readable page");
        let folder = page.parent().expect("a folder");
        let in_rustdoc = folder == guide || page.ends_with("crates/reuseport/README.md");
        // Without code blocks.
        let prose: String = text.split("\n```").step_by(2).collect();
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                _ if path.contains("://") => continue,
                _ if path.starts_with("crate::guide::") && !anchor.is_empty() => {
                    guide.join(path.trim_start_matches("crate::guide::")).with_extension("md")
                }
                // rustdoc checks links to items.
                _ if page.extension().is_some_and(|extension| extension == "rs") => continue,
                _ if in_rustdoc && !path.contains(['/', '.']) => continue,
                "" => page.clone(),
                _ => folder.join(path),
            };
            let is_relative = target == folder.join(path) && target != page;
            let leads = target.exists() && !(in_rustdoc && is_relative);
            assert!(leads, "{}: {link} leads nowhere", page.display());
            let has_heading =
                anchor.is_empty() || anchors(&target).iter().any(|name| name == anchor);
            assert!(has_heading, "{}: {link} names no heading", page.display());
            found += 1;
        }
    }
    assert!(found > 40, "{found} links");
}

/// "Only built" is a promise: each target of the page is compiled, without the crates that the page names.
#[test]
fn each_target_of_the_page_is_checked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let (Some(page), Some(script)) = (read("docs/platforms.md"), read(".ci/cross")) else {
        let _ = writeln!(io::stderr().lock(), "skipped: targets: the page is not here");
        return;
    };
    let part = |text: &str, from: &str, to: &str| {
        let (_, rest) = text.split_once(from).expect("its beginning");
        rest.split_once(to).expect("its end").0.to_owned()
    };
    let mut listed = Vec::new();
    for row in part(&page, "\n| target |", "\n\n").lines().filter(|row| row.starts_with("| `")) {
        let mut cells = row.split('|').map(|cell| names(cell).collect::<Vec<_>>().join(" "));
        let (target, without) = (cells.nth(1).expect("a target"), cells.nth(2).expect("crates"));
        listed.push((target, without));
    }
    let mut checked: Vec<_> = part(&script, "\ntargets=(\n", "\n)")
        .lines()
        .map(|target| (target.trim().to_owned(), String::new()))
        .collect();
    for line in part(&script, "declare -A stopped=(\n", "\n)").lines() {
        let (target, without) = line.trim().split_once("]=").expect("a target and its crates");
        let target = target.trim_start_matches('[');
        let row = checked.iter_mut().find(|row| row.0 == target).expect("a listed target");
        row.1 = without.split('"').nth(1).expect("names in quotes").to_owned();
    }
    listed.sort();
    checked.sort();
    assert_eq!(listed, checked);
    let libraries = part(&script, "\nlibraries=\"", "\"");
    for name in libraries.split(' ') {
        assert!(page.contains(&format!("`{name}`")), "the page does not name {name}");
    }
}

/// The files of a folder, without those that builds and tools leave there.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry of it").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && ![".git", "target", "corpus"].contains(&&*name) {
            found.extend(sources(&path));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found
}

/// Each name in backticks on a page is a word of the source, each path a file, and each command of cargo names what is there.
#[test]
fn each_name_on_a_page_exists() {
    /// Of other crates, of the kernel and of other programs.
    const FOREIGN: [&str; 10] = [
        "IpTos",
        "ScmRights",
        "UdpGsoSegments",
        "consume_budget",
        "ctrl_c",
        "peek_from",
        "pps_allowance_exceeded",
        "recvmsg_x",
        "sendmsg_x",
        "vLAST",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["", "docs", "docs/guide"].map(|folder| root.join(folder));
    if !folders.iter().all(|folder| folder.is_dir()) {
        let _ = writeln!(io::stderr().lock(), "skipped: names: the pages are not here");
        return;
    }
    let files = sources(root);
    let sources = files.iter().filter(|file| file.extension().is_none_or(|end| end != "md"));
    let texts: Vec<_> = sources.filter_map(|file| fs::read_to_string(file).ok()).collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words: HashSet<_> = texts.iter().flat_map(|text| text.split(|c| !is_word(c))).collect();
    words.extend(FOREIGN);
    words.extend(files.iter().filter_map(|file| file.file_stem()?.to_str()));
    let (mut missing, mut seen) = (Vec::new(), 0);
    for page in folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder")) {
        let page = page.expect("an entry").path();
        if page.extension().is_none_or(|extension| extension != "md")
            || page.ends_with("registry.md")
        {
            continue;
        }
        let text = fs::read_to_string(&page).expect("a readable page");
        let (prose, code): (Vec<_>, Vec<_>) =
            text.split("\n```").enumerate().partition(|(i, _)| i % 2 == 0);
        let code: String = code.into_iter().map(|(_, code)| code).collect();
        let prose: String = prose.into_iter().map(|(_, prose)| prose).collect();
        for name in names(&prose) {
            let is_command = name.contains("cargo ") || name.starts_with(".ci/");
            for part in name.split_whitespace() {
                let path = part.trim_end_matches('/');
                let is_path = path.contains('/')
                    || [".rs", ".md", ".toml", ".sh"].iter().any(|end| path.ends_with(end));
                let elsewhere = ["~", "/", "target/"].iter().any(|start| path.starts_with(start));
                let is_there = |file: &PathBuf| {
                    file.ends_with(path) || file.with_extension("").ends_with(path)
                };
                let found = match () {
                    () if elsewhere || path.contains(['*', '<', '=', '…']) => true,
                    () if is_path => {
                        files.iter().any(is_there)
                            || [root, &root.join("src")].iter().any(|base| base.join(path).exists())
                    }
                    // Another program's options; numbers and flags of C.
                    () if name.contains(' ') && !is_command || path.contains(['-', '.']) => true,
                    () if !path.contains(|c: char| c.is_lowercase()) => true,
                    () => path.split(|c| !is_word(c)).all(|word| {
                        let is_name = word.trim_end_matches('_').contains('_')
                            || word.contains(char::is_uppercase)
                            || path.contains("::");
                        !is_name || words.contains(word) || code.contains(word)
                    }),
                };
                seen += 1;
                if !found {
                    missing.push(format!("{}: `{name}`", page.display()));
                }
            }
        }
    }
    assert!(
        missing.is_empty() && seen > 1_000,
        "of {seen} names, these exist nowhere: {missing:#?}"
    );
}
