//! Tables and figures in Markdown.

use std::fmt::Write;

use super::tables::Measured;

/// A table with its caption. Aligns the first column and the worst load as text, the others as numbers.
pub fn table<S: AsRef<str>>(
    caption: &str,
    head: &[S],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let head: Vec<_> = head.iter().map(AsRef::as_ref).collect();
    let is_text = |name: &str| name == head[0] || name == "worst load";
    let rule = head.iter().map(|name| if is_text(name) { "---|" } else { "---:|" });
    let rule: String = rule.collect();
    let mut table = format!("{caption}:\n\n| {} |\n|{rule}\n", head.join(" | "));
    for row in rows {
        let _ = writeln!(table, "| {} |", row.join(" | "));
    }
    table
}

/// 1234.0 as "1,234"; values under 10 with a decimal.
pub fn figure(value: f64) -> String {
    if value < 9.95 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `None` as a dash.
pub fn or_dash(value: Option<f64>, figure: impl Fn(f64) -> String) -> String {
    value.map_or("–".into(), figure)
}

/// The machine, versions and date of the run, as a list.
pub fn about(measured: &Measured) -> String {
    let about = |what| measured.about(what);
    let rounds = measured.times.values().flat_map(|ways| ways.values()).map(Vec::len).max();
    let mut lines = format!(
        "- {} ({} cores), Linux {}, load average {} before\n- commit {}, {} UTC, {} rounds\n- {}; {}\n",
        about("cpu"),
        about("cores"),
        about("kernel"),
        about("load before"),
        about("commit"),
        about("day"),
        rounds.unwrap_or(0),
        about("packages").replace(';', ","),
        about("rustc"),
    );
    if !measured.xnet.is_empty() {
        let _ = writeln!(lines, "- golang.org/x/net {}; {}", about("x/net"), about("go"));
    }
    if about("extent") != "full" {
        let _ = writeln!(lines, "- **A {} run: do not quote its figures.**", about("extent"));
    }
    lines
}
