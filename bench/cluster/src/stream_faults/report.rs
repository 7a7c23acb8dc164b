//! Report of a run with faults, as text and as JSON.

use super::judge::Findings;
use super::watch::Record;
use crate::breaker::Fault;
use serde::{Serialize, Serializer};
use std::time::{Duration, Instant};
use treefold_cli::commands::bench::call::quantile_us;
use treefold_cli::output::rounded;

/// The whole report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) backends: u32,
    pub(super) shape: String,
    pub(super) mode: String,
    pub(super) seed: u64,
    pub(super) kills: u64,
    pub(super) stops: u64,
    #[serde(serialize_with = "rounded")]
    pub(super) seconds: f64,
    #[serde(flatten, serialize_with = "with_answers")]
    pub(super) findings: Findings,
    #[serde(flatten, serialize_with = "summarised")]
    pub(super) faults: Faults,
}

/// The faults of a run, in order.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) began_at: Instant,
    pub(super) records: Vec<Record>,
}

impl Faults {
    fn inner_broken(&self) -> usize {
        self.records.iter().filter(|record| record.was_inner).count()
    }

    fn recovered(&self, from_several: bool) -> Spread {
        let records = self.records.iter().filter(|record| record.is_one_of_several == from_several);
        Spread::of(records.filter_map(|record| record.recovered))
    }

    fn returned(&self) -> Spread {
        Spread::of(self.records.iter().filter_map(|record| record.returned))
    }

    fn told(&self) -> Vec<Told> {
        let ms = |time: Option<Duration>| time.map(|time| time.as_millis());
        let tell = |record: &Record| Told {
            at_ms: (record.at - self.began_at).as_millis(),
            backend: record.endpoint,
            fault: if record.fault == Fault::Killed { "killed" } else { "stopped" },
            inner: record.was_inner,
            recovered_ms: ms(record.recovered),
            one_of_several: record.is_one_of_several,
            returned_ms: ms(record.returned),
        };
        self.records.iter().map(tell).collect()
    }
}

/// A fault as printed in JSON.
#[derive(Debug, Serialize)]
struct Told {
    at_ms: u128,
    backend: u32,
    fault: &'static str,
    inner: bool,
    recovered_ms: Option<u128>,
    one_of_several: bool,
    returned_ms: Option<u128>,
}

/// Count and quantiles of durations.
#[derive(Debug, Serialize)]
struct Spread {
    count: usize,
    #[serde(serialize_with = "rounded")]
    ms_p50: f64,
    #[serde(serialize_with = "rounded")]
    ms_p99: f64,
    #[serde(serialize_with = "rounded")]
    ms_max: f64,
}

impl Spread {
    fn of(times: impl Iterator<Item = Duration>) -> Self {
        let mut ascending: Vec<Duration> = times.collect();
        ascending.sort_unstable();
        let at = |share| quantile_us(&ascending, share) / 1e3;
        Self { count: ascending.len(), ms_p50: at(0.50), ms_p99: at(0.99), ms_max: at(1.0) }
    }

    fn line(&self) -> String {
        let Self { count, ms_p50, ms_p99, ms_max } = self;
        format!(
            "{ms_p50:.1} ms median, {ms_p99:.1} ms at the 99th percentile, {ms_max:.1} ms at most, of {count}"
        )
    }
}

fn with_answers<S: Serializer>(findings: &Findings, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Shown<'a> {
        #[serde(flatten)]
        findings: &'a Findings,
        answered: Spread,
    }
    Shown { findings, answered: Spread::of(findings.answers.iter().copied()) }.serialize(to)
}

fn summarised<S: Serializer>(faults: &Faults, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Shown {
        inner_broken: usize,
        recovered: Spread,
        recovered_from_several: Spread,
        returned: Spread,
        faults: Vec<Told>,
    }
    let shown = Shown {
        inner_broken: faults.inner_broken(),
        recovered: faults.recovered(false),
        recovered_from_several: faults.recovered(true),
        returned: faults.returned(),
        faults: faults.told(),
    };
    shown.serialize(to)
}

impl Report {
    /// Describes the error of the run; `None` if there is none.
    pub(super) fn verdict(&self) -> Option<String> {
        let Findings { wrong, unanswered, cases, .. } = &self.findings;
        (wrong + unanswered > 0).then(|| {
            let first = cases.first().map_or("", String::as_str);
            format!("{wrong} waves were wrong and {unanswered} rounds unanswered; the first: {first}")
        })
    }

    pub(super) fn render(&self) -> String {
        let Self { backends, shape, mode, seed, kills, stops, seconds, findings, faults } = self;
        let Findings { waves, full, partial, wrong, unanswered, survivors_missed, cases, answers } = findings;
        let cases: String = cases.iter().map(|case| format!("\n  {case}")).collect();
        format!(
            "{backends} back-ends, {shape}, {mode}, seed {seed}\n  faults      {kills} kills, {stops} stops in \
             {seconds:.0} s, {} of them of inner nodes\n  waves       {waves}: {full} full, {partial} partial\n  wrong       \
             {wrong}, unanswered {unanswered}\n  survivors   missed {survivors_missed} times\n  recovered   {}\n  \
             of several  {}\n  returned    {}\n  answered    {}{cases}",
            faults.inner_broken(),
            faults.recovered(false).line(),
            faults.recovered(true).line(),
            faults.returned().line(),
            Spread::of(answers.iter().copied()).line(),
        )
    }
}
