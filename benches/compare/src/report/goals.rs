//! The goals of the comparison, and how often they are missed.

use super::tables::{Measured, ratio};
use crate::load::Load;

/// Ratios nearer to 1 than this are ties.
const TIE: f64 = 0.03;

/// A goal, and how many of its ratios meet it.
pub struct Goal {
    pub says: String,
    /// The highest ratio that meets it.
    limit: f64,
    pub met: usize,
    pub of: usize,
    /// The worst ratio, and its load.
    pub worst: Option<(f64, String)>,
}

impl Goal {
    fn new(says: impl Into<String>, limit: f64) -> Self {
        Self { says: says.into(), limit, met: 0, of: 0, worst: None }
    }

    fn see(&mut self, ratio: Option<f64>, load: String) {
        let Some(ratio) = ratio else { return };
        self.of += 1;
        self.met += usize::from(ratio <= self.limit);
        if self.worst.as_ref().is_none_or(|(worst, _)| ratio > *worst) {
            self.worst = Some((ratio, load));
        }
    }
}

/// All goals with at least one measured ratio.
pub fn judged(measured: &Measured) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut time = |says: String, ours: &[&str], theirs| {
        let mut goal = Goal::new(says, 1.0 + TIE);
        for (load, rounds) in &measured.times {
            for way in ours {
                let words = way.trim_start_matches("mmsg ");
                goal.see(ratio(rounds, way, theirs), format!("{words}, {}", title(load)));
            }
        }
        goals.push(goal);
    };
    for theirs in ["std", "nix", "quinn-udp", "raw"] {
        let says = format!("no slower than {}", theirs.replace("raw", "raw system calls"));
        time(says, &["mmsg RecvMsg", "mmsg RecvBatch"], theirs);
    }
    let says = "with `Offload`, no slower than quinn-udp with GSO".into();
    time(says, &["mmsg Offload", "mmsg segments"], "quinn-udp GSO");
    let says = "the same from separate payloads, which quinn-udp's caller copies together".into();
    time(says, &["mmsg list", "mmsg send_each", "mmsg queue", "mmsg gathered"], "quinn-udp copied");

    let mut xnet = Goal::new("at most 0.70 of golang.org/x/net's time", 0.70);
    for row in &measured.xnet {
        if ["mmsg RecvMsg", "mmsg RecvBatch"].contains(&&*row.way) {
            let words = row.way.trim_start_matches("mmsg ");
            xnet.see(Some(row.ratio), format!("{words}, batch of {}, 15 B", row.batch));
        }
    }
    let mut allocations = Goal::new("no allocation", 0.0);
    for (load, ways) in &measured.allocations {
        for (way, n) in ways.iter().filter(|(way, _)| way.starts_with("mmsg")) {
            allocations.see(Some(*n), format!("{way}, {}", title(load)));
        }
    }
    goals.extend([xnet, allocations]);
    goals.retain(|goal| goal.of > 0);
    goals
}

/// The load in words.
fn title(load: &Load) -> String {
    let Load { metadata, workload, payload, dests, each, slots, .. } = load;
    let meta = if *metadata { ", ECN and destination" } else { "" };
    match *workload {
        "bulk" => format!("bulk, {payload} B{meta}"),
        "fan-out" => format!("fan-out, {dests} x {each}, {payload} B{meta}"),
        "idle" => format!("{each} waiting of {slots}, {payload} B{meta}"),
        _ => format!("batch of {each}, {payload} B{meta}"),
    }
}
