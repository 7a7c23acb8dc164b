//! Figures of the gateway's calls, second by second, for curves of the last minutes.
//!
//! A call counts in the second in which it ends. The next call or reader closes a second, so an idle gateway does nothing.
//! Durations are counted in buckets an eighth of a doubling wide, so a quantile is at most seven percent off.

use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use treefold::{Error, Raw, Reply, Status};

/// Buckets for each doubling of a duration, as a power of two.
const STEP_BITS: u32 = 3;
const STEPS: u64 = 1 << STEP_BITS;
/// Buckets of a second. The last one also holds durations above two minutes.
const BUCKETS: usize = 208;
/// Seconds that a snapshot repeats, so that a watcher that skipped a few snapshots misses none.
const REPEATED: u64 = 10;

/// One second of the gateway's calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Second {
    /// The end of the second, in Unix milliseconds.
    pub(crate) at_ms: u64,
    /// Calls that ended: the sum of the next four.
    pub(crate) calls: u32,
    pub(crate) full: u32,
    pub(crate) partial: u32,
    pub(crate) insufficient: u32,
    /// Calls that ended with an error.
    pub(crate) failed: u32,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
    /// Mean coverage of the calls that ended without an error; null if there was none.
    pub(crate) coverage: Option<f64>,
}

/// The figures of the last seconds.
#[derive(Debug)]
pub(crate) struct Seconds {
    started: Instant,
    started_ms: u64,
    history: Duration,
    book: Mutex<Book>,
}

#[derive(Debug)]
struct Book {
    /// Number of the open second, from the start of the gateway.
    number: u64,
    open: Open,
    /// Closed seconds that had calls, with their numbers, oldest first.
    past: VecDeque<(u64, Second)>,
}

/// The open second.
#[derive(Debug)]
struct Open {
    buckets: [u32; BUCKETS],
    full: u32,
    partial: u32,
    insufficient: u32,
    failed: u32,
    coverage_sum: f64,
}

impl Default for Open {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], full: 0, partial: 0, insufficient: 0, failed: 0, coverage_sum: 0.0 }
    }
}

impl Seconds {
    pub(crate) fn new(history: Duration) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let book = Book { number: 0, open: Open::default(), past: VecDeque::new() };
        Self {
            started: Instant::now(),
            started_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
            history,
            book: Mutex::new(book),
        }
    }

    /// Counts a call that has just ended.
    pub(crate) fn count(&self, outcome: &Result<Reply<Raw>, Error>, took: Duration) {
        let verdict = outcome.as_ref().ok().map(|reply| (reply.status.clone(), reply.coverage()));
        self.count_at(Instant::now(), verdict, took);
    }

    fn count_at(&self, now: Instant, verdict: Option<(Status, f64)>, took: Duration) {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        self.roll(&mut book, now);
        let open = &mut book.open;
        match verdict {
            None => open.failed += 1,
            Some((status, coverage)) => {
                open.coverage_sum += coverage;
                match status {
                    Status::Full => open.full += 1,
                    Status::Partial => open.partial += 1,
                    _ => open.insufficient += 1,
                }
            }
        }
        open.buckets[bucket_of(u64::try_from(took.as_micros()).unwrap_or(u64::MAX))] += 1;
    }

    /// The seconds of the history that had calls, oldest first.
    pub(crate) fn history(&self) -> Vec<Second> {
        self.last(self.history.as_secs(), Instant::now())
    }

    /// The seconds among the last few that had calls, and the end of the last one.
    pub(crate) fn recent(&self) -> (u64, Vec<Second>) {
        let now = Instant::now();
        (self.end_of(self.number_at(now).saturating_sub(1)), self.last(REPEATED, now))
    }

    /// Time until the open second ends.
    pub(crate) fn until_next(&self) -> Duration {
        let passed = self.started.elapsed();
        Duration::from_secs(passed.as_secs() + 1) - passed
    }

    fn last(&self, seconds: u64, now: Instant) -> Vec<Second> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        self.roll(&mut book, now);
        let from = book.number.saturating_sub(seconds);
        book.past.iter().filter(|(number, _)| *number >= from).map(|(_, second)| *second).collect()
    }

    fn number_at(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_secs()
    }

    fn end_of(&self, number: u64) -> u64 {
        self.started_ms.saturating_add(number.saturating_add(1).saturating_mul(1_000))
    }

    /// Closes the open second if it is over.
    fn roll(&self, book: &mut Book, now: Instant) {
        let number = self.number_at(now);
        if number <= book.number {
            return;
        }
        if let Some(second) = book.open.close(self.end_of(book.number)) {
            book.past.push_back((book.number, second));
            book.open = Open::default();
        }
        book.number = number;
        let oldest = number.saturating_sub(self.history.as_secs());
        while book.past.front().is_some_and(|(number, _)| *number < oldest) {
            book.past.pop_front();
        }
    }
}

