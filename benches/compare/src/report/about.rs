//! The machine, the versions and the date of a run.

use std::fs;
use std::process::Command;

use super::tables::Measured;

/// Lines of a list. No name of the machine, and no path on it.
pub fn lines(measured: &Measured) -> Vec<String> {
    let about = |what: &str| measured.about.get(what).map_or("unknown", String::as_str);
    let day = said_by("date", &["-u", "-d", &format!("@{}", about("seconds")), "+%F"]);
    let lock = fs::read_to_string("Cargo.lock").unwrap_or_default();
    let names = ["mmsg", "nix", "quinn-udp", "tokio", "libc"];
    let versions: Vec<_> =
        names.iter().map(|name| format!("{name} {}", version(&lock, name))).collect();
    let rounds = measured.times.values().flat_map(|ways| ways.values()).map(Vec::len).max();
    let mut lines = vec![
        format!(
            "{} ({} cores), load {} before",
            about("cpu"),
            about("cores"),
            about("load before")
        ),
        format!("Linux {}", about("kernel")),
        format!("{}; {}", versions.join(", "), said_by("rustc", &["--version"])),
        format!("{} UTC, {} rounds", day, rounds.unwrap_or(0)),
    ];
    if !measured.xnet.is_empty() {
        let module = fs::read_to_string("benches/compare/xnet/go.mod").unwrap_or_default();
        let net = module.lines().find_map(|line| line.split_once("golang.org/x/net "));
        let net = net.map_or("unknown", |(_, version)| version);
        lines.insert(3, format!("golang.org/x/net {net}; {}", said_by("go", &["version"])));
    }
    if about("extent") != "full" {
        lines.push(format!("**A {} run: figures to look at, not to quote.**", about("extent")));
    }
    lines
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    said.unwrap_or_else(|_| format!("{program} of unknown version"))
}

/// The latest version of a package in the lock file. An older one is another dependency's.
fn version(lock: &str, name: &str) -> String {
    let key = |version: &str| -> Vec<u64> {
        version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    let after =
        |name_line: &str| lock.split(name_line).skip(1).map(String::from).collect::<Vec<_>>();
    let found = after(&format!("name = \"{name}\"\nversion = \""));
    let versions = found.iter().filter_map(|rest| rest.split('"').next());
    versions.max_by_key(|version| key(version)).unwrap_or("unknown").to_string()
}
