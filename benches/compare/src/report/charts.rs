//! The charts. Each has a background of its own, so that it reads the same on a light and on a dark
//! page.

use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::tables::{Measured, middle, ratio};
use crate::load::Load;

/// A chart's file, and its description for readers who cannot see it.
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
        .filter(|(cell, _)| cell.workload == "batch" && cell.payload == 1200 && !cell.metadata)
        .collect();
    let line = |way: &str| -> Vec<(f64, f64)> {
        let point = |(cell, rounds)| {
            let (cell, rounds): (&Load, _) = (cell, rounds);
            Some(((cell.each as f64).log2(), middle(rounds, way)?))
        };
        cells.iter().filter_map(|(cell, rounds)| point((*cell, *rounds))).collect()
    };
    let lines: Vec<_> = WAYS.iter().map(|way| (*way, line(way))).collect();
    let (low, high) = bounds(lines.iter().flat_map(|(_, line)| line).map(|point| point.1));
    let right = cells.iter().map(|(cell, _)| (cell.each as f64).log2()).fold(1.0, f64::max);

    let area = paper(file, "Sending and receiving datagrams of 1,200 bytes over loopback")?;
    let axes = ["datagrams a batch", "processor time, ns a datagram"];
    let mut chart = axes_on(&area, 50, right, low..high, axes)?;
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

/// How many times as fast as std, by workload: bars in groups.
fn speed_up(measured: &Measured, file: &Path) -> Result<()> {
    const WAYS: [&str; 5] = ["nix", "quinn-udp", "mmsg RecvBatch", "quinn-udp GSO", "mmsg Offload"];
    const BASE: f64 = 0.5;
    let shown = |cell: &&Load| {
        !cell.metadata && cell.workload != "ready" && (cell.workload != "batch" || cell.each == 64)
    };
    let times = |cell| WAYS.map(|way| ratio(&measured.times[cell], "std", way));
    let cells = measured.times.keys().filter(shown);
    let groups: Vec<_> = cells.map(|cell| (short(cell), times(cell))).collect();
    let (_, high) = bounds(groups.iter().flat_map(|(_, times)| times).filter_map(|times| *times));

    let area = paper(file, "Speed-up over std, one datagram a call, by workload")?;
    let axes = ["", "times as fast as std"];
    let mut chart = axes_on(&area, 84, groups.len() as f64, BASE..high * 1.2, axes)?;
    let slot = 0.86 / WAYS.len() as f64;
    for (g, (name, times)) in groups.iter().enumerate() {
        for (w, times) in times.iter().enumerate() {
            let Some(times) = *times else { continue };
            let left = g as f64 + 0.07 + w as f64 * slot;
            let bar = [(left, BASE), (left + slot * 0.9, times)];
            chart.draw_series([Rectangle::new(bar, colour(WAYS[w]).filled())])?;
            let (x, y) = chart.backend_coord(&(left + slot * 0.45, times));
            let places = usize::from(times < 9.95);
            area.draw(&Text::new(format!("{times:.places$}"), (x, y - 3), centred(12)))?;
        }
        let below = chart.backend_coord(&(g as f64 + 0.5, BASE));
        for (line, words) in name.lines().enumerate() {
            let at = (below.0, below.1 + 22 + 18 * line as i32);
            area.draw(&Text::new(words.to_string(), at, centred(14)))?;
        }
    }
    legend(&area, &WAYS)?;
    area.present()?;
    Ok(())
}

/// Axes on a chart's paper. Without a name for it, nothing is written along the first.
fn axes_on<'a>(
    area: &Area<'a>,
    top: u32,
    right: f64,
    values: Range<f64>,
    [x, y]: [&str; 2],
) -> Result<ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, LogCoord<f64>>>> {
    let mut chart = ChartBuilder::on(area)
        .margin(20)
        .margin_top(top)
        .margin_right(30)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..right, values.log_scale())?;
    let (power, value) = (|x: &f64| format!("{:.0}", x.exp2()), |y: &f64| thousands(*y));
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh()
        .bold_line_style(RULE)
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .label_style(text(14))
        .axis_desc_style(text(15))
        .y_label_formatter(&value)
        .y_desc(y);
    match x {
        "" => mesh.disable_x_axis(),
        _ => mesh.x_labels(right as usize + 1).x_label_formatter(&power).x_desc(x),
    };
    mesh.draw()?;
    drop(mesh);
    Ok(chart)
}

/// A workload's name in two lines.
fn short(cell: &Load) -> String {
    match cell.workload {
        "batch" => format!("batch of {}\n{} B", cell.each, cell.payload),
        "fan-out" => format!("fan-out\n{} x {}", cell.dests, cell.each),
        "idle" => format!("idle\n{} of {}", cell.each, cell.slots),
        name => format!("{name}\n{} B", cell.payload),
    }
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

/// 1234.0 as "1,234"; small values with a decimal.
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
