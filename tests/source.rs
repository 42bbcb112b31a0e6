//! The library's source: calls that it must not contain, and pages that must agree with it.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The files in a folder of the source whose names end so, without those that builds leave there.
fn files(folder: impl AsRef<Path>, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new(ROOT).join(folder)).expect("a folder of the source") {
        let path = entry.expect("an entry of it").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && ![".git", "target", "corpus"].contains(&&*name) {
            found.extend(files(&path, end));
        } else if path.is_file() && name.ends_with(end) {
            found.push(path);
        }
    }
    found
}

/// A file of the source. An emulated machine has only the test binary: there this prints what is skipped.
fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(ROOT).join(path)).ok();
    if text.is_none() {
        let _ = writeln!(io::stderr().lock(), "skipped: what {path} says: it is not here");
    }
    text
}

/// The texts of all Rust files in these folders.
fn rust(folders: &[&str]) -> String {
    let all = folders.iter().flat_map(|folder| files(folder, ".rs"));
    all.map(|path| fs::read_to_string(path).expect("a readable file")).collect()
}

/// The words in backticks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// A package holds all that it is built from, and a clone on Windows has no symbolic links.
#[test]
fn files_that_crates_share_are_equal_copies_and_no_links() {
    for (file, crates) in [
        ("convert.rs", &["quinn-udp", "quinn", "noq"][..]),
        ("runtime.rs", &["quinn", "noq"]),
        ("socket.rs", &["quinn", "noq"]),
    ] {
        let paths = crates.iter().map(|name| format!("crates/{name}/src/{file}"));
        let texts: Vec<_> = paths.map_while(|path| Some((read(&path)?, path))).collect();
        for two in texts.windows(2) {
            assert!(two[0].0 == two[1].0, "{} and {} differ: copy one", two[0].1, two[1].1);
        }
    }
    let links: Vec<_> = files("", "").into_iter().filter(|path| path.is_symlink()).collect();
    assert!(links.is_empty(), "{links:?}");
}

/// Some sandboxes kill a process that makes system calls by number, so the library calls functions of the C library.
#[test]
fn system_calls_are_made_by_the_c_library() {
    // Shows that the search covers the right files: this one makes the calls.
    let Some(calls) = read("src/sys/unix/calls.rs") else { return };
    assert!(calls.contains("libc::sendmmsg("));
    let source = rust(&["src"]);
    for line in source.lines() {
        let found = ["syscall(", "SYS_", "__NR_", "asm!"].iter().find(|word| line.contains(*word));
        assert_eq!(found, None, "{line}");
    }
}

