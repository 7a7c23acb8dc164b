//! Computes figures from the results of calls, and prints them.
//!
//! A figure is computed for each round, because a round has its own seed: its arrivals and its service times. A point
//! has the mean over the rounds, and the interval of this mean. Ratios to the ideal are computed within a round, where
//! both have the same arrivals and the same service times.

use super::caller::Notes;
use super::series::{Chooser, Series};
use crate::load::trial::{Ending, Record};
use serde::{Serialize, Serializer};
use std::time::Duration;
use treefold_cli::commands::bench::call::quantile_us;
use treefold_cli::fleet::cost::Ticks;
use treefold_cli::output::style::Style;
use treefold_cli::output::table::{Align, Table};
use treefold_figures::mean_interval;

/// Number of rounds from which on a mean has an interval.
const ROUNDS_OF_INTERVAL: usize = 3;

/// One series at one load, with the results of its rounds.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) series: Series,
    pub(super) load: f64,
    pub(super) busy: f64,
    pub(super) rate_per_s: f64,
    rounds: Vec<Round>,
    /// The times of its calls on the idle cluster.
    pub(super) idle: Notes,
    /// The simulator's mean response time of each seed; empty if nothing was simulated.
    pub(super) simulated_ms: Vec<f64>,
}

/// The results of one trial.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) record: Record,
    /// Length of the measurement; calls that were planned in it are measured.
    pub(super) seconds: f64,
    pub(super) notes: Notes,
    /// Processor time of the servers and of the fronts in the whole trial.
    pub(super) servers: Duration,
    pub(super) fronts: Duration,
    /// Processor time that the servers' quotas allow in the whole trial.
    pub(super) quota: Option<Duration>,
}

/// The figures of one trial.
#[derive(Clone, Debug, Default)]
struct Round {
    mean_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    notes: Notes,
    calls: Count,
    machine: Ticks,
    own_s: f64,
    servers_us: f64,
    servers_busy: Option<f64>,
    fronts_us: f64,
    late_us: f64,
    sent_late_us: f64,
}

/// Numbers of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Count {
    made: usize,
    answered: usize,
    /// Calls without an answer, the refused ones included.
    lost: usize,
    refused: usize,
}

impl Round {
    fn of(measured: Measured) -> Self {
        let Measured { record, seconds, notes, servers, fronts, quota } = measured;
        let all = record.samples.len() as f64;
        let mut round = Self { notes, machine: record.machine, own_s: record.own_s, ..Self::default() };
        let mut responses = Vec::new();
        let (mut jobs, mut late_ns, mut sent_late) = (0, 0, Duration::ZERO);
        for sample in record.samples.iter().filter(|sample| (0.0..seconds).contains(&sample.planned_s)) {
            round.calls.made += 1;
            sent_late += sample.sent_late;
            match &sample.ending {
                Ending::Answered(times) => {
                    responses.push(sample.response);
                    jobs += times.jobs;
                    late_ns += times.late_ns;
                }
                ending => round.calls.refused += usize::from(*ending == Ending::Refused),
            }
        }
        responses.sort_unstable();
        let sum_ms: f64 = responses.iter().map(|response| response.as_secs_f64() * 1e3).sum();
        round.calls.answered = responses.len();
        round.calls.lost = round.calls.made - responses.len();
        round.mean_ms = share(sum_ms, responses.len() as f64);
        round.p95_ms = quantile_us(&responses, 0.95) / 1e3;
        round.p99_ms = quantile_us(&responses, 0.99) / 1e3;
        round.servers_us = share(servers.as_secs_f64() * 1e6, all);
        round.servers_busy = quota.map(|quota| share(servers.as_secs_f64(), quota.as_secs_f64()));
        round.fronts_us = share(fronts.as_secs_f64() * 1e6, all);
        round.late_us = share(late_ns as f64 / 1e3, jobs as f64);
        round.sent_late_us = share(sent_late.as_secs_f64() * 1e6, round.calls.made as f64);
        round
    }
}

impl Cell {
    pub(super) fn new(series: Series, load: f64, (rate_per_s, busy): (f64, f64)) -> Self {
        Self {
            series,
            load,
            busy,
            rate_per_s,
            rounds: Vec::new(),
            idle: Notes::default(),
            simulated_ms: Vec::new(),
        }
    }

    /// Returns the mean processor time of the servers for one call, in ms.
    pub(super) fn servers_ms(&self) -> f64 {
        mean(&self.rounds.iter().map(|round| round.servers_us / 1e3).collect::<Vec<_>>())
    }

