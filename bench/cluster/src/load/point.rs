//! Computes figures from the results of calls, and prints them.
//!
//! A point has the field names of the simulator's points, so that the same tools can draw and compare both.
//! Two groups of fields exist only for real runs: the error of the emulation and the load of the machine.
//! They show whether a figure measures a tree or a busy machine.

use super::trial::{Ending, Record, Sample};
use serde::Serialize;
use std::time::Duration;
use treefold::Shape;
use treefold_cli::commands::bench::call::quantile_us;
use treefold_cli::fleet::cost::Ticks;
use treefold_cli::output::style::Style;
use treefold_cli::output::table::{Align, Table};

/// One shape at one rate, with the results of its calls.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) shape: Shape,
    pub(crate) rate_per_s: f64,
    record: Record,
}

/// Properties that all cells of a cluster share.
pub(crate) struct Scene {
    pub(crate) nodes: u32,
    pub(crate) processors: u32,
    pub(crate) ideal_per_s: f64,
    pub(crate) rounds: u32,
    /// Measured time in each round.
    pub(crate) seconds: f64,
}

/// One measured point of one series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Point {
    series: String,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    x: f64,
    /// Mean over answered calls, from their planned instants; 0 if no call was answered.
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    response_ms_mean: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    response_ms_p99: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    throughput_per_s: f64,
    /// Mean over all calls.
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    coverage_mean: f64,
    /// Throughput with each answer weighted by its coverage (DAC §5.5).
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    quality_per_s: f64,
    nodes: u32,
    processors: u32,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    rate_per_s: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    load: f64,
    calls: usize,
    answered: usize,
    refused: usize,
    silent: usize,
    /// Mean time by which jobs ended later than due.
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    late_us_mean: f64,
    /// The same, as a share of the jobs' requested durations.
    #[serde(serialize_with = "precisely")]
    late_share: f64,
    /// Mean time by which calls were made later than planned.
    ///
    /// It is part of their response times.
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    sent_late_us_mean: f64,
    /// Busy share of the machine's processors during the measurement.
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    cpu_busy: f64,
    /// Share of the machine's processors that the nodes and the caller used.
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    cpu_own: f64,
}

/// Rounds to six decimals, because shares of thousandths need more than three.
fn precisely<S: serde::Serializer>(figure: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((figure * 1e6).round() / 1e6)
}

impl Cell {
    pub(crate) fn new(shape: Shape, rate_per_s: f64) -> Self {
        Self { shape, rate_per_s, record: Record::default() }
    }

    /// Adds the results of one more round.
    pub(crate) fn add(&mut self, round: Record) {
        self.record.samples.extend(round.samples);
        self.record.machine = self.record.machine + round.machine;
        self.record.own_s += round.own_s;
    }

    /// Summarises the calls that were planned during the measured time as one point at `x`.
    pub(crate) fn point(&self, scene: &Scene, x: f64) -> Point {
        let is_measured = |sample: &&Sample| (0.0..scene.seconds).contains(&sample.planned_s);
        let measured: Vec<&Sample> = self.record.samples.iter().filter(is_measured).collect();
        self.point_of(&measured, scene, x, scene.seconds)
    }

    /// Returns one point for each `every_s` seconds, from the calls that ended in them.
    pub(crate) fn points_over_time(&self, scene: &Scene, every_s: f64) -> Vec<Point> {
        let windows = (scene.seconds / every_s).ceil() as usize;
        let mut ended: Vec<Vec<&Sample>> = vec![Vec::new(); windows];
        for sample in &self.record.samples {
            let ended_s = sample.planned_s + sample.response.as_secs_f64();
            if ended_s >= 0.0
                && let Some(window) = ended.get_mut((ended_s / every_s) as usize)
            {
                window.push(sample);
            }
        }
        let ends_s = (1..=windows).map(|window| window as f64 * every_s);
        ended.iter().zip(ends_s).map(|(ended, x)| self.point_of(ended, scene, x, every_s)).collect()
    }