/// Each row of the table of faults names tests, and each row of the table of invariants.
#[test]
fn each_test_that_a_table_names_exists() {
    let (Some(faults), Some(page)) = (read("docs/faults.md"), read("ARCHITECTURE.md")) else {
        return;
    };
    let (_, rest) = page.split_once("| invariant | checked").expect("the table");
    let (invariants, _) = rest.split_once("The tests run under").expect("its end");
    let source = rust(&["src", "tests", "crates", "examples", "programs"]);
    for (table, least) in [(&*faults, 50), (invariants, 7)] {
        let mut named = 0;
        for row in table.lines().filter(|line| line.starts_with("| ")) {
            // The names are in the last column; headings and figures have none there. Types have examples that must not
            // compile.
            let tests = row.trim_end_matches(" |").rsplit(" | ").next().expect("a column");
            let is_name = |name: &&str| name.contains('_') && *name != "compile_fail";
            for name in names(tests).filter(is_name) {
                assert!(source.contains(&format!("fn {name}(")), "no test {name}: {row}");
                named += 1;
            }
        }
        assert!(named >= least, "the table has {named} names");
    }
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

/// Each relative link leads to a file and a heading in it. A page that rustdoc shows has no relative links, and only the
/// guide links to items: other pages are read on a forge, too.
#[test]
fn every_link_leads_somewhere() {
    let (guide, mut found) = (Path::new(ROOT).join("src/guide"), 0);
    if read("src/guide/porting.md").is_none() {
        return;
    }
    for page in files("", ".md").into_iter().chain(files("src", ".rs")) {
        let text = fs::read_to_string(&page).expect("a readable page");
        let folder = page.parent().expect("a folder");
        let is_rust = page.extension().is_some_and(|extension| extension == "rs");
        let links_to_items = is_rust || folder == guide;
        let in_rustdoc = folder == guide || page.ends_with("crates/reuseport/README.md");
        // Without code blocks.
        let prose: String = text.split("\n```").step_by(2).collect();
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                _ if path.contains("://") => continue,
                _ if links_to_items && path.starts_with("crate::guide::") && !anchor.is_empty() => {
                    guide.join(path.trim_start_matches("crate::guide::")).with_extension("md")
                }
                // rustdoc checks links to items.
                _ if is_rust
                    || links_to_items && !path.is_empty() && !path.contains(['/', '.']) =>
                {
                    continue;
                }
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
    let (Some(page), Some(script)) = (read("src/guide/platforms.md"), read(".ci/cross")) else {
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

/// Each path in backticks on a page is a file, and each name is a word of the source.
#[test]
fn each_name_on_a_page_exists() {
    /// Of other crates, of the kernel and of other programs.
    const FOREIGN: &str = "IpTos RecvErr ScmRights UdpGsoSegments consume_budget ctrl_c peek_from \
        pps_allowance_exceeded recvmsg_x sendmsg_x vLAST";
    if read("docs/faults.md").is_none() {
        return;
    }
    let files = files("", "");
    let sources = files.iter().filter(|file| file.extension().is_none_or(|end| end != "md"));
    let texts: Vec<_> = sources.filter_map(|file| fs::read_to_string(file).ok()).collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words: HashSet<_> = texts.iter().flat_map(|text| text.split(|c| !is_word(c))).collect();
    words.extend(FOREIGN.split(' '));
    words.extend(files.iter().filter_map(|file| file.file_stem()?.to_str()));
    let is_there = |path: &str| {
        let elsewhere = ["~", "/", "target/"].iter().any(|start| path.starts_with(start));
        let ends_so =
            |file: &PathBuf| file.ends_with(path) || file.with_extension("").ends_with(path);
        let is_folder =
            ["", "src"].iter().any(|base| Path::new(ROOT).join(base).join(path).exists());
        elsewhere || is_folder || files.iter().any(ends_so)
    };
    let (mut missing, mut seen) = (Vec::new(), 0);
    let folders = ["", "docs", "src/guide"].map(|folder| Path::new(ROOT).join(folder));
    let is_page = |page: &&PathBuf| {
        page.extension().is_some_and(|end| end == "md")
            && folders.iter().any(|folder| page.parent() == Some(folder))
    };
    for page in files.iter().filter(is_page) {
        let text = fs::read_to_string(page).expect("a readable page");
        let [prose, code] =
            [0, 1].map(|from| text.split("\n```").skip(from).step_by(2).collect::<String>());
        for name in names(&prose) {
            let has_space = name.contains(' ');
            for part in name.split_whitespace().filter(|part| !part.contains(['*', '<', '=', '…']))
            {
                let path = part.trim_end_matches('/');
                let is_path = path.contains('/')
                    || [".rs", ".md", ".toml", ".sh"].iter().any(|end| path.ends_with(end));
                // Not numbers and flags of C.
                let is_name = !has_space && !path.contains(['-', '.']);
                let is_known = |word: &str| {
                    let is_one = word.trim_end_matches('_').contains('_') || path.contains("::");
                    let is_one = is_one || word.contains(char::is_uppercase);
                    !is_one || words.contains(word) || code.contains(word)
                };
                seen += 1;
                let found = match is_path {
                    true => is_there(path),
                    false if is_name && path.contains(char::is_lowercase) => {
                        path.split(|c| !is_word(c)).all(is_known)
                    }
                    false => true,
                };
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
