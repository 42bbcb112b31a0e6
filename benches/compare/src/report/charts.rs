//! The charts, as SVG. Each has a background of its own: it reads the same on a light and on a dark page.

use std::fmt::Write;

use super::loads::{self, SHOWN};
use super::markdown::figure;
use super::tables::{Measured, middle};

/// Width and height, and the edges of the plot.
const SIZE: [f64; 2] = [920.0, 460.0];
const LEFT: f64 = 84.0;
const RIGHT: f64 = 900.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 400.0;
const PAPER: &str = "#fafaf7";
const INK: &str = "#282c34";
const RULE: &str = "#dededa";

/// Colours that most colour-blind people can tell apart; ours are the blue ones.
fn colour(way: &str) -> &'static str {
    match way {
        "std" => "#787878",
        "tokio" => "#009e73",
        "nix" => "#cc79a7",
        "quinn-udp" => "#e69f00",
        "quinn-udp GSO" => "#d55e00",
        "mmsg Offload" => "#003e74",
        _ => "#0080be",
    }
}

/// The charts by the names of their files.
pub fn all(measured: &Measured) -> [(&'static str, String); 3] {
    [
        ("ns-per-datagram.svg", over_batch(measured)),
        ("speed-up.svg", speed_up(measured)),
        ("echo.svg", echo(measured)),
    ]
}

/// CPU time per datagram over the size of the batch, both logarithmic.
fn over_batch(measured: &Measured) -> String {
    let ways = [[("std", "std")].as_slice(), &SHOWN].concat();
    let loads = measured
        .times
        .iter()
        .filter(|(load, _)| (load.workload, load.payload, load.metadata) == ("batch", 1200, false));
    let loads: Vec<_> = loads.map(|(load, rounds)| (load.each, rounds)).collect();
    let mut chart = Chart::new(
        "CPU time to send and receive a datagram of 1,200 bytes over loopback (logarithmic)",
        &ways,
    );
    let times =
        loads.iter().flat_map(|(_, rounds)| ways.iter().map(|(way, _)| middle(rounds, way)));
    let scale = Scale::log(times.flatten());
    chart.values(&scale, "ns per datagram");
    let last = loads.len().saturating_sub(1).max(1) as f64;
    let x = |i: usize| LEFT + 20.0 + i as f64 / last * (RIGHT - LEFT - 40.0);
    for (i, (each, _)) in loads.iter().enumerate() {
        chart.text([x(i), BOTTOM + 20.0], 14, "middle", &each.to_string());
    }
    chart.text([(LEFT + RIGHT) / 2.0, BOTTOM + 44.0], 15, "middle", "datagrams per batch");
    for (way, _) in ways {
        let points = loads.iter().enumerate();
        let points =
            points.filter_map(|(i, (_, rounds))| Some((x(i), scale.y(middle(rounds, way)?))));
        chart.line(points, colour(way));
    }
    chart.done()
}

/// How many times as fast as std, by load.
fn speed_up(measured: &Measured) -> String {
    let mut chart = Chart::new("How many times as fast as std, by load (logarithmic)", &SHOWN);
    let rows = loads::one_thread(measured);
    let groups: Vec<_> = rows.into_iter().map(|row| (row.name, row.speed_ups)).collect();
    let scale = Scale::log(groups.iter().flat_map(|(_, speed_ups)| speed_ups).copied().flatten());
    chart.values(&scale, "speed-up over std");
    chart.bars(&groups, &SHOWN, &scale, 1.0);
    chart.done()
}

/// The datagrams that single-threaded echo servers return per second of CPU time.
fn echo(measured: &Measured) -> String {
    let ways = [
        ("std", "std"),
        ("tokio", "tokio"),
        ("mmsg", "mmsg"),
        ("mmsg Offload", "mmsg with Offload"),
    ];
    let groups =
        measured.echo.iter().filter(|(echo, _)| echo.threads == 1).map(|(echo, rounds)| {
            let load = if echo.load == "GSO" { "GSO batches" } else { "single datagrams" };
            let net = if echo.net == "veth" { "virtual Ethernet" } else { "loopback" };
            ([load, net], ways.map(|(way, _)| Some(middle(rounds, way)? / 1e3)).to_vec())
        });
    let mut groups: Vec<_> = groups.collect();
    groups.sort_by_key(|([load, net], _)| (*load == "GSO batches", *net));
    let all = groups.iter().flat_map(|(_, rates)| rates).flatten();
    let high = all.fold(1.0, |high, rate| rate.max(high)) * 1.1;
    let mut chart =
        Chart::new("Datagrams of 1,200 bytes that an echo server of one thread returns", &ways);
    let scale = Scale { low: 0.0, high, log: false };
    chart.values(&scale, "thousands per second of CPU time");
    chart.bars(&groups, &ways, &scale, 0.0);
    chart.done()
}

/// The vertical axis.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// Logarithmic, with some room around all values.
    fn log(values: impl Iterator<Item = f64>) -> Self {
        let bounds = |(low, high): (f64, f64), value| (low.min(value), high.max(value));
        let (low, high) = values.fold((f64::MAX, 1.0), bounds);
        Self { low: 0.75 * low.min(high), high: 1.5 * high, log: true }
    }

    fn y(&self, value: f64) -> f64 {
        let on = |value: f64| if self.log { value.max(self.low).ln() } else { value };
        let share = (on(value) - on(self.low)) / (on(self.high) - on(self.low));
        BOTTOM - share * (BOTTOM - TOP)
    }

    /// Round values: 1, 2, 5, 10 ..., or five steps.
    fn ticks(&self) -> Vec<f64> {
        let round =
            (-1..9).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
        if self.log {
            return round.filter(|tick| (self.low..=self.high).contains(tick)).collect();
        }
        let mut steps = round.filter(|step| self.high / step < 6.0);
        let step = steps.next().unwrap_or(self.high);
        (0..6).map(|i| f64::from(i) * step).filter(|tick| *tick <= self.high).collect()
    }
}

