//! Formats medians of interleaved runs, as a table or as a line of JSON.

use crate::load::Seen;
use serde::Serialize;

/// The results of several runs of one case.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) series: String,
    /// The value of the varied parameter.
    pub(crate) at: f64,
    pub(crate) runs: Vec<Seen>,
}

/// The medians of a row.
#[derive(Debug, Serialize)]
pub(crate) struct Point {
    series: String,
    at: f64,
    runs: usize,
    folded_mbit: f64,
    answers_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    fronts_in_mbit: f64,
    relays_in_mbit: f64,
    /// Of the run whose throughput is nearest to the median.
    fullest: String,
    fullest_percent: f64,
    machine_percent: f64,
    relay_processors: f64,
    back_end_processors: f64,
    front_processors: f64,
}

impl Row {
    pub(crate) fn new(series: &str, at: f64) -> Self {
        Self { series: series.to_owned(), at, runs: Vec::new() }
    }

    /// Returns the medians. The row must have runs.
    pub(crate) fn point(&self) -> Point {
        let of = |figure: fn(&Seen) -> f64| median(self.runs.iter().map(figure).collect());
        let folded_mbit = of(|seen| seen.folded_mbit);
        let nearest = self.runs.iter().min_by(|a, b| {
            (a.folded_mbit - folded_mbit).abs().total_cmp(&(b.folded_mbit - folded_mbit).abs())
        });
        Point {
            series: self.series.clone(),
            at: self.at,
            runs: self.runs.len(),
            folded_mbit,
            answers_per_s: of(|seen| seen.answers_per_s),
            p50_ms: of(|seen| seen.p50_ms),
            p99_ms: of(|seen| seen.p99_ms),
            fronts_in_mbit: of(|seen| seen.usage.fronts_in_mbit),
            relays_in_mbit: of(|seen| seen.usage.relays_in_mbit),
            fullest: nearest.map_or_else(String::new, |seen| seen.usage.fullest.clone()),
            fullest_percent: nearest.map_or(0.0, |seen| seen.usage.fullest_percent),
            machine_percent: of(|seen| seen.usage.machine_percent),
            relay_processors: of(|seen| seen.usage.relay_processors),
            back_end_processors: of(|seen| seen.usage.back_end_processors),
            front_processors: of(|seen| seen.usage.front_processors),
        }
    }
}

/// Returns the median, or 0 if there are no figures.
pub(crate) fn median(figures: Vec<f64>) -> f64 {
    treefold_figures::median(figures).unwrap_or(0.0)
}

/// Formats the rows of an experiment as a table.
pub(crate) fn table(varied: &str, points: &[Point]) -> String {
    let head = [
        "series",
        varied,
        "folded Mbit/s",
        "answers/s",
        "p50 ms",
        "p99 ms",
        "fronts in",
        "relays in",
        "fullest link",
        "machine",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for point in points {
        lines.push(vec![
            point.series.clone(),
            point.at.to_string(),
            format!("{:.1}", point.folded_mbit),
            format!("{:.1}", point.answers_per_s),
            format!("{:.0}", point.p50_ms),
            format!("{:.0}", point.p99_ms),
            format!("{:.1}", point.fronts_in_mbit),
            format!("{:.1}", point.relays_in_mbit),
            format!("{} {:.0} %", point.fullest, point.fullest_percent),
            format!("{:.0} %", point.machine_percent),
        ]);
    }
    aligned(&lines)
}

/// Aligns the cells in columns.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |cells: &Vec<String>| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn columns_are_aligned() {
        let lines = [vec!["a".to_owned(), "b".to_owned()], vec!["ccc".to_owned(), "d".to_owned()]];
        assert_eq!(aligned(&lines), "a    b\nccc  d");
    }
}
