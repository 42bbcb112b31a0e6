//! The library's source: calls that it must not contain, and tables that name its tests.

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

/// Some sandboxes end a process that makes system calls by their numbers, so the library makes
/// them by the C library's functions.
#[test]
fn p1_system_calls_are_made_by_the_c_library() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    if !source.is_dir() {
        // An emulated machine has the test binary alone.
        let _ = writeln!(io::stderr().lock(), "skipped: p1: the source is not here");
        return;
    }
    let files = rust_files(&source);
    for path in &files {
        let text = fs::read_to_string(path).expect("a readable file");
        for (number, line) in (1..).zip(text.lines()) {
            let by_number = ["syscall(", "SYS_", "__NR_", "asm!"];
            // The C library has no function for it; Android, whose sandbox is meant, does not make it.
            if line.contains("libc::syscall(libc::SYS_membarrier, ") {
                continue;
            }
            let found = by_number.iter().find(|word| line.contains(*word));
            assert_eq!(found, None, "{}:{number}: {line}", path.display());
        }
    }
    // The search covered the right files: these make the calls.
    for (file, call) in [("mmsg.rs", "calls::sendmmsg("), ("msg.rs", "libc::sendmsg(")] {
        let text =
            fs::read_to_string(source.join("sys/unix").join(file)).expect("a file of sys/unix");
        assert!(text.contains(call), "{file} makes the call {call}...)");
    }
}

/// A row of the table of faults names its tests, and each of these is there. A name that ends in `*`
/// is the beginning of some.
#[test]
fn every_fault_of_the_table_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(table) = fs::read_to_string(root.join("docs/faults.md")) else {
        let _ = writeln!(io::stderr().lock(), "skipped: the table of faults: it is not here");
        return;
    };
    let mut source = String::new();
    for folder in ["src", "tests"] {
        for path in rust_files(&root.join(folder)) {
            source += &fs::read_to_string(path).expect("a readable file");
        }
    }
    let mut named = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        // The last column; headings and figures have no names in it.
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().expect("a column");
        for name in tests.split('`').skip(1).step_by(2) {
            let wanted = match name.strip_suffix('*') {
                Some(beginning) => format!("fn {beginning}"),
                None => format!("fn {name}("),
            };
            assert!(source.contains(&wanted), "no test {name}: {row}");
            named += 1;
        }
    }
    assert!(named > 50, "the table has {named} names");
    // Every error number that the scripted backend gives has a row.
    let errnos = fs::read_to_string(root.join("src/tests/model/errnos.rs")).expect("the list");
    for errno in errnos.lines().filter_map(|line| line.trim().strip_prefix("libc::")) {
        let errno = errno.trim_end_matches(',');
        assert!(table.contains(&format!("`{errno}`")), "no row for {errno}");
    }
}

/// What is not compiled for Windows is named in `docs/windows.md`: test binaries, modules of the suites, tests.
#[test]
fn every_test_that_windows_lacks_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Ok(page) = fs::read_to_string(root.join("docs/windows.md")) else {
        let _ =
            writeln!(io::stderr().lock(), "skipped: the tests of Windows: the page is not here");
        return;
    };
    let tests = root.join("tests");
    let mut gated = Vec::new();
    for path in rust_files(&tests) {
        let relative = path.strip_prefix(&tests).expect("it is in there").with_extension("");
        let mut parts = relative.iter().map(|part| part.to_string_lossy());
        let folder = parts.next().expect("a name").into_owned();
        if ["common", "source"].contains(&&*folder) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a readable file");
        let is_gate = |line: &str| {
            let condition = line.split_once("[cfg(").map_or("", |(_, condition)| condition);
            ["unix", "target_os", "any(", "all(target_os"].iter().any(|c| condition.starts_with(c))
                && !line.contains("windows")
        };
        if text.lines().any(|line| line.starts_with("#![") && is_gate(line)) {
            gated.push(folder);
            continue;
        }
        let mut under_gate = false;
        for line in text.lines() {
            let name = |after: &str| {
                let rest = line.strip_prefix(after)?;
                Some(rest.split(['(', ';', '<', ' ']).next().expect("a name").to_owned())
            };
            if line.starts_with("#[cfg(") {
                under_gate = is_gate(line);
            } else if let Some(module) = name("mod ").filter(|_| under_gate) {
                // What a module shares with another binary is no test.
                gated.extend(
                    (!["kit", "seccomp", "veth"].contains(&&*module))
                        .then(|| format!("{folder}/{module}")),
                );
            } else if line.starts_with("#[test]") {
                continue;
            } else if let Some(test) = name("fn ").filter(|_| under_gate) {
                let is_test = text.contains(&format!("#[test]\nfn {test}("));
                gated.extend(is_test.then_some(test));
            }
            under_gate &= line.starts_with('#') || line.starts_with("///");
        }
    }
    assert!(gated.len() > 40, "{} found", gated.len());
    for name in gated {
        assert!(page.contains(&format!("`{name}`")), "docs/windows.md does not name {name}");
    }
}