    fn point_of(&self, samples: &[&Sample], scene: &Scene, x: f64, seconds: f64) -> Point {
        let answers = samples.iter().filter_map(|sample| match &sample.ending {
            Ending::Answered(times) => Some((sample, times)),
            _ => None,
        });
        let count = |ending: Ending| samples.iter().filter(|sample| sample.ending == ending).count();
        let (mut responses, mut quality) = (Vec::new(), 0.0);
        let (mut jobs, mut asked_ns, mut late_ns) = (0, 0, 0);
        for (sample, times) in answers {
            responses.push(sample.response);
            quality += sample.coverage;
            jobs += times.jobs;
            asked_ns += times.asked_ns;
            late_ns += times.late_ns;
        }
        responses.sort_unstable();
        let sum_ms: f64 = responses.iter().map(|response| response.as_secs_f64() * 1e3).sum();
        let sent_late: Duration = samples.iter().map(|sample| sample.sent_late).sum();
        let coverage: f64 = samples.iter().map(|sample| sample.coverage).sum();
        let all_seconds = seconds * f64::from(scene.rounds);
        let Ticks { busy_s, capacity_s } = self.record.machine;
        Point {
            series: self.shape.to_string(),
            x,
            response_ms_mean: share(sum_ms, responses.len() as f64),
            response_ms_p99: quantile_us(&responses, 0.99) / 1e3,
            throughput_per_s: responses.len() as f64 / all_seconds,
            coverage_mean: share(coverage, samples.len() as f64),
            quality_per_s: quality / all_seconds,
            nodes: scene.nodes,
            processors: scene.processors,
            rate_per_s: self.rate_per_s,
            load: self.rate_per_s / scene.ideal_per_s,
            calls: samples.len(),
            answered: responses.len(),
            refused: count(Ending::Refused),
            silent: count(Ending::Silent),
            late_us_mean: share(late_ns as f64 / 1e3, jobs as f64),
            late_share: share(late_ns as f64, asked_ns as f64),
            sent_late_us_mean: share(sent_late.as_secs_f64() * 1e6, samples.len() as f64),
            cpu_busy: share(busy_s, capacity_s),
            cpu_own: share(self.record.own_s, capacity_s),
        }
    }
}

/// Returns `part` / `whole`, or 0 if `whole` is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

impl Point {
    /// Names the series otherwise than by its shape.
    pub(crate) fn of_series(self, series: String) -> Self {
        Self { series, ..self }
    }

    /// Returns all fields in the order of their definition.
    fn fields(&self) -> Vec<(String, String)> {
        let json = serde_json::to_string(self).expect("invariant: names and figures have no failing parts");
        let fields: Ordered = serde_json::from_str(&json).expect("invariant: it has just been written");
        fields.0
    }
}

/// A JSON object's fields in written order; `serde_json`'s own map sorts them.
struct Ordered(Vec<(String, String)>);

impl<'de> serde::Deserialize<'de> for Ordered {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> serde::de::Visitor<'de> for Fields {
            type Value = Ordered;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, serde_json::Value>()? {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    fields.push((name, text));
                }
                Ok(Ordered(fields))
            }
        }
        from.deserialize_map(Fields)
    }
}

