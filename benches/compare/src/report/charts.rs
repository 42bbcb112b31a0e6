//! The charts, as SVG. Each has a background of its own: it reads the same on a light and on a dark page.

use std::io;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figure;
use super::tables::{Measured, SHOWN, loads, middle};

const SIZE: (u32, u32) = (920, 460);
const PAPER: RGBColor = RGBColor(250, 250, 247);

/// Colours that most colour-blind people can tell apart; ours are the blue ones.
fn colour(way: &str) -> RGBColor {
    let [r, g, b] = match way {
        "std" => [0x78, 0x78, 0x78],
        "nix" => [0xcc, 0x79, 0xa7],
        "quinn-udp" => [0xe6, 0x9f, 0x00],
        "quinn-udp GSO" => [0xd5, 0x5e, 0x00],
        "mmsg Offload" => [0x00, 0x3e, 0x74],
        _ => [0x00, 0x80, 0xbe],
    };
    RGBColor(r, g, b)
}

/// A way, its label, and its value for each load.
type Series = ((&'static str, &'static str), Vec<Option<f64>>);

/// The charts by the names of their files.
pub fn all(measured: &Measured) -> io::Result<[(&'static str, String); 2]> {
    let charts = [over_batch(measured), speed_up(measured)];
    let [over_batch, speed_up] = charts.map(|chart| chart.map_err(io::Error::other));
    Ok([("ns-per-datagram.svg", over_batch?), ("speed-up.svg", speed_up?)])
}

type Drawn = Result<String, DrawingAreaErrorKind<io::Error>>;

/// CPU time per datagram over the size of the batch.
fn over_batch(measured: &Measured) -> Drawn {
    let loads = measured
        .times
        .iter()
        .filter(|(load, _)| (load.workload, load.payload, load.metadata) == ("batch", 1200, false));
    let (sizes, rounds): (Vec<_>, Vec<_>) =
        loads.map(|(load, rounds)| (load.each.to_string(), rounds)).unzip();
    let ways = [&[("std", "std")][..], &SHOWN].concat();
    let values = |way| rounds.iter().map(|rounds| middle(rounds, way)).collect();
    let series: Vec<_> = ways.into_iter().map(|way| (way, values(way.0))).collect();
    draw(
        "CPU time to send and receive a datagram of 1,200 bytes over loopback",
        ["datagrams per batch", "ns per datagram, logarithmic"],
        &sizes,
        &series,
        false,
    )
}

/// How many times as fast as std, by load.
fn speed_up(measured: &Measured) -> Drawn {
    let rows = loads(measured);
    let names: Vec<_> = rows.iter().map(|row| row.name.to_string()).collect();
    let values = |i: usize| rows.iter().map(|row| row.speed_ups[i]).collect();
    let series: Vec<_> = SHOWN.into_iter().enumerate().map(|(i, way)| (way, values(i))).collect();
    let title = "How many times as fast as std, by load";
    draw(title, ["", "speed-up over std, logarithmic"], &names, &series, true)
}

/// Lines with dots, or groups of bars that begin at 1 and have their figures. The vertical axis is logarithmic.
fn draw(
    title: &str,
    [x_unit, y_unit]: [&str; 2],
    names: &[String],
    series: &[Series],
    bars: bool,
) -> Drawn {
    let values = || series.iter().flat_map(|(_, values)| values).flatten().copied();
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(1.0, f64::max));
    let mut svg = String::new();
    {
        let paper = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        paper.fill(&PAPER)?;
        let mut chart = ChartBuilder::on(&paper)
            .caption(title, ("sans-serif", 22))
            .margin(14)
            .x_label_area_size(48)
            .y_label_area_size(64)
            .build_cartesian_2d(
                -0.5..names.len() as f64 - 0.5,
                (0.75 * low..2.0 * high).log_scale(),
            )?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(names.len() + 1)
            .x_label_formatter(&|x| names.get(*x as usize).cloned().unwrap_or_default())
            .y_label_formatter(&|y| figure(*y))
            .label_style(("sans-serif", 16))
            .x_desc(x_unit)
            .y_desc(y_unit)
            .draw()?;
        let width = 0.86 / series.len() as f64;
        for (i, ((way, label), values)) in series.iter().enumerate() {
            let colour = colour(way);
            let points = values.iter().enumerate().filter_map(|(x, y)| Some((x as f64, (*y)?)));
            let drawn = if bars {
                let left = i as f64 * width - 0.43;
                let figures = points.clone().map(|(x, y)| {
                    let style = TextStyle::from(("sans-serif", 11))
                        .pos(Pos::new(HPos::Center, VPos::Bottom));
                    Text::new(figure(y), (x + left + width / 2.0, y.max(1.0)), style)
                });
                chart.draw_series(figures)?;
                chart.draw_series(points.map(|(x, y)| {
                    Rectangle::new([(x + left, 1.0), (x + left + width * 0.9, y)], colour.filled())
                }))?
            } else {
                chart.draw_series(
                    points.clone().map(|point| Circle::new(point, 4, colour.filled())),
                )?;
                chart.draw_series(LineSeries::new(points, colour.stroke_width(3)))?
            };
            drawn.label(*label).legend(move |(x, y)| {
                Rectangle::new([(x, y - 6), (x + 14, y + 6)], colour.filled())
            });
        }
        chart
            .configure_series_labels()
            .position(if bars {
                SeriesLabelPosition::UpperRight
            } else {
                SeriesLabelPosition::LowerLeft
            })
            .label_font(("sans-serif", 16))
            .background_style(PAPER)
            .draw()?;
        paper.present()?;
    }
    Ok(svg)
}
