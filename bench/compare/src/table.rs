//! Prints the medians of the repeats and their ratios.
//!
//! The aims under the table come from the design (§8). They are printed so that a reader need not remember
//! them. They are not asserted, because a figure is evidence, not a test.

use crate::Shape;
use crate::sample::Sample;
use serde::Serialize;
use std::fmt::Write;
use treefold_figures::median;

/// Printed under the table.
const AIMS: &str = "\
Medians of all repeats; both programs ran in this session. CPU is over all processes, per wave and node.
Aims: round trip at most 1.5 times the floor's; pipelined at least 4,000 waves/s at 64 nodes and 640 at 256
(kary:8); at most 8 µs of CPU per wave and node.
";

/// One tree with the samples of both programs.
pub(crate) struct Row {
    pub(crate) nodes: u32,
    pub(crate) shape: Shape,
    pub(crate) floor: Vec<Sample>,
    pub(crate) treefold: Vec<Sample>,
}

impl Row {
    pub(crate) fn new(nodes: u32, shape: Shape) -> Self {
        Self { nodes, shape, floor: Vec::new(), treefold: Vec::new() }
    }
}

/// The medians of one program on one tree; a figure is `None` if no run gave it.
#[derive(Clone, Copy, Serialize)]
struct Medians {
    roundtrip_us_p50: Option<f64>,
    roundtrip_us_p99: Option<f64>,
    waves_per_s: Option<f64>,
    cpu_us_per_wave_and_node: Option<f64>,
}

impl Medians {
    fn of(samples: &[Sample], nodes: u32) -> Self {
        let over = |figure: fn(&Sample) -> f64| median(samples.iter().map(figure).collect());
        Self {
            roundtrip_us_p50: over(|sample| sample.roundtrip_us_p50),
            roundtrip_us_p99: over(|sample| sample.roundtrip_us_p99),
            waves_per_s: over(|sample| sample.waves_per_s),
            cpu_us_per_wave_and_node: over(|sample| sample.cpu_us_per_wave)
                .map(|cpu_us| cpu_us / f64::from(nodes)),
        }
    }
}

/// A row of the output.
#[derive(Serialize)]
struct Line<'a> {
    nodes: u32,
    shape: &'a str,
    floor: Medians,
    treefold: Medians,
    roundtrip_ratio: Option<f64>,
}

impl<'a> Line<'a> {
    fn of(row: &'a Row) -> Self {
        let floor = Medians::of(&row.floor, row.nodes);
        let treefold = Medians::of(&row.treefold, row.nodes);
        let roundtrip_ratio =
            treefold.roundtrip_us_p50.zip(floor.roundtrip_us_p50).map(|(ours, least)| ours / least);
        Self { nodes: row.nodes, shape: &row.shape.name, floor, treefold, roundtrip_ratio }
    }
}

/// Formats the rows as a table.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut page = String::from(
        "                ---- round trip p50, µs ----   -- p99, µs --------   -- waves/s ---------   -- cpu, µs ------\n\
         nodes shape      floor  treefold     ratio      floor  treefold      floor   treefold    floor  treefold\n",
    );
    for line in rows.iter().map(Line::of) {
        let (floor, ours) = (line.floor, line.treefold);
        writeln!(
            page,
            "{:>5} {:<8} {:>7} {:>9} {:>9} {:>10} {:>9} {:>10} {:>10} {:>8} {:>9}",
            line.nodes,
            line.shape,
            cell(floor.roundtrip_us_p50, 0),
            cell(ours.roundtrip_us_p50, 0),
            cell(line.roundtrip_ratio, 2),
            cell(floor.roundtrip_us_p99, 0),
            cell(ours.roundtrip_us_p99, 0),
            cell(floor.waves_per_s, 0),
            cell(ours.waves_per_s, 0),
            cell(floor.cpu_us_per_wave_and_node, 1),
            cell(ours.cpu_us_per_wave_and_node, 1),
        )
        .expect("writing to a String never fails");
    }
    page.push_str(AIMS);
    page
}

/// Formats a figure with `digits` decimals; a missing figure is a dash.
pub(crate) fn cell(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
}

/// Formats the rows as a JSON array of objects.
pub(crate) fn json(rows: &[Row]) -> String {
    let lines: Vec<Line<'_>> = rows.iter().map(Line::of).collect();
    serde_json::to_string_pretty(&lines).expect("numbers and strings are always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(figure: f64) -> Sample {
        Sample {
            roundtrip_us_p50: figure,
            roundtrip_us_p99: figure * 2.0,
            waves_per_s: figure * 10.0,
            cpu_us_per_wave: figure * 16.0,
        }
    }

    #[test]
    fn a_row_shows_medians_and_the_ratio_of_medians() {
        let mut row = Row::new(16, "kary:8".parse().unwrap());
        row.floor = [30.0, 10.0, 20.0].map(sample).to_vec();
        row.treefold = [25.0, 35.0, 5000.0].map(sample).to_vec();
        let page = text(&[row]);
        let line: Vec<&str> = page.lines().nth(2).unwrap().split_whitespace().collect();
        assert_eq!(line, ["16", "kary:8", "20", "35", "1.75", "40", "70", "200", "350", "20.0", "35.0"]);
    }

    #[test]
    fn missing_figures_are_a_dash_and_a_null() {
        let mut row = Row::new(16, "flat".parse().unwrap());
        row.floor = vec![sample(1.0)];
        assert!(text(std::slice::from_ref(&row)).contains(" - "));
        assert!(json(&[row]).contains("\"roundtrip_ratio\": null"));
    }
}
