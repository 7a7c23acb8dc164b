//! The figures of one run.

use crate::experiment::Point;
use crate::experiment::point::{mean, quantile};
use treefold_core::time::Instant;

/// A beginning and an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The time at which it began.
    pub from: Instant,
    /// The time at which it ended.
    pub until: Instant,
}

impl Span {
    /// Returns its length, in ms.
    pub fn ms(self) -> f64 {
        self.from.until(self.until).as_millis_f64()
    }
}

/// The record of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// For each event that the regular reader of a mirror got, the time from its entry until then.
    pub updates: Vec<Span>,
    /// For each event, mirrored or not, and each mirror, the time from its entry until the regular reader had its value
    /// or a later one of the same type and key.
    pub values: Vec<Span>,
    /// Each request, from its arrival until its snapshot was sent.
    pub requests: Vec<Span>,
    /// The time at which the origin's site and all mirrors had processed the last event.
    pub events_done: Instant,
    /// The time at which everything was done, requests too.
    pub all_done: Instant,
    /// Mirrored events.
    pub mirrored: u64,
    /// Batches of events that were sent.
    pub batches: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Snapshots that were encoded.
    pub snapshots: u64,
    /// Times at which the rules' mode changed.
    pub changes: Vec<Instant>,
    /// The share of the time in which the origin's processor worked.
    pub origin_busy: f64,
    /// The same of the mirrors, on average.
    pub mirror_busy: f64,
}

/// Name of the time until everything was done, in s.
pub const TOTAL: &str = "total_s";
/// Name of the mean update delay, in ms.
pub const DELAY: &str = "delay_ms_mean";
/// Name of the mean time until a reader has the value of an event, or a later one, in ms.
pub const AGE: &str = "age_ms_mean";

impl Seen {
    /// Returns the run as a point of `series` at `x`. The response times are those of requests.
    pub fn point(&self, series: &str, x: f64) -> Point {
        let requests: Vec<f64> = self.requests.iter().map(|span| span.ms()).collect();
        let total_s = seconds(self.all_done);
        let per_s = requests.len() as f64 / total_s;
        let mut delays: Vec<f64> = self.updates.iter().map(|span| span.ms()).collect();
        delays.sort_unstable_by(f64::total_cmp);
        let values: Vec<f64> = self.values.iter().map(|span| span.ms()).collect();
        Point::of_calls(series, x, requests, per_s, f64::NAN)
            .with(TOTAL, total_s)
            .with("events_s", seconds(self.events_done))
            .with(DELAY, mean(&delays))
            .with("delay_ms_p99", quantile(&delays, 0.99))
            .with(AGE, mean(&values))
            .with("mirrored", self.mirrored as f64)
            .with("batches", self.batches as f64)
            .with("checkpoints", self.checkpoints as f64)
            .with("snapshots", self.snapshots as f64)
            .with("mode_changes", self.changes.len() as f64)
            .with("origin_busy", self.origin_busy)
            .with("mirror_busy", self.mirror_busy)
    }
}

/// Returns the mean length in ms of the spans that began in a range of seconds, or NaN if there are none.
pub fn mean_ms_between(spans: &[Span], from_s: f64, until_s: f64) -> f64 {
    let is_in = |span: &&Span| (from_s..until_s).contains(&seconds(span.from));
    mean(&spans.iter().filter(is_in).map(|span| span.ms()).collect::<Vec<f64>>())
}

/// Returns a time in s since the start.
pub(super) fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}
