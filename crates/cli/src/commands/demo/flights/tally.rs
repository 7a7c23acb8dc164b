//! The figures of the board's reader: gaps, resumes, and the delay of events. It has no clock.

use super::news::Storm;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use treefold_mirror::Cut;

/// Time over which the delay is shown.
const RECENT: Duration = Duration::from_secs(10);
/// Delays that are remembered.
const DELAYS_MAX: usize = 20_000;

/// Counts what the board's reader has got.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) events: u64,
    pub(super) snapshots: u64,
    /// Times that the reader went on at another mirror.
    pub(super) resumed: u64,
    /// Events that did not follow the last one: some were missing between them, or came twice.
    pub(super) gaps: u64,
    /// The place of the last event, or of the snapshot.
    pub(super) cut: Option<Cut>,
    recent: VecDeque<(Instant, Duration)>,
    storm: Option<Stormy>,
}

/// A storm of joins, and the delay of the board's events meanwhile.
#[derive(Clone, Debug)]
struct Stormy {
    now: Storm,
    readers: usize,
    before: Option<Duration>,
    delays: Vec<Duration>,
    during: Option<Duration>,
    is_over: bool,
}

/// A storm, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StormFigures {
    pub(super) now: Storm,
    pub(super) readers: usize,
    /// The 99th percentile of the delay before the storm, and in it.
    pub(super) before: Option<Duration>,
    pub(super) during: Option<Duration>,
}

impl Tally {
    /// A snapshot at this place begins.
    pub(super) fn begin(&mut self, at: Cut) {
        self.snapshots += 1;
        self.cut = Some(at);
    }

    /// Takes an event at this place.
    pub(super) fn take(&mut self, at: Cut, delay: Duration, now: Instant) {
        self.events += 1;
        let follows = self.cut.is_some_and(|last| at.position == last.position + 1 && at.epoch >= last.epoch);
        self.gaps += u64::from(!follows);
        self.cut = Some(at);
        if self.recent.len() == DELAYS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((now, delay));
        while self.recent.front().is_some_and(|&(taken_at, _)| now.duration_since(taken_at) > RECENT) {
            self.recent.pop_front();
        }
        if let Some(storm) = &mut self.storm
            && !storm.is_over
            && storm.delays.len() < DELAYS_MAX
        {
            storm.delays.push(delay);
        }
    }

    /// The median and the 99th percentile of the delay lately.
    pub(super) fn delay(&self) -> Option<(Duration, Duration)> {
        let mut delays: Vec<Duration> = self.recent.iter().map(|&(_, delay)| delay).collect();
        Some((quantile(&mut delays, 0.5)?, quantile(&mut delays, 0.99)?))
    }

    pub(super) fn storm(&mut self, news: Storm) {
        match (&mut self.storm, news) {
            (_, Storm::Begins(readers)) => {
                let before = self.delay().map(|(_, p99)| p99);
                let (delays, during) = Default::default();
                self.storm = Some(Stormy { now: news, readers, before, delays, during, is_over: false });
            }
            (Some(storm), Storm::Over) => {
                storm.is_over = true;
                storm.during = quantile(&mut storm.delays, 0.99);
            }
            (Some(storm), _) => {
                storm.now = news;
                storm.during = quantile(&mut storm.delays, 0.99);
            }
            (None, _) => {}
        }
    }

    /// The last storm.
    pub(super) fn last_storm(&self) -> Option<StormFigures> {
        let Stormy { now, readers, before, during, .. } = *self.storm.as_ref()?;
        Some(StormFigures { now, readers, before, during })
    }

    /// True while readers of a storm are there.
    pub(super) fn is_stormy(&self) -> bool {
        self.storm.as_ref().is_some_and(|storm| !storm.is_over)
    }
}

/// The least value that is no less than a share of them.
fn quantile(values: &mut [Duration], share: f64) -> Option<Duration> {
    values.sort_unstable();
    let at = (values.len() as f64 * share).ceil() as usize;
    values.get(at.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(epoch: u32, position: u64) -> Cut {
        Cut { epoch, position }
    }

    #[test]
    fn lost_and_repeated_events_are_gaps_and_new_epochs_are_none() {
        let (mut tally, now) = (Tally::default(), Instant::now());
        tally.begin(cut(1, 10));
        for (at, gaps) in [
            (cut(1, 11), 0),
            (cut(1, 12), 0),
            (cut(2, 13), 0),
            (cut(2, 13), 1),
            (cut(2, 15), 2),
            (cut(1, 16), 3),
        ] {
            tally.take(at, Duration::ZERO, now);
            assert_eq!(tally.gaps, gaps, "{at}");
        }
        assert_eq!(tally.events, 6);
    }

    #[test]
    fn delay_in_a_storm_is_that_of_events_while_its_readers_are_there() {
        let (mut tally, now) = (Tally::default(), Instant::now());
        let mut position = 0;
        let mut take = |tally: &mut Tally, ms| {
            position += 1;
            tally.take(cut(1, position), Duration::from_millis(ms), now);
        };
        tally.begin(cut(1, 0));
        take(&mut tally, 2);
        tally.storm(Storm::Begins(20));
        assert!(tally.is_stormy());
        (1..=100).for_each(|ms| take(&mut tally, ms));
        let ended = Storm::Ended {
            joined: 20,
            failed: 0,
            half: Duration::from_millis(5),
            all: Duration::from_millis(9),
        };
        tally.storm(ended);
        tally.storm(Storm::Over);
        take(&mut tally, 500);
        let shown = tally.last_storm().unwrap();
        assert_eq!(
            (shown.before, shown.during),
            (Some(Duration::from_millis(2)), Some(Duration::from_millis(99)))
        );
        assert!(!tally.is_stormy());
        assert_eq!(tally.delay().unwrap().1, Duration::from_millis(100));
    }

    #[test]
    fn old_delays_are_forgotten() {
        let (mut tally, now) = (Tally::default(), Instant::now());
        tally.take(cut(1, 1), Duration::from_secs(3), now);
        tally.take(cut(1, 2), Duration::from_millis(1), now + RECENT + Duration::from_secs(1));
        assert_eq!(tally.delay(), Some((Duration::from_millis(1), Duration::from_millis(1))));
    }
}
