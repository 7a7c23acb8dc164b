//! Counts that processes report: events at a reader, and joins.

use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use treefold_bench_down::clock::now_ns;
use treefold_figures::quantile;

/// The events that a reader has received since the last mark.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) events: u64,
    /// Delay from the time at which an event was due.
    pub(crate) delay_p50_us: f64,
    pub(crate) delay_p99_us: f64,
    pub(crate) delay_mean_us: f64,
    /// Longest time without an event.
    pub(crate) pause_ms_max: f64,
    /// Times at which the reader was told that it lags, or was cut off.
    pub(crate) lagged: u64,
    /// Length of the measurement.
    pub(crate) seconds: f64,
}

/// Counts in a reader's process.
#[derive(Debug, Default)]
pub(crate) struct Counter(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    events: u64,
    delays_ns: Vec<u64>,
    last_ns: u64,
    pause_ns_max: u64,
    lagged: u64,
    marked_ns: u64,
}

impl Counter {
    /// Counts events that arrived at `now`, by the times at which they were due.
    pub(crate) fn note(&self, now: u64, due_ns: impl Iterator<Item = u64>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = counts.events;
        for due_ns in due_ns {
            counts.events += 1;
            // Events that fill the keys have no time.
            if due_ns > 0 {
                counts.delays_ns.push(now.saturating_sub(due_ns));
            }
        }
        if counts.events > before {
            let pause = if counts.last_ns == 0 { 0 } else { now.saturating_sub(counts.last_ns) };
            counts.pause_ns_max = counts.pause_ns_max.max(pause);
            counts.last_ns = now;
        }
    }

    pub(crate) fn note_lag(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lagged += 1;
    }

    /// Begins to count anew.
    pub(crate) fn mark(&self) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts = Counts { marked_ns: now_ns(), last_ns: counts.last_ns, ..Counts::default() };
    }

    /// The counts since the last mark.
    pub(crate) fn report(&self) -> Count {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now_ns();
        counts.delays_ns.sort_unstable();
        let of = |share| quantile(&counts.delays_ns, share).unwrap_or(0) as f64 / 1e3;
        let sum: u64 = counts.delays_ns.iter().sum();
        let last_pause = if counts.last_ns == 0 { 0 } else { now.saturating_sub(counts.last_ns) };
        Count {
            events: counts.events,
            delay_p50_us: of(0.5),
            delay_p99_us: of(0.99),
            delay_mean_us: sum as f64 / 1e3 / (counts.delays_ns.len() as f64).max(1.0),
            pause_ms_max: counts.pause_ns_max.max(last_pause) as f64 / 1e6,
            lagged: counts.lagged,
            seconds: now.saturating_sub(counts.marked_ns) as f64 / 1e9,
        }
    }
}

/// The joins since the last mark.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Joins {
    /// Joins with a complete snapshot.
    pub(crate) complete: u64,
    /// Joins that failed, and the last reason.
    pub(crate) failed: u64,
    pub(crate) problem: Option<String>,
    /// Joins whose snapshot had too few keys.
    pub(crate) short: u64,
    /// Time from the scheduled time of a join until its snapshot was complete.
    pub(crate) complete_ms_p50: f64,
    pub(crate) complete_ms_p99: f64,
    pub(crate) seconds: f64,
}

/// Counts joins in the joiner's process.
#[derive(Debug, Default)]
pub(crate) struct JoinCounter(Mutex<JoinCounts>);

#[derive(Debug, Default)]
struct JoinCounts {
    times_ns: Vec<u64>,
    failed: u64,
    problem: Option<String>,
    short: u64,
    marked_ns: u64,
}

impl JoinCounter {
    pub(crate) fn note(&self, due_ns: u64, joined: Result<u64, String>, keys: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match joined {
            Ok(rows) => {
                counts.times_ns.push(now_ns().saturating_sub(due_ns));
                counts.short += u64::from(rows < keys);
            }
            Err(problem) => {
                counts.failed += 1;
                counts.problem = Some(problem);
            }
        }
    }

    pub(crate) fn mark(&self) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts = JoinCounts { marked_ns: now_ns(), ..JoinCounts::default() };
    }

    pub(crate) fn report(&self) -> Joins {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.times_ns.sort_unstable();
        let of = |share| quantile(&counts.times_ns, share).unwrap_or(0) as f64 / 1e6;
        Joins {
            complete: counts.times_ns.len() as u64,
            failed: counts.failed,
            problem: counts.problem.clone(),
            short: counts.short,
            complete_ms_p50: of(0.5),
            complete_ms_p99: of(0.99),
            seconds: now_ns().saturating_sub(counts.marked_ns) as f64 / 1e9,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_begin_anew_at_a_mark() {
        let counter = Counter::default();
        counter.note(5_000, [1_000, 2_000, 0].into_iter());
        let count = counter.report();
        assert_eq!((count.events, count.delay_p50_us, count.delay_p99_us), (3, 3.0, 4.0));
        counter.mark();
        assert_eq!(counter.report().events, 0);
    }

    #[test]
    fn joins_with_too_few_keys_are_counted() {
        let joins = JoinCounter::default();
        joins.note(0, Ok(10), 10);
        joins.note(0, Ok(9), 10);
        joins.note(0, Err("away".to_owned()), 10);
        let report = joins.report();
        assert_eq!((report.complete, report.short, report.failed), (2, 1, 1));
        assert_eq!(report.problem.as_deref(), Some("away"));
    }
}