impl Open {
    /// The figures of a second; `None` if it had no calls.
    fn close(&self, at_ms: u64) -> Option<Second> {
        let Self { full, partial, insufficient, failed, .. } = *self;
        let judged = full + partial + insufficient;
        let calls = judged + failed;
        (calls > 0).then(|| Second {
            at_ms,
            calls,
            full,
            partial,
            insufficient,
            failed,
            p50_us: self.quantile(calls, 0.5),
            p99_us: self.quantile(calls, 0.99),
            coverage: (judged > 0).then(|| self.coverage_sum / f64::from(judged)),
        })
    }

    fn quantile(&self, calls: u32, share: f64) -> u64 {
        let rank = (f64::from(calls) * share).ceil().max(1.0) as u32;
        let mut sum = 0;
        let at = self.buckets.iter().position(|count| {
            sum += count;
            sum >= rank
        });
        middle_of(at.unwrap_or(BUCKETS - 1))
    }
}

/// The bucket of a duration in microseconds.
fn bucket_of(us: u64) -> usize {
    if us < STEPS {
        return us as usize;
    }
    let shift = us.ilog2() - STEP_BITS;
    let at = u64::from(shift + 1) * STEPS + ((us >> shift) & (STEPS - 1));
    usize::try_from(at).map_or(BUCKETS - 1, |at| at.min(BUCKETS - 1))
}

/// The middle of a bucket, in microseconds.
fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    let least = (STEPS + bucket % STEPS) << shift;
    least + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Option<(Status, f64)> = Some((Status::Full, 1.0));
    const PARTIAL: Option<(Status, f64)> = Some((Status::Partial, 0.5));

    #[test]
    fn buckets_are_an_eighth_of_a_doubling() {
        for us in [0, 1, 7, 8, 9, 15, 16, 100, 999, 12_345, 5_000_000, 60_000_000] {
            let middle = middle_of(bucket_of(us));
            assert!(middle.abs_diff(us) as f64 <= us as f64 * 0.0651, "{us} became {middle}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert!(middle_of(BUCKETS - 1) > 120_000_000, "two minutes have a bucket");
    }

    #[test]
    fn seconds_close_when_they_are_over_and_leave_with_the_history() {
        let seconds = Seconds::new(Duration::from_secs(60));
        let at = |ms: u64| seconds.started + Duration::from_millis(ms);
        for _ in 0..98 {
            seconds.count_at(at(100), FULL, Duration::from_millis(1));
        }
        seconds.count_at(at(900), PARTIAL, Duration::from_millis(50));
        seconds.count_at(at(999), None, Duration::from_millis(50));
        assert_eq!(seconds.last(60, at(999)), [], "the second is open");
        let closed = seconds.last(60, at(1_000));
        let [second] = closed[..] else { panic!("{closed:?}") };
        assert_eq!((second.calls, second.full, second.partial, second.failed), (100, 98, 1, 1));
        assert_eq!(second.at_ms, seconds.started_ms + 1_000);
        assert!((second.coverage.unwrap() - 98.5 / 99.0).abs() < 1e-9);
        assert!((950..1_070).contains(&second.p50_us) && (46_000..54_000).contains(&second.p99_us));
        seconds.count_at(at(30_500), FULL, Duration::ZERO);
        assert_eq!(seconds.last(60, at(40_000)).len(), 2, "idle seconds take no room");
        assert_eq!(seconds.last(10, at(40_000)).len(), 1);
        assert_eq!(seconds.last(60, at(61_500)).len(), 1, "the first one is too old");
    }
}