    /// Adds the results of one more round.
    pub(super) fn add(&mut self, measured: Measured) {
        self.rounds.push(Round::of(measured));
    }

    /// Returns the point of this cell. `ideal` is the cell of the same load that chose by perfect knowledge.
    fn point(&self, workload: &'static str, timeouts: &[Duration], ideal: Option<&Self>) -> Point {
        let polls = self.series.chooser.polls();
        let timeout_ms = polls.then(|| timeouts[self.series.crew].as_secs_f64() * 1e3);
        let to_ideal = ideal.map(|ideal| {
            let ratio = |figure: fn(&Round) -> f64| {
                let pairs = self.rounds.iter().zip(&ideal.rounds);
                pairs.map(|(round, ideal)| share(figure(round), figure(ideal))).collect()
            };
            Figures::of([
                ratio(|round| round.mean_ms),
                ratio(|round| round.p95_ms),
                ratio(|round| round.p99_ms),
            ])
        });
        let all = |figure: fn(&Round) -> f64| self.rounds.iter().map(figure).collect::<Vec<f64>>();
        Point {
            workload,
            series: self.series.chooser.to_string(),
            poll_timeout_ms: timeout_ms,
            load: self.load,
            busy: self.busy,
            rate_per_s: self.rate_per_s,
            rounds: self.rounds.len(),
            response_ms: Figures::of([
                all(|round| round.mean_ms),
                all(|round| round.p95_ms),
                all(|round| round.p99_ms),
            ]),
            to_ideal,
            simulated: self.simulated(ideal),
            choosing: self.choosing(ideal),
            local_ms: mean_ms(self.noted(|notes| &notes.local)).unwrap_or_default(),
            calls: self.calls(),
            cost: self.cost(),
        }
    }

    fn simulated(&self, ideal: Option<&Self>) -> Option<Simulated> {
        let mean_ms = Some(&self.simulated_ms).filter(|seeds| !seeds.is_empty()).map(|seeds| mean(seeds))?;
        let ideal = ideal.filter(|ideal| !ideal.simulated_ms.is_empty());
        Some(Simulated { mean_ms, to_ideal: ideal.map(|ideal| share(mean_ms, mean(&ideal.simulated_ms))) })
    }

    fn noted(&self, times: fn(&Notes) -> &Vec<Duration>) -> impl Iterator<Item = Duration> {
        self.rounds.iter().flat_map(move |round| times(&round.notes).iter().copied())
    }

    fn choosing(&self, ideal: Option<&Self>) -> Choosing {
        let outside_ms = |cell: &Self| mean_ms(cell.noted(|notes| &notes.outside)).unwrap_or_default();
        let calls = self.noted(|notes| &notes.outside).count() as f64;
        let later = |than| {
            share(self.noted(|notes| &notes.outside).filter(|&time| time > than).count() as f64, calls)
        };
        let in_us = |ms: Option<f64>| ms.map(|ms| ms * 1e3);
        let ms_mean = outside_ms(self);
        let ideal = ideal.filter(|_| self.series.chooser.polls());
        Choosing {
            ms_mean,
            ms_idle: mean_ms(self.idle.outside.iter().copied()).unwrap_or_default(),
            polling_ms: ideal.map(|ideal| ms_mean - outside_ms(ideal)),
            later_than_10ms: later(Duration::from_millis(10)),
            later_than_20ms: later(Duration::from_millis(20)),
            inquiry_us: in_us(mean_ms(self.noted(|notes| &notes.inquiries))),
            inquiry_us_idle: in_us(mean_ms(self.idle.inquiries.iter().copied())),
        }
    }

    fn calls(&self) -> Count {
        self.rounds.iter().fold(Count::default(), |sum, Round { calls, .. }| Count {
            made: sum.made + calls.made,
            answered: sum.answered + calls.answered,
            lost: sum.lost + calls.lost,
            refused: sum.refused + calls.refused,
        })
    }

    fn cost(&self) -> Cost {
        let mean_of = |figure: fn(&Round) -> f64| mean(&self.rounds.iter().map(figure).collect::<Vec<_>>());
        let machine = self.rounds.iter().fold(Ticks::default(), |sum, round| sum + round.machine);
        let own_s: f64 = self.rounds.iter().map(|round| round.own_s).sum();
        Cost {
            servers_us: mean_of(|round| round.servers_us),
            servers_busy: self
                .rounds
                .iter()
                .map(|round| round.servers_busy)
                .collect::<Option<Vec<_>>>()
                .map(|busy| mean(&busy)),
            fronts_us: mean_of(|round| round.fronts_us),
            cpu_busy: share(machine.busy_s, machine.capacity_s),
            cpu_own: share(own_s, machine.capacity_s),
            late_us_mean: mean_of(|round| round.late_us),
            sent_late_us_mean: mean_of(|round| round.sent_late_us),
        }
    }
}

