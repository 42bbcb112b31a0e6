//! `about.csv`: machine, versions and date, so that the tables alone make a page.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Extent;

/// Packages whose versions a page shows.
const PACKAGES: [&str; 5] = ["mmsg", "nix", "quinn-udp", "tokio", "libc"];

/// Writes `about.csv`. It holds neither the machine's name nor a path.
pub fn write(folder: &Path, extent: Extent) -> io::Result<()> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let day = said_by("date", &["-u", "-d", &format!("@{seconds}"), "+%F"]);
    let load = read("/proc/loadavg");
    let lock = read("Cargo.lock");
    let packages = PACKAGES.map(|name| format!("{name} {}", version(&lock, name)));
    let go_module = read("benches/compare/xnet/go.mod");
    let xnet = go_module.lines().find_map(|line| line.split_once("golang.org/x/net "));
    let facts = [
        (
            "commit",
            said_by("git", &["describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]),
        ),
        ("cpu", model.map_or("unknown", |(_, model)| model.trim()).to_string()),
        ("cores", cores.to_string()),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_string()),
        ("day", day),
        ("load before", load.split(' ').next().unwrap_or("unknown").to_string()),
        ("packages", packages.join("; ")),
        ("rustc", said_by("rustc", &["--version"])),
        ("x/net", xnet.map_or("unknown", |(_, version)| version).to_string()),
        ("go", said_by("go", &["version"])),
        ("extent", format!("{extent:?}").to_lowercase()),
    ];
    let mut about = File::create(folder.join("about.csv"))?;
    writeln!(about, "what,value")?;
    // A comma would start another field.
    facts.iter().try_for_each(|(what, value)| writeln!(about, "{what},{}", value.replace(',', " ")))
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let said = output.ok().filter(|output| output.status.success());
    said.map_or_else(
        || format!("{program} unknown"),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_string(),
    )
}

/// The latest version of a package in the lock file. An older one belongs to another dependency.
fn version(lock: &str, name: &str) -> String {
    let key = |version: &str| -> Vec<u64> {
        version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    let name_line = format!("name = \"{name}\"\nversion = \"");
    let versions = lock.split(&name_line).skip(1).filter_map(|rest| rest.split('"').next());
    versions.max_by_key(|version| key(version)).unwrap_or("unknown").to_string()
}
