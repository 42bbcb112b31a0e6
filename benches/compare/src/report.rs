//! Writes the page about a run, with its charts.

mod charts;
mod goals;
mod tables;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use goals::Goal;
use tables::{Measured, Row, SHOWN, loads};

/// Writes `benchmarks.md` and its charts.
pub fn write(from: &Path, to: &Path) -> io::Result<()> {
    let measured = Measured::read(from)?;
    let goals = goals::judged(&measured);
    fs::create_dir_all(to)?;
    for (file, chart) in charts::all(&measured)? {
        fs::write(to.join(file), chart)?;
    }
    fs::write(to.join("benchmarks.md"), text(&measured, &goals))?;
    println!("wrote benchmarks.md and its charts");
    // The figures of a test run mean nothing.
    if measured.about("extent") != "test" {
        for goal in goals.iter().filter(|goal| goal.met < goal.of) {
            println!("missed in {} of {}: {}", goal.of - goal.met, goal.of, goal.says);
        }
    }
    Ok(())
}

/// The page with this run's tables in place of the last run's. Its text stands in the page itself.
fn text(measured: &Measured, goals: &[Goal]) -> String {
    let mut page = include_str!("../../../docs/benchmarks.md").to_string();
    let rows = loads(measured).into_iter().map(|Row { name, by_std, speed_ups }| {
        let by_std = or_dash(by_std, figure);
        let speed_ups = speed_ups.into_iter().map(|times| or_dash(times, figure));
        [name.to_string(), by_std].into_iter().chain(speed_ups).collect()
    });
    let head: Vec<_> =
        ["load", "std, ns"].into_iter().chain(SHOWN.map(|(_, label)| label)).collect();
    let caption =
        "CPU time of std in nanoseconds per datagram, and how many times as fast the others are";
    fill(&mut page, "speed", &table(caption, &head, rows));

    let rows = goals.iter().map(|goal| {
        let worst = goal.worst.as_ref().filter(|(ratio, _)| *ratio > 0.0);
        let ratio = or_dash(worst.map(|(ratio, _)| *ratio), |ratio| format!("{ratio:.2}"));
        let load = worst.map_or("–".into(), |(_, load)| load.clone());
        vec![goal.says.clone(), format!("{} of {}", goal.met, goal.of), ratio, load]
    });
    let head = ["goal", "met", "worst ratio", "worst load"];
    let caption = "Comparisons that meet each goal, and the worst ratio";
    fill(&mut page, "goals", &table(caption, &head, rows));
    fill(&mut page, "tokio", &echoed(measured));
    fill(&mut page, "run", &about(measured));
    page
}

/// Puts a part of the page between its two marks.
fn fill(page: &mut String, name: &str, part: &str) {
    let [first, last] = ["", "/"].map(|end| format!("<!-- {end}{name} -->"));
    let start = page.find(&first).expect("a mark of the page") + first.len();
    let end = start + page[start..].find(&last).expect("a mark after it");
    page.replace_range(start..end, &format!("\n\n{part}\n"));
}

/// Echo servers: a row for each load, which begins with the server that the others are compared with.
fn echoed(measured: &Measured) -> String {
    let mut ways: Vec<&str> = Vec::new();
    let mut loads: Vec<(String, &str, BTreeMap<&str, String>)> = Vec::new();
    for row in &measured.echo {
        let [runtime, load, way, ns, _calls, low, ratio, high] = &row[..] else {
            panic!("{row:?} has eight fields")
        };
        let load = format!("{runtime}, {load}");
        match loads.last_mut() {
            Some((same, _, others)) if *same == load => {
                let [from, to] = [low, high].map(|end| end.parse::<f64>().expect("a ratio"));
                // Two modes, as where the scheduler wakes both ends on one CPU or on two, have no median.
                let cell = match to / from > 1.5 {
                    true => format!("{low} or {high}"),
                    false => format!("{ratio} ({low} to {high})"),
                };
                others.insert(way, cell);
                if !ways.contains(&&**way) {
                    ways.push(way);
                }
            }
            _ => loads.push((load, ns, BTreeMap::new())),
        }
    }
    let rows = loads.iter().map(|(load, ns, others)| {
        let others = ways.iter().map(|way| others.get(way).map_or("–".into(), String::clone));
        [load.clone(), ns.to_string()].into_iter().chain(others).collect()
    });
    let head: Vec<_> = ["load", "first, ns"].into_iter().chain(ways.iter().copied()).collect();
    let caption = "The first server's CPU time per datagram, and the ratio of the others' to it: the median with its \
                   quartiles, or these alone where they are far apart";
    table(caption, &head, rows)
}

/// A table with its caption. Aligns the first column and the worst load as text, the others as numbers.
fn table<S: AsRef<str>>(
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
fn figure(value: f64) -> String {
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
fn or_dash(value: Option<f64>, figure: impl Fn(f64) -> String) -> String {
    value.map_or("–".into(), figure)
}

/// The machine, versions and date of the run, as a list.
fn about(measured: &Measured) -> String {
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