/// One measured point of one series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    workload: &'static str,
    series: String,
    /// `None` for a policy that does not poll.
    poll_timeout_ms: Option<f64>,
    load: f64,
    #[serde(serialize_with = "precisely")]
    busy: f64,
    #[serde(serialize_with = "precisely")]
    rate_per_s: f64,
    rounds: usize,
    response_ms: Figures,
    to_ideal: Option<Figures>,
    simulated: Option<Simulated>,
    choosing: Choosing,
    /// Mean time of a request's local: at its processor, without the queue.
    #[serde(serialize_with = "precisely")]
    local_ms: f64,
    calls: Count,
    cost: Cost,
}

/// Response times, or their ratios: means over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Figures {
    #[serde(serialize_with = "precisely")]
    mean: f64,
    #[serde(serialize_with = "precisely")]
    p95: f64,
    #[serde(serialize_with = "precisely")]
    p99: f64,
    /// Interval of `mean`; `None` with few rounds.
    #[serde(serialize_with = "precisely_if_any")]
    mean_low: Option<f64>,
    #[serde(serialize_with = "precisely_if_any")]
    mean_high: Option<f64>,
}

impl Figures {
    /// Takes the means, 95th and 99th percentiles of the rounds.
    fn of([means, p95, p99]: [Vec<f64>; 3]) -> Self {
        let interval = Some(&means).filter(|means| means.len() >= ROUNDS_OF_INTERVAL);
        let interval = interval.and_then(|means| mean_interval(means));
        Self {
            mean: mean(&means),
            p95: mean(&p95),
            p99: mean(&p99),
            mean_low: interval.map(|interval| interval.low),
            mean_high: interval.map(|interval| interval.high),
        }
    }
}

/// The mean response time in the simulator, with the same core and workload and free polls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Simulated {
    #[serde(serialize_with = "precisely")]
    mean_ms: f64,
    #[serde(serialize_with = "precisely_if_any")]
    to_ideal: Option<f64>,
}

/// The times of measured calls outside of their servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Choosing {
    #[serde(serialize_with = "precisely")]
    ms_mean: f64,
    /// Of calls without work, one at a time.
    #[serde(serialize_with = "precisely")]
    ms_idle: f64,
    /// Beyond that of ideal's calls; `None` without polls or without ideal.
    #[serde(serialize_with = "precisely_if_any")]
    polling_ms: Option<f64>,
    /// Shares of the calls.
    #[serde(serialize_with = "precisely")]
    later_than_10ms: f64,
    #[serde(serialize_with = "precisely")]
    later_than_20ms: f64,
    /// Time until the load index manager has named a server, under load and on the idle cluster.
    #[serde(serialize_with = "precisely_if_any")]
    inquiry_us: Option<f64>,
    #[serde(serialize_with = "precisely_if_any")]
    inquiry_us_idle: Option<f64>,
}

/// The real processor time of calls, and the error of the emulation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Cost {
    /// Processor time of all servers and of all fronts for one call.
    #[serde(serialize_with = "precisely")]
    servers_us: f64,
    /// Used part of the servers' quotas; `None` if they are emulated.
    #[serde(serialize_with = "precisely_if_any")]
    servers_busy: Option<f64>,
    #[serde(serialize_with = "precisely")]
    fronts_us: f64,
    /// Busy share of the machine's processors during the measurements.
    #[serde(serialize_with = "precisely")]
    cpu_busy: f64,
    /// Share of them that nodes and caller used.
    #[serde(serialize_with = "precisely")]
    cpu_own: f64,
    /// Mean time by which jobs ended later than due.
    #[serde(serialize_with = "precisely")]
    late_us_mean: f64,
    /// Mean time by which calls were made later than planned.
    #[serde(serialize_with = "precisely")]
    sent_late_us_mean: f64,
}

