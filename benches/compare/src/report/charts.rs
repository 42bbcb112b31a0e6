//! The charts. Each has a background of its own, so that it reads the same on a light and on a dark
//! page.

use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::tables::{Cell, Measured, middle, ratio};

/// A chart's file, and what it shows for who cannot see it.
pub struct Chart {
    pub file: &'static str,
    pub says: &'static str,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (920, 480);
const PAPER: RGBColor = RGBColor(250, 250, 247);
const INK: RGBColor = RGBColor(40, 44, 52);
const RULE: RGBColor = RGBColor(222, 222, 216);
const FONT: &str = "sans-serif";

/// Colours that most colour-blind people can tell apart; ours are the blue ones.
fn colour(way: &str) -> RGBColor {
    match way {
        "std" => RGBColor(120, 120, 120),
        "nix" => RGBColor(204, 121, 167),
        "quinn-udp" => RGBColor(230, 159, 0),
        "raw" => RGBColor(170, 190, 200),
        "raw GSO" => RGBColor(110, 135, 150),
        "mmsg RecvMsg" => RGBColor(105, 190, 235),
        "quinn-udp GSO" => RGBColor(213, 94, 0),
        "mmsg Offload" => RGBColor(0, 62, 116),
        _ => RGBColor(0, 128, 190),
    }
}

pub fn draw(measured: &Measured, to: &Path) -> Result<Vec<Chart>> {
    let charts = vec![
        Chart {
            file: "ns-per-datagram.svg",
            says: "Nanoseconds a datagram over the size of the batch, for each way",
        },
        Chart { file: "speed-up.svg", says: "Speed-up over std by workload, for each way" },
    ];
    over_batch(measured, &to.join(charts[0].file))?;
    speed_up(measured, &to.join(charts[1].file))?;
    Ok(charts)
}

/// A chart's paper, with its title on it.
fn paper<'a>(file: &'a Path, title: &str) -> Result<Area<'a>> {
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&PAPER)?;
    let style = (FONT, 19).into_font().color(&INK);
    area.draw(&Text::new(title.to_string(), (20, 14), style))?;
    Ok(area)
}

fn text(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

fn centred(size: i32) -> TextStyle<'static> {
    text(size).pos(Pos::new(HPos::Center, VPos::Bottom))
}

/// ns a datagram over the size of the batch, both on logarithmic scales.
fn over_batch(measured: &Measured, file: &Path) -> Result<()> {
    const WAYS: [&str; 6] =
        ["std", "nix", "quinn-udp", "mmsg RecvBatch", "quinn-udp GSO", "mmsg Offload"];
    let cells: Vec<_> = measured
        .times
        .iter()
        .filter(|(cell, _)| cell.workload == "batch" && cell.payload == 1200 && !cell.meta)
        .collect();
    let line = |way: &str| -> Vec<(f64, f64)> {
        let point = |(cell, rounds)| {
            let (cell, rounds): (&Cell, _) = (cell, rounds);
            Some(((cell.each as f64).log2(), middle(rounds, way)?))
        };
        cells.iter().filter_map(|(cell, rounds)| point((*cell, *rounds))).collect()
    };
    let lines: Vec<_> = WAYS.iter().map(|way| (*way, line(way))).collect();
    let (low, high) = bounds(lines.iter().flat_map(|(_, line)| line).map(|point| point.1));
    let right = cells.iter().map(|(cell, _)| (cell.each as f64).log2()).fold(1.0, f64::max);

    let area = paper(file, "Sending and receiving datagrams of 1,200 bytes over loopback")?;
    let mut chart = ChartBuilder::on(&area)
        .margin(20)
        .margin_top(50)
        .margin_right(30)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..right, (low..high).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(RULE)
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .label_style(text(14))
        .axis_desc_style(text(15))
        .x_labels(right as usize + 1)
        .x_label_formatter(&|power| format!("{:.0}", power.exp2()))
        .y_label_formatter(&|ns| thousands(*ns))
        .x_desc("datagrams a batch")
        .y_desc("processor time, ns a datagram")
        .draw()?;
    for (way, line) in &lines {
        let colour = colour(way);
        let width = if way.starts_with("mmsg") { 3 } else { 2 };
        chart
            .draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(width)))?
            .label(*way)
            .legend(move |(x, y)| Rectangle::new([(x, y - 2), (x + 18, y + 2)], colour.filled()));
        chart.draw_series(line.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .margin(14)
        .background_style(PAPER)
        .border_style(RULE)
        .label_font(text(14))
        .draw()?;
    area.present()?;
    Ok(())
}

