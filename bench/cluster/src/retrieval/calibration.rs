//! The costs of the work, and the factor by which they are stretched.
//!
//! Each query is asked once and alone. Each node measures the processor time of its local then, and keeps it for
//! the run. The factor makes the mean local as long as a node of two processors takes that answers the wanted
//! number of requests per second.
//!
//! The slowest partition bounds the throughput of all. The paper's partitions are of nearly equal sizes; a folder's
//! need not be, because files are assigned to partitions by their paths. So each partition is asked for a sample of
//! the queries too.

use super::caller::{Caller, Question};
use super::layout::SMALL_PROCESSORS;
use crate::load::args::ideal_per_s;
use indicatif::ProgressBar;
use serde::Serialize;
use std::fmt;
use treefold_cli::exit::Failure;
use treefold_cli::output::rounded;

/// Queries for which each partition is asked.
const SAMPLED: usize = 32;

/// The costs of a call. Times are means.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Calibration {
    queries: usize,
    #[serde(serialize_with = "rounded")]
    words_mean: f64,
    /// Processor time of a local.
    #[serde(serialize_with = "rounded")]
    local_ms: f64,
    /// Deviation of the queries' mean locals, as a share of their mean.
    #[serde(serialize_with = "rounded")]
    local_deviation: f64,
    /// Mean local of the slowest partition, as a multiple of the mean of all.
    #[serde(serialize_with = "rounded")]
    slowest_partition: f64,
    /// Processor time of a reduce, in a flat tree.
    #[serde(serialize_with = "rounded")]
    reduce_ms: f64,
    #[serde(serialize_with = "rounded")]
    pub(super) factor: f64,
    #[serde(serialize_with = "rounded")]
    stretched_local_ms: f64,
    #[serde(serialize_with = "rounded")]
    stretched_reduce_ms: f64,
    /// Calls per second at which all processors would always be busy.
    #[serde(serialize_with = "rounded")]
    pub(super) ideal_per_s: f64,
}

impl Calibration {
    /// Asks each question once and alone.
    pub(super) async fn of(
        caller: &Caller,
        questions: &[Question],
        node_rate_per_s: f64,
        processors: &[u32],
        words_mean: f64,
    ) -> Result<Self, Failure> {
        let bar = ProgressBar::new(questions.len() as u64).with_message("measuring costs");
        let mut costs = Vec::with_capacity(questions.len());
        for question in questions {
            let answer = caller.ask_alone(question).await?;
            let mean = |ns: u64, jobs: u32| ns as f64 / 1e6 / f64::from(jobs.max(1));
            costs.push((mean(answer.local_ns, answer.locals), mean(answer.reduce_ns, answer.reduces)));
            bar.inc(1);
        }
        bar.finish_and_clear();
        let mut work = Self::from_costs(&costs, node_rate_per_s, processors, words_mean);
        work.slowest_partition = slowest_partition(caller, questions).await?;
        Ok(work)
    }

    /// Takes the mean costs of a local and of a reduce for each query, in ms.
    fn from_costs(costs: &[(f64, f64)], node_rate_per_s: f64, processors: &[u32], words_mean: f64) -> Self {
        let number = costs.len() as f64;
        let local_ms = costs.iter().map(|(local, _)| local).sum::<f64>() / number;
        let reduce_ms = costs.iter().map(|(_, reduce)| reduce).sum::<f64>() / number;
        let variance = costs.iter().map(|(local, _)| (local - local_ms).powi(2)).sum::<f64>() / number;
        let stretched_local_ms = f64::from(SMALL_PROCESSORS) * 1e3 / node_rate_per_s;
        let factor = stretched_local_ms / local_ms;
        let stretched_reduce_ms = reduce_ms * factor;
        Self {
            queries: costs.len(),
            words_mean,
            local_ms,
            local_deviation: variance.sqrt() / local_ms,
            slowest_partition: 1.0,
            reduce_ms,
            factor,
            stretched_local_ms,
            stretched_reduce_ms,
            ideal_per_s: ideal_per_s(processors, stretched_local_ms, stretched_reduce_ms),
        }
    }
}

/// Asks each partition for some of the questions; returns the largest mean cost as a multiple of the mean of all.
async fn slowest_partition(caller: &Caller, questions: &[Question]) -> Result<f64, Failure> {
    let mut sums_ns = Vec::new();
    for partition in caller.asked().iter() {
        let mut sum_ns = 0;
        for question in questions.iter().take(SAMPLED) {
            sum_ns += caller.ask_partition(partition, question).await?.local_ns;
        }
        sums_ns.push(sum_ns);
    }
    let (most, all) = (sums_ns.iter().max().copied().unwrap_or_default(), sums_ns.iter().sum::<u64>());
    Ok(most as f64 * sums_ns.len() as f64 / all.max(1) as f64)
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} queries of {:.2} words; a local takes {:.3} ms of processor time (deviation {:.2} of it), a reduce {:.3} ms",
            self.queries, self.words_mean, self.local_ms, self.local_deviation, self.reduce_ms
        )?;
        write!(
            f,
            "stretched by {:.0}: a local {:.1} ms ({:.1} times as long at the slowest partition), a reduce {:.1} ms; load 1 is \
             {:.1} calls/s",
            self.factor,
            self.stretched_local_ms,
            self.slowest_partition,
            self.stretched_reduce_ms,
            self.ideal_per_s
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_saturates_a_node_at_its_rate() {
        let work = Calibration::from_costs(&[(0.3, 0.01), (0.7, 0.03)], 20.0, &[2; 24], 2.4);
        assert!((work.local_ms - 0.5).abs() < 1e-9 && (work.local_deviation - 0.4).abs() < 1e-9);
        assert!((work.stretched_local_ms - 100.0).abs() < 1e-9, "two processors, 20 requests/s");
        assert!((work.factor - 200.0).abs() < 1e-9 && (work.stretched_reduce_ms - 4.0).abs() < 1e-9);
        assert!((work.ideal_per_s - 48_000.0 / (24.0 * 100.0 + 23.0 * 4.0)).abs() < 1e-9);
        assert!(work.to_string().contains("stretched by 200: a local 100.0 ms (1.0 times"));
    }
}
