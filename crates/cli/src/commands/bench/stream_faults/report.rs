//! What a run of faults showed, for people and for scripts.

use super::judge::Findings;
use super::watch::Times;
use crate::commands::bench::call::quantile_us;
use crate::output::rounded;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// The whole of it.
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
    pub(super) times: Times,
}

/// Durations in short.
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
    fn of(times: &[Duration]) -> Self {
        let mut ascending = times.to_vec();
        ascending.sort_unstable();
        let at = |share| if ascending.is_empty() { 0.0 } else { quantile_us(&ascending, share) / 1e3 };
        Self { count: times.len(), ms_p50: at(0.50), ms_p99: at(0.99), ms_max: at(1.0) }
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
    Shown { findings, answered: Spread::of(&findings.answers) }.serialize(to)
}

fn summarised<S: Serializer>(times: &Times, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Shown {
        inner_broken: u64,
        recovered: Spread,
        recovered_from_several: Spread,
        returned: Spread,
    }
    let shown = Shown {
        inner_broken: times.inner_broken,
        recovered: Spread::of(&times.recovered),
        recovered_from_several: Spread::of(&times.recovered_from_several),
        returned: Spread::of(&times.returned),
    };
    shown.serialize(to)
}

impl Report {
    /// What is wrong, if anything is.
    pub(super) fn verdict(&self) -> Option<String> {
        let Findings { wrong, unanswered, cases, .. } = &self.findings;
        (wrong + unanswered > 0).then(|| {
            let first = cases.first().map_or("", String::as_str);
            format!("{wrong} waves were wrong and {unanswered} rounds unanswered, first {first}")
        })
    }

    pub(super) fn render(&self) -> String {
        let Self { backends, shape, mode, seed, kills, stops, seconds, findings, times } = self;
        let Findings { waves, full, partial, wrong, unanswered, survivors_missed, cases, answers } = findings;
        let cases: String = cases.iter().map(|case| format!("\n  {case}")).collect();
        format!(
            "{backends} back-ends, {shape}, {mode}, seed {seed}\n  faults      {kills} kills, {stops} stops in \
             {seconds:.0} s, {} of them of inner nodes\n  waves       {waves}: {full} full, {partial} partial\n  wrong       \
             {wrong}, unanswered {unanswered}\n  survivors   missed {survivors_missed} times\n  recovered   {}\n  \
             of several  {}\n  returned    {}\n  answered    {}{cases}",
            times.inner_broken,
            Spread::of(&times.recovered).line(),
            Spread::of(&times.recovered_from_several).line(),
            Spread::of(&times.returned).line(),
            Spread::of(answers).line(),
        )
    }
}