/// Powers of ten around all values.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::MAX, 1.0), |(low, high), v| (v.min(low), v.max(high)));
    // Half a decade is space enough.
    let step = |log: f64, up: bool| {
        let halves = log * 2.0;
        10f64.powf(if up { halves.ceil() } else { halves.floor() } / 2.0)
    };
    (step(low.min(high).log10(), false), step(high.log10() + 0.02, true))
}

/// Bars in groups: a name and a value for each way.
struct Bars<'a> {
    ways: &'a [&'a str],
    groups: Vec<(String, Vec<Option<f64>>)>,
    /// Where bars stand on.
    base: f64,
    axis: &'a str,
    /// What is written above a bar.
    label: fn(f64) -> String,
}

/// How many times as fast as std, by workload.
fn speed_up(measured: &Measured, file: &Path) -> Result<()> {
    const WAYS: [&str; 5] = ["nix", "quinn-udp", "mmsg RecvBatch", "quinn-udp GSO", "mmsg Offload"];
    let shown = |cell: &&Cell| {
        !cell.meta && cell.workload != "ready" && (cell.workload != "batch" || cell.each == 64)
    };
    let cells = measured.times.keys().filter(shown);
    let groups = cells.map(|cell| {
        let rounds = &measured.times[cell];
        let times = WAYS.map(|way| ratio(rounds, "std", way));
        (short(cell), times.to_vec())
    });
    let bars = Bars {
        ways: &WAYS,
        groups: groups.collect(),
        base: 0.5,
        axis: "times as fast as std",
        label: |times| if times < 9.95 { format!("{times:.1}") } else { format!("{times:.0}") },
    };
    let area = paper(file, "Speed-up over std, one datagram a call, by workload")?;
    let (_, high) = bounds(bars.values());
    draw_bars(&area, &bars, (bars.base..high * 1.2).log_scale())
}

impl Bars<'_> {
    fn values(&self) -> impl Iterator<Item = f64> {
        self.groups.iter().flat_map(|(_, values)| values).filter_map(|value| *value)
    }
}

/// A workload's name in two lines.
fn short(cell: &Cell) -> String {
    match cell.workload.as_str() {
        "batch" => format!("batch of {}\n{} B", cell.each, cell.payload),
        "fan-out" => format!("fan-out\n{} x {}", cell.dests, cell.each),
        "idle" => format!("idle\n{} of {}", cell.each, cell.slots),
        name => format!("{name}\n{} B", cell.payload),
    }
}

fn draw_bars<Y>(area: &Area<'_>, bars: &Bars<'_>, values: Y) -> Result<()>
where
    Y: plotters::coord::ranged1d::AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let groups = bars.groups.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(20)
        .margin_top(84)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..groups, values)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .bold_line_style(RULE)
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .label_style(text(14))
        .axis_desc_style(text(15))
        .y_label_formatter(&|value| thousands(*value))
        .y_desc(bars.axis)
        .draw()?;
    let slot = 0.86 / bars.ways.len() as f64;
    for (g, (name, values)) in bars.groups.iter().enumerate() {
        for (w, value) in values.iter().enumerate() {
            let Some(value) = *value else { continue };
            let left = g as f64 + 0.07 + w as f64 * slot;
            let bar = [(left, bars.base), (left + slot * 0.9, value)];
            chart.draw_series([Rectangle::new(bar, colour(bars.ways[w]).filled())])?;
            let at = chart.backend_coord(&(left + slot * 0.45, value));
            area.draw(&Text::new((bars.label)(value), (at.0, at.1 - 3), centred(12)))?;
        }
        let below = chart.backend_coord(&(g as f64 + 0.5, bars.base));
        for (line, words) in name.lines().enumerate() {
            let at = (below.0, below.1 + 22 + 18 * line as i32);
            area.draw(&Text::new(words.to_string(), at, centred(14)))?;
        }
    }
    legend(area, bars.ways)?;
    area.present()?;
    Ok(())
}

/// One row below the title.
fn legend(area: &Area<'_>, ways: &[&str]) -> Result<()> {
    let mut x = 22;
    for way in ways {
        area.draw(&Rectangle::new([(x, 48), (x + 14, 60)], colour(way).filled()))?;
        let style = text(14).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(way.to_string(), (x + 19, 54), style))?;
        // There is no font to measure by: letters are wide or narrow.
        let width = |letter| match letter {
            'm' | 'w' | 'O' | 'G' | 'S' => 10,
            'i' | 'f' | 'l' | 't' | 'r' | ' ' | '-' => 5,
            _ => 8,
        };
        x += 34 + way.chars().map(width).sum::<i32>();
    }
    Ok(())
}

/// 1234.0 as "1,234"; small values with what makes them differ.
fn thousands(value: f64) -> String {
    if value < 10.0 && value.fract() > 0.001 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