struct Chart(String);

impl Chart {
    /// Paper, a title, and a legend below it.
    fn new(title: &str, ways: &[(&str, &str)]) -> Self {
        let [width, height] = SIZE;
        let mut chart = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" fill=\"{INK}\">\n"
        ));
        chart.rect([0.0, 0.0], SIZE, PAPER);
        chart.text([20.0, 30.0], 19, "start", title);
        let mut x = 20.0;
        for (way, label) in ways {
            chart.rect([x, 48.0], [14.0, 12.0], colour(way));
            chart.text([x + 20.0, 59.0], 14, "start", label);
            // Wide enough for any sans-serif font.
            x += 44.0 + 7.8 * label.len() as f64;
        }
        chart
    }

    fn rect(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], fill: &str) {
        let size = format!("width=\"{width:.1}\" height=\"{height:.1}\"");
        let _ = writeln!(self.0, "<rect x=\"{x:.1}\" y=\"{y:.1}\" {size} fill=\"{fill}\"/>");
    }

    fn text(&mut self, [x, y]: [f64; 2], size: u32, anchor: &str, words: &str) {
        let at = format!("x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\"");
        let _ = writeln!(self.0, "<text {at}>{words}</text>");
    }

    fn line(&mut self, points: impl Iterator<Item = (f64, f64)>, colour: &str) {
        let (mut line, mut dots) = (String::new(), String::new());
        for (x, y) in points {
            let _ = write!(line, "{x:.1},{y:.1} ");
            let _ =
                writeln!(dots, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
        }
        let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"");
        let _ = write!(self.0, "<polyline points=\"{}\" {stroke}/>\n{dots}", line.trim_end());
    }

    /// The vertical axis, with rules and its unit.
    fn values(&mut self, scale: &Scale, unit: &str) {
        for tick in scale.ticks() {
            let words =
                if tick.fract() == 0.0 { figure(tick).replace(".0", "") } else { figure(tick) };
            self.rect([LEFT, scale.y(tick)], [RIGHT - LEFT, 1.0], RULE);
            self.text([LEFT - 8.0, scale.y(tick) + 5.0], 14, "end", &words);
        }
        let middle = (TOP + BOTTOM) / 2.0;
        let turn = format!("<g transform=\"translate(22 {middle}) rotate(-90)\">");
        let _ = writeln!(
            self.0,
            "{turn}<text font-size=\"15\" text-anchor=\"middle\">{unit}</text></g>"
        );
    }

    /// Groups of bars that begin at `base`, with their figures, and a label of two lines below each group.
    fn bars(
        &mut self,
        groups: &[([&str; 2], Vec<Option<f64>>)],
        ways: &[(&str, &str)],
        scale: &Scale,
        base: f64,
    ) {
        let group_width = (RIGHT - LEFT) / groups.len().max(1) as f64;
        let width = group_width * 0.86 / ways.len() as f64;
        self.rect([LEFT, scale.y(base)], [RIGHT - LEFT, 1.0], INK);
        for (g, (name, values)) in groups.iter().enumerate() {
            let left = LEFT + g as f64 * group_width;
            for (i, ((way, _), value)) in ways.iter().zip(values).enumerate() {
                let Some(value) = *value else { continue };
                let x = left + group_width * 0.07 + i as f64 * width;
                let [high, low] = [value.max(base), value.min(base)].map(|value| scale.y(value));
                self.rect([x, high], [width * 0.9, low - high], colour(way));
                let y = if value < base { low + 14.0 } else { high - 4.0 };
                self.text([x + width * 0.45, y], 11, "middle", &figure(value));
            }
            for (line, words) in name.iter().enumerate() {
                let at = [left + group_width / 2.0, BOTTOM + 20.0 + 18.0 * line as f64];
                self.text(at, 14, "middle", words);
            }
        }
    }

    fn done(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}
