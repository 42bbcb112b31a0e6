//! The short page.

use super::goals::Goal;
use super::loads::{self, Row, SHOWN};
use super::markdown::{about, figure, or_dash, table};
use super::tables::Measured;

pub fn text(measured: &Measured, goals: &[Goal]) -> String {
    let mut page = include_str!("page.md").replace("VERSION", measured.version());
    let rows = loads::one_thread(measured).into_iter().chain(loads::echo(measured));
    let rows = rows.map(|Row { name, by_std, speed_ups }| {
        let by_std = or_dash(by_std, figure);
        let speed_ups = speed_ups.into_iter().map(|times| or_dash(times, figure));
        [name.join(", "), by_std].into_iter().chain(speed_ups).collect()
    });
    let head: Vec<_> =
        ["load", "std, ns"].into_iter().chain(SHOWN.map(|(_, label)| label)).collect();
    let caption =
        "CPU time of std in nanoseconds per datagram, and how many times as fast the others are";
    table(&mut page, caption, &head, rows);
    page.push_str(include_str!("loads.md"));

    let rows = goals.iter().map(|goal| {
        let worst = goal.worst.as_ref().filter(|(ratio, _)| *ratio > 0.0);
        let ratio = or_dash(worst.map(|(ratio, _)| *ratio), |ratio| format!("{ratio:.2}"));
        let load = worst.map_or("–".into(), |(_, load)| load.clone());
        vec![goal.says.clone(), format!("{} of {}", goal.met, goal.of), ratio, load]
    });
    let head = ["goal", "met", "worst ratio", "worst load"];
    table(&mut page, "Comparisons that meet each goal, and the worst ratio", &head, rows);
    page.push_str(include_str!("notes.md"));
    page.push_str(&about(measured));
    page
}
