//! Prints the medians of the repeats and their ratios.
//!
//! The CPU of the caller's process is told apart, because the caller is not a part of the service. The floor's
//! caller is also its root, and its work as a root is not counted as a node's.
//!
//! The aims under the table come from the design (§8). They are printed so that a reader need not remember
//! them. They are not asserted, because a figure is evidence, not a test.

use crate::Shape;
use crate::contender::Contender;
use crate::sample::Sample;
use serde::Serialize;
use std::fmt::Write;
use treefold_figures::median;

/// Printed above the rows.
const TITLES: &str = "\
-- tree ------------------   -- round trip, one at a time, µs -   pipelined  -- cpu of a node -  -- of the caller -
nodes shape    program          p50   /floor   /event       p99     waves/s      one  pipelined      one  pipelined
";

/// Printed under the rows.
const AIMS: &str = "\
Medians of all repeats; all programs ran in this session. The event floor is an epoll loop in every process.
/floor and /event: the round trip divided by the floor's and by the event floor's. CPU, in µs per wave, one wave at a
time and pipelined: of all processes but the caller's, divided by their number, and of the caller's process. The floor's
caller is also its root; that of the others is a process of its own.
Aims: round trip at most 2 times the floor's; pipelined at least 12,000 waves/s at 64 nodes and 2,500 at 256
(kary:8); at most 2 µs of CPU per wave and node, without the caller's.
";

/// One tree with the samples of each contender, in the order of [`Contender::ALL`].
pub(crate) struct Row {
    pub(crate) nodes: u32,
    pub(crate) shape: Shape,
    pub(crate) runs: [Vec<Sample>; Contender::ALL.len()],
}

impl Row {
    pub(crate) fn new(nodes: u32, shape: Shape) -> Self {
        Self { nodes, shape, runs: Default::default() }
    }
}

/// The medians of one program on one tree; a figure is `None` if no run gave it.
#[derive(Clone, Copy, Serialize)]
struct Medians {
    roundtrip_us_p50: Option<f64>,
    roundtrip_us_p99: Option<f64>,
    /// CPU of all processes but the caller's, per round trip and process.
    roundtrip_cpu_us_per_node: Option<f64>,
    /// CPU of the caller's process.
    caller_roundtrip_cpu_us: Option<f64>,
    waves_per_s: Option<f64>,
    /// CPU of all processes but the caller's, per pipelined wave and process.
    cpu_us_per_wave_and_node: Option<f64>,
    /// CPU of the caller's process.
    caller_cpu_us_per_wave: Option<f64>,
}

impl Medians {
    fn of(samples: &[Sample], processes: u32) -> Self {
        let over = |figure: &dyn Fn(&Sample) -> f64| median(samples.iter().map(figure).collect());
        let processes = f64::from(processes);
        Self {
            roundtrip_us_p50: over(&|run| run.roundtrip_us_p50),
            roundtrip_us_p99: over(&|run| run.roundtrip_us_p99),
            roundtrip_cpu_us_per_node: over(&|run| {
                (run.roundtrip_cpu_us - run.client_roundtrip_cpu_us) / processes
            }),
            caller_roundtrip_cpu_us: over(&|run| run.client_roundtrip_cpu_us),
            waves_per_s: over(&|run| run.waves_per_s),
            cpu_us_per_wave_and_node: over(&|run| {
                (run.cpu_us_per_wave - run.client_cpu_us_per_wave) / processes
            }),
            caller_cpu_us_per_wave: over(&|run| run.client_cpu_us_per_wave),
        }
    }
}

/// One contender on one tree.
#[derive(Serialize)]
struct Line<'a> {
    nodes: u32,
    shape: &'a str,
    program: &'static str,
    #[serde(flatten)]
    medians: Medians,
    roundtrip_to_floor: Option<f64>,
    roundtrip_to_event_floor: Option<f64>,
    runs: &'a [Sample],
}

/// Returns the lines of a row.
fn lines_of<'a>(row: &'a Row) -> Vec<Line<'a>> {
    let roundtrip = |contender: Contender| {
        let at = Contender::ALL.iter().position(|one| *one == contender)?;
        median(row.runs[at].iter().map(|run| run.roundtrip_us_p50).collect())
    };
    let (floor, event_floor) = (roundtrip(Contender::Floor), roundtrip(Contender::EventFloor));
    let line = |(contender, runs): (Contender, &'a Vec<Sample>)| {
        let medians = Medians::of(runs, contender.processes(row.nodes));
        let over = |least: Option<f64>| medians.roundtrip_us_p50.zip(least).map(|(took, least)| took / least);
        Line {
            nodes: row.nodes,
            shape: &row.shape.name,
            program: contender.name(),
            medians,
            roundtrip_to_floor: over(floor),
            roundtrip_to_event_floor: over(event_floor),
            runs,
        }
    };
    Contender::ALL.into_iter().zip(&row.runs).map(line).collect()
}