/// Returns the points of one workload's cells.
pub(super) fn points(workload: &'static str, timeouts: &[Duration], cells: &[Cell]) -> Vec<Point> {
    let ideal = |load: f64| {
        let of = |chooser| {
            let is_it = |cell: &&Cell| cell.series.chooser == chooser && cell.load.total_cmp(&load).is_eq();
            cells.iter().find(is_it)
        };
        of(Chooser::Ideal).or_else(|| of(Chooser::Manager))
    };
    cells.iter().map(|cell| cell.point(workload, timeouts, ideal(cell.load))).collect()
}

/// Prints the most important figures as a table.
pub(super) fn table(points: &[Point]) -> String {
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        ("workload", Align::Left),
        right("load"),
        ("policy", Align::Left),
        right("polls within"),
        right("mean ms"),
        right("to ideal"),
        right("95 %"),
        right("simulated"),
        right("p95"),
        right("p99"),
        right("choosing ms"),
        right("idle"),
        right("polling"),
        right("> 10 ms %"),
        right("inquiry µs"),
        right("local ms"),
        right("calls"),
        right("lost"),
        right("servers µs"),
        right("busy"),
        right("fronts µs"),
        right("cpu"),
    ]);
    for point in points {
        let ratio = |figure: fn(&Figures) -> f64| point.to_ideal.as_ref().map_or(0.0, figure);
        let has_ideal = point.to_ideal.is_some();
        let ratio_cell = |ratio: f64| if has_ideal { format!("{ratio:.2}") } else { String::new() };
        let interval = point.to_ideal.and_then(|figures| figures.mean_low.zip(figures.mean_high));
        let simulated = point.simulated.and_then(|simulated| simulated.to_ideal);
        table.row(vec![
            point.workload.to_owned(),
            format!("{:.2}", point.load),
            point.series.clone(),
            point.poll_timeout_ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms} ms")),
            format!("{:.1}", point.response_ms.mean),
            ratio_cell(ratio(|figures| figures.mean)),
            interval.map_or_else(String::new, |(low, high)| format!("{low:.2}–{high:.2}")),
            simulated.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            ratio_cell(ratio(|figures| figures.p95)),
            ratio_cell(ratio(|figures| figures.p99)),
            format!("{:.2}", point.choosing.ms_mean),
            format!("{:.2}", point.choosing.ms_idle),
            point.choosing.polling_ms.map_or_else(String::new, |ms| format!("{ms:.2}")),
            format!("{:.2}", point.choosing.later_than_10ms * 100.0),
            point.choosing.inquiry_us.map_or_else(String::new, |us| format!("{us:.0}")),
            format!("{:.1}", point.local_ms),
            point.calls.made.to_string(),
            point.calls.lost.to_string(),
            format!("{:.0}", point.cost.servers_us),
            point.cost.servers_busy.map_or_else(String::new, |busy| format!("{busy:.2}")),
            format!("{:.0}", point.cost.fronts_us),
            format!("{:.2}", point.cost.cpu_busy),
        ]);
    }
    table.render(Style::of_stdout())
}

/// Returns `part` / `whole`, or 0 if `whole` is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn mean(figures: &[f64]) -> f64 {
    share(figures.iter().sum(), figures.len() as f64)
}

