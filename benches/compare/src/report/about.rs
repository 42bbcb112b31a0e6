//! On what and when it was measured, as `about.csv` has it.

use super::tables::Measured;

/// Lines of a list.
pub fn lines(measured: &Measured) -> Vec<String> {
    let about = |what: &str| measured.about.get(what).map_or("unknown", String::as_str);
    let rounds = measured.times.values().flat_map(|ways| ways.values()).map(Vec::len).max();
    let packages = about("packages").replace(';', ",");
    let mut lines = vec![
        format!(
            "{} ({} cores), load {} before",
            about("cpu"),
            about("cores"),
            about("load before")
        ),
        format!("Linux {}", about("kernel")),
        format!("commit {}", about("commit")),
        format!("{packages}; {}", about("rustc")),
        format!("{} UTC, {} rounds", about("day"), rounds.unwrap_or(0)),
    ];
    if !measured.xnet.is_empty() {
        lines.insert(4, format!("golang.org/x/net {}; {}", about("x/net"), about("go")));
    }
    if about("extent") != "full" {
        lines.push(format!("**A {} run: figures to look at, not to quote.**", about("extent")));
    }
    lines
}