/// Formats the rows as a table with a line for each contender.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut page = String::from(TITLES);
    for line in rows.iter().flat_map(lines_of) {
        let medians = line.medians;
        writeln!(
            page,
            "{:>5} {:<8} {:<11} {:>8} {:>8} {:>8} {:>9} {:>11} {:>8} {:>10} {:>8} {:>10}",
            line.nodes,
            line.shape,
            line.program,
            cell(medians.roundtrip_us_p50, 0),
            cell(line.roundtrip_to_floor, 2),
            cell(line.roundtrip_to_event_floor, 2),
            cell(medians.roundtrip_us_p99, 0),
            cell(medians.waves_per_s, 0),
            cell(medians.roundtrip_cpu_us_per_node, 1),
            cell(medians.cpu_us_per_wave_and_node, 2),
            cell(medians.caller_roundtrip_cpu_us, 1),
            cell(medians.caller_cpu_us_per_wave, 2),
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

/// Formats the rows as a JSON array of objects, one for each contender on each tree, with all runs.
pub(crate) fn json(rows: &[Row]) -> String {
    let lines: Vec<Line<'_>> = rows.iter().flat_map(lines_of).collect();
    serde_json::to_string_pretty(&lines).expect("numbers and strings are always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(figure: f64) -> Sample {
        Sample {
            roundtrip_us_p50: figure,
            roundtrip_us_p99: figure * 2.0,
            roundtrip_cpu_us: figure * 64.0,
            client_roundtrip_cpu_us: figure * 4.0,
            waves_per_s: figure * 10.0,
            cpu_us_per_wave: figure * 32.0,
            client_cpu_us_per_wave: figure * 2.0,
        }
    }

    fn row() -> Row {
        let mut row = Row::new(16, "kary:8".parse().unwrap());
        row.runs[0] = [30.0, 10.0, 20.0].map(sample).to_vec();
        row.runs[1] = vec![sample(25.0)];
        row.runs[2] = [25.0, 40.0, 5000.0].map(sample).to_vec();
        row
    }

    fn cells(page: &str, line: usize) -> Vec<&str> {
        page.lines().nth(line).unwrap().split_whitespace().collect()
    }

    #[test]
    fn lines_show_medians_both_ratios_and_cpu_without_the_callers() {
        let page = text(&[row()]);
        assert_eq!(
            cells(&page, 2),
            ["16", "kary:8", "floor", "20", "1.00", "0.80", "40", "200", "80.0", "40.00", "80.0", "40.00"],
            "fifteen processes besides the caller"
        );
        let ours = ["16", "kary:8", "treefold", "40", "2.00", "1.60", "80", "400"];
        assert_eq!(cells(&page, 4)[..8], ours);
        assert_eq!(cells(&page, 4)[8..], ["150.0", "75.00", "160.0", "80.00"], "sixteen processes");
        assert!(page.contains("all processes but the"), "the page says whose CPU is counted");
    }

    #[test]
    fn missing_figures_are_a_dash_and_a_null() {
        let mut row = row();
        row.runs[1].clear();
        assert!(text(std::slice::from_ref(&row)).contains(" - "));
        let lines: serde_json::Value = serde_json::from_str(&json(&[row])).unwrap();
        assert!(lines[2]["roundtrip_to_event_floor"].is_null());
        assert_eq!(lines[2]["roundtrip_to_floor"], 2.0);
    }

    #[test]
    fn json_has_every_run() {
        let lines: serde_json::Value = serde_json::from_str(&json(&[row()])).unwrap();
        assert_eq!((&lines[1]["program"], &lines[2]["program"]), (&"event floor".into(), &"treefold".into()));
        assert_eq!(lines[0]["runs"].as_array().unwrap().len(), 3);
        assert_eq!(lines[0]["runs"][1]["roundtrip_us_p50"], 10.0);
        assert_eq!(lines[0]["cpu_us_per_wave_and_node"], 40.0);
    }
}
