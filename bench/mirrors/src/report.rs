//! Rounds, medians, and rows of tables.

use crate::trial::Point;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use treefold_figures::median;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

/// A row of figures: what was measured, and the figures by their names.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) case: Vec<(&'static str, String)>,
    pub(crate) figures: Vec<(&'static str, f64)>,
}

impl Row {
    /// The median of each figure over rows of one case.
    pub(crate) fn medians(rows: &[Self]) -> Option<Self> {
        let first = rows.first()?;
        let figures = first.figures.iter().enumerate().map(|(at, &(name, _))| {
            let values = rows.iter().map(|row| row.figures[at].1).collect();
            (name, median(values).unwrap_or(0.0))
        });
        Some(Self { case: first.case.clone(), figures: figures.collect() })
    }

    /// The figures of a load.
    pub(crate) fn of_point(case: Vec<(&'static str, String)>, point: &Point) -> Self {
        let figures = vec![
            ("offered_per_s", point.offered_per_s),
            ("events_per_s", point.events_per_s),
            ("delay_p50_us", point.delay_p50_us),
            ("delay_p99_us", point.delay_p99_us),
            ("delay_mean_us", point.delay_mean_us),
            ("pause_ms_max", point.pause_ms_max),
            ("lagged", point.lagged),
            ("joins_per_s", point.joins_per_s),
            ("join_ms_p50", point.join_ms_p50),
            ("join_ms_p99", point.join_ms_p99),
            ("joins_failed", point.joins_failed),
            ("joins_short", point.joins_short),
            ("server_cpus", point.server_cpus),
            ("source_cpus", point.source_cpus),
        ];
        Self { case, figures }
    }
}

/// Prints rows of one kind: a table, or a line of JSON for each.
pub(crate) fn print(rows: &[Row], output: Output) {
    if output == Output::Json {
        for Row { case, figures } in rows {
            let case = case.iter().map(|(name, value)| {
                let number = value.parse::<f64>().ok().map(|number| json!(number));
                ((*name).to_owned(), number.unwrap_or_else(|| json!(value)))
            });
            let figures = figures.iter().map(|&(name, value)| (name.to_owned(), json!(rounded(value))));
            let members: Map<String, Value> = case.chain(figures).collect();
            println!("{}", Value::Object(members));
        }
        return;
    }
    let Some(first) = rows.first() else { return };
    let head = first.case.iter().map(|(name, _)| (*name).to_owned());
    let head: Vec<String> = head.chain(first.figures.iter().map(|(name, _)| (*name).to_owned())).collect();
    let line = |Row { case, figures }: &Row| -> Vec<String> {
        let case = case.iter().map(|(_, value)| value.clone());
        case.chain(figures.iter().map(|&(_, value)| rounded(value).to_string())).collect()
    };
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows.iter().map(line)).collect();
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|at| lines.iter().map(|line| line.get(at).map_or(0, String::len)).max().unwrap_or(0))
        .collect();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        println!("{}", cells.collect::<Vec<_>>().join("  "));
    }
}

/// A figure with about four digits.
fn rounded(value: f64) -> f64 {
    if !value.is_finite() {
        return 0.0;
    }
    match value.abs() {
        ..1.0 => (value * 1e3).round() / 1e3,
        1.0..100.0 => (value * 1e2).round() / 1e2,
        _ => value.round(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_those_of_each_figure() {
        let row = |a: f64, b: f64| Row {
            case: vec![("system", "x".to_owned())],
            figures: vec![("a", a), ("b", b)],
        };
        let median = Row::medians(&[row(1.0, 9.0), row(5.0, 7.0), row(3.0, 8.0)]).unwrap();
        assert_eq!(median.figures, [("a", 3.0), ("b", 8.0)]);
        assert!(Row::medians(&[]).is_none());
    }
}
