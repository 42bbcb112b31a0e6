//! dnsperf sends many queries at once, each of which must be answered.

use std::fs;
use std::path::PathBuf;

use crate::MODES;
use crate::program::{run, serve};

/// The value in a line of dnsperf's report.
fn said<'a>(report: &'a str, what: &str) -> &'a str {
    let line = report.lines().find_map(|line| line.trim().strip_prefix(what));
    line.unwrap_or_else(|| panic!("no {what} in {report}")).trim()
}

/// A file that is deleted when the test ends.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn no_query_is_lost_below_saturation() {
    let questions = [
        "www.example.test A",
        "www.example.test AAAA",
        "files.example.test A",
        "a.any.example.test TXT",
        "big.example.test TXT",
        "missing.example.test A",
        "x.child.example.test A",
        "mail.example.test MX",
    ];
    let name = format!("mmsg-dns-queries-{}", std::process::id());
    let file = Removed(std::env::temp_dir().join(name));
    fs::write(&file.0, questions.join("\n")).expect("a temporary file");
    let path = file.0.to_str().expect("a plain path");
    for mode in MODES {
        for threads in ["1", "2"] {
            let args = ["--mode", mode, "--threads", threads];
            let server = serve("127.0.0.1:0", &args);
            let port = server.addr.port().to_string();
            // Each question a thousand times, at a rate that any machine can keep up with.
            let args =
                ["-s", "127.0.0.1", "-p", &port, "-d", path, "-n", "1000", "-c", "8", "-Q", "8000"];
            let Some(output) = run("dnsperf", &[&args[..], &["-q", "200", "-t", "100"]].concat())
            else {
                return;
            };
            let report = String::from_utf8(output.stdout).expect("text");
            assert_eq!(said(&report, "Queries sent:"), "8000", "{mode}, {threads}");
            assert_eq!(said(&report, "Queries completed:"), "8000 (100.00%)", "{mode}, {threads}");
            let codes = said(&report, "Response codes:");
            assert_eq!(codes, "NOERROR 7000 (87.50%), NXDOMAIN 1000 (12.50%)", "{mode}, {threads}");
            assert_eq!(
                server.stop(),
                [
                    "total: received 8000, answered 8000, failed 0, dropped by the system 0, by TCP 0"
                ]
            );
        }
    }
}