/// Prints comma-separated values below a line of names.
///
/// No value contains a comma.
pub(crate) fn csv(points: &[Point]) -> String {
    let joined = |cells: Vec<String>| cells.join(",");
    let names =
        points.first().map(|point| joined(point.fields().into_iter().map(|(name, _)| name).collect()));
    let rows =
        points.iter().map(|point| joined(point.fields().into_iter().map(|(_, value)| value).collect()));
    names.into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// Prints the most important fields as a table.
pub(crate) fn table(points: &[Point]) -> String {
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        ("shape", Align::Left),
        right("x"),
        right("nodes"),
        right("calls/s"),
        right("load"),
        right("response ms"),
        right("p99 ms"),
        right("answered/s"),
        right("coverage"),
        right("late %"),
        right("cpu"),
    ]);
    for point in points {
        table.row(vec![
            point.series.clone(),
            format!("{:.1}", point.x),
            point.nodes.to_string(),
            format!("{:.1}", point.rate_per_s),
            format!("{:.2}", point.load),
            format!("{:.1}", point.response_ms_mean),
            format!("{:.1}", point.response_ms_p99),
            format!("{:.1}", point.throughput_per_s),
            format!("{:.3}", point.coverage_mean),
            format!("{:.2}", point.late_share * 100.0),
            format!("{:.2}", point.cpu_busy),
        ]);
    }
    table.render(Style::of_stdout())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::trial::Times;

    fn sample(planned_s: f64, response_ms: u64, coverage: f64) -> Sample {
        let times = Times { jobs: 3, asked_ns: 55_000_000, late_ns: 300_000 };
        Sample {
            planned_s,
            sent_late: Duration::from_micros(50),
            response: Duration::from_millis(response_ms),
            coverage,
            ending: if coverage < 0.5 { Ending::Insufficient } else { Ending::Answered(times) },
        }
    }

    fn cell() -> Cell {
        let mut cell = Cell::new(Shape::Adaptive, 2.0);
        let samples = vec![
            sample(-1.0, 70, 1.0),
            sample(0.5, 100, 1.0),
            sample(1.5, 1_000, 0.5),
            sample(3.0, 2_000, 0.25),
            sample(4.0, 50, 1.0),
        ];
        cell.add(Record { samples, machine: Ticks { busy_s: 2.0, capacity_s: 8.0 }, own_s: 1.0 });
        cell
    }

    const SCENE: Scene = Scene { nodes: 2, processors: 4, ideal_per_s: 8.0, rounds: 1, seconds: 4.0 };

    #[test]
    fn point_counts_calls_planned_during_measurement() {
        let point = cell().point(&SCENE, 2.0);
        assert_eq!((point.calls, point.answered), (3, 2));
        assert_eq!((point.response_ms_mean, point.response_ms_p99), (550.0, 1_000.0));
        assert_eq!((point.throughput_per_s, point.quality_per_s), (0.5, 0.375));
        assert_eq!((point.load, point.cpu_busy, point.cpu_own), (0.25, 0.25, 0.125));
        assert!((point.coverage_mean - 1.75 / 3.0).abs() < 1e-9);
        assert!((point.late_us_mean - 100.0).abs() < 1e-9, "six jobs, 600 µs");
        assert!((point.late_share - 0.6 / 110.0).abs() < 1e-9);
    }

    #[test]
    fn points_over_time_count_calls_by_end() {
        let points = cell().points_over_time(&SCENE, 2.0);
        let seen: Vec<(f64, usize)> = points.iter().map(|point| (point.x, point.calls)).collect();
        assert_eq!(seen, [(2.0, 1), (4.0, 1)], "one ended at 0.6 s, one at 2.5 s, one after the run");
        assert_eq!(points[1].throughput_per_s, 0.5);
    }

    #[test]
    fn point_without_calls_has_zero_figures() {
        let none = Cell::new(Shape::Flat, 2.0).point(&SCENE, 2.0);
        assert_eq!(
            (none.calls, none.response_ms_mean, none.response_ms_p99, none.cpu_busy),
            (0, 0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn csv_has_a_header_line_of_field_names() {
        let csv = csv(&[cell().point(&SCENE, 2.0)]);
        let (names, values) = csv.split_once('\n').unwrap();
        assert!(
            names.starts_with("series,x,response_ms_mean,response_ms_p99,throughput_per_s,coverage_mean,")
        );
        assert!(values.starts_with("adaptive,2.0,550.0,1000.0,0.5,"), "{values}");
        assert_eq!(names.split(',').count(), values.split(',').count());
    }
}