/// Returns the mean of some times, in ms, if there are any.
fn mean_ms(times: impl Iterator<Item = Duration>) -> Option<f64> {
    let (sum, count) =
        times.fold((0.0, 0u32), |(sum, count), time| (sum + time.as_secs_f64() * 1e3, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Rounds to six decimals, because shares of thousandths need more than three.
fn precisely<S: Serializer>(figure: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((figure * 1e6).round() / 1e6)
}

fn precisely_if_any<S: Serializer>(figure: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match figure {
        Some(figure) => precisely(figure, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::trial::{Sample, Times};
    use treefold::ReplicaPolicy;

    const TIMEOUTS: [Duration; 1] = [Duration::from_secs(60)];

    fn sample(planned_s: f64, response_ms: u64, ending: Ending) -> Sample {
        let (sent_late, response) = (Duration::from_micros(50), Duration::from_millis(response_ms));
        Sample { planned_s, sent_late, response, coverage: 1.0, ending }
    }

    fn answered(planned_s: f64, response_ms: u64) -> Sample {
        sample(planned_s, response_ms, Ending::Answered(Times { jobs: 1, asked_ns: 1, late_ns: 2_000 }))
    }

    fn measured(samples: Vec<Sample>) -> Measured {
        let machine = Ticks { busy_s: 1.0, capacity_s: 4.0 };
        Measured {
            record: Record { samples, machine, own_s: 0.5 },
            seconds: 4.0,
            notes: Notes { outside: [1, 12, 25, 2].map(Duration::from_millis).to_vec(), ..Notes::default() },
            servers: Duration::from_micros(600),
            fronts: Duration::from_micros(300),
            quota: Some(Duration::from_micros(1_200)),
        }
    }

    /// A cell whose calls take `times` as long as those of the ideal, in each of its rounds.
    fn cell(chooser: Chooser, times: &[u64]) -> Cell {
        let mut cell = Cell::new(Series { chooser, crew: 0 }, 0.9, (100.0, 0.8));
        for (round, times) in (1..).zip(times) {
            cell.add(measured(vec![
                answered(-1.0, 900),
                answered(0.5, round * 10 * times),
                answered(1.0, round * 30 * times),
            ]));
        }
        cell
    }

    #[test]
    fn ratios_compare_calls_of_the_same_round() {
        let polled = Chooser::Policy(ReplicaPolicy::Polled { polls: 2 });
        let mut cells = [cell(polled, &[2, 2, 2]), cell(Chooser::Ideal, &[1, 1, 1])];
        cells[0].simulated_ms = vec![20.0, 40.0];
        cells[1].simulated_ms = vec![10.0, 10.0];
        let points = points("test", &TIMEOUTS, &cells);
        assert_eq!(points[0].simulated, Some(Simulated { mean_ms: 30.0, to_ideal: Some(3.0) }));
        let ratios = points[0].to_ideal.unwrap();
        assert_eq!((ratios.mean, ratios.p95, ratios.p99), (2.0, 2.0, 2.0));
        assert_eq!((ratios.mean_low, ratios.mean_high), (Some(2.0), Some(2.0)), "the same in each round");
        assert_eq!(points[1].to_ideal.unwrap().mean, 1.0);
        assert_eq!((points[0].response_ms.mean, points[0].response_ms.p99), (80.0, 120.0));
        assert_eq!((points[0].poll_timeout_ms, points[1].poll_timeout_ms), (Some(60_000.0), None));
    }

    #[test]
    fn manager_stands_for_ideal_where_that_is_not_measured() {
        let polled = Chooser::Policy(ReplicaPolicy::Polled { polls: 2 });
        let mut manager = cell(Chooser::Manager, &[1, 1, 1]);
        manager.idle.inquiries = [40, 60].map(Duration::from_micros).to_vec();
        let points = points("test", &TIMEOUTS, &[cell(polled, &[2, 2, 2]), manager]);
        assert_eq!(points[0].to_ideal.unwrap().mean, 2.0);
        assert_eq!(points[0].choosing.polling_ms, Some(0.0), "both are outside of their servers for as long");
        assert_eq!((points[1].choosing.inquiry_us_idle, points[1].choosing.inquiry_us), (Some(50.0), None));
    }

    #[test]
    fn few_rounds_have_no_interval_and_no_ideal_gives_no_ratio() {
        let random = Chooser::Policy(ReplicaPolicy::Random);
        let point = &points("test", &TIMEOUTS, &[cell(random, &[1, 1])])[0];
        assert_eq!((point.to_ideal, point.simulated, point.response_ms.mean_low), (None, None, None));
        let json = serde_json::to_value(point).unwrap();
        assert!(json["response_ms"]["mean_low"].is_null() && json["to_ideal"].is_null(), "{json}");
    }

    #[test]
    fn lost_calls_are_counted_and_have_no_response_time() {
        let mut cell = Cell::new(Series { chooser: Chooser::Ideal, crew: 0 }, 0.9, (100.0, 0.8));
        cell.add(measured(vec![
            answered(0.5, 20),
            sample(1.0, 5_000, Ending::Insufficient),
            sample(3.0, 1, Ending::Refused),
            answered(4.0, 70),
        ]));
        let point = &points("test", &TIMEOUTS, &[cell])[0];
        assert_eq!(point.calls, Count { made: 3, answered: 1, lost: 2, refused: 1 });
        assert_eq!(point.response_ms.mean, 20.0);
        assert_eq!((point.cost.servers_us, point.cost.fronts_us), (150.0, 75.0), "of all four calls");
        assert_eq!((point.cost.cpu_busy, point.cost.late_us_mean), (0.25, 2.0));
        assert_eq!((point.choosing.ms_mean, point.choosing.later_than_10ms), (10.0, 0.5));
        assert_eq!(point.choosing.later_than_20ms, 0.25);
        assert_eq!((point.cost.servers_busy, point.choosing.polling_ms), (Some(0.5), None));
    }
}
