//! The work that this node has placed on another one since that node's last figure.
//!
//! A queue that begins with the figure's work, gets each placement at its time and runs off in between is at any later time
//! the greater of two numbers: the work if the queue was never empty, and the work of a queue that began *empty* at the time of
//! the figure (Lindley's recursion). Neither depends on the other placements one by one, so both are kept as sums, and a front
//! that brings the figures of a thousand nodes up to date for each call does not walk through their placements.

use super::figure::LoadFigure;
use super::table::{Known, PLACED_MAX};
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;

/// Placements on one node.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Placed {
    /// The last ones, oldest first. A new figure says which of them it includes.
    recent: VecDeque<(Instant, Duration)>,
    /// All placements since the figure, also those that are no longer among the last ones; `None` if there are none.
    sums: Option<Sums>,
}

/// Placements since a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sums {
    /// When the figure was true, or when the first placement was made.
    as_of: Instant,
    /// When the last placement was made.
    at: Instant,
    processors: u32,
    count: u32,
    work: Duration,
    /// The least difference between the work placed before a placement and the work that could be done by then, in ns; `None`
    /// if all were made at the time of the figure.
    low_ns: Option<i128>,
    /// A queue that began empty: what waits in it, and of how many placements, after the last one.
    fresh: (Duration, u32),
}

impl Sums {
    fn since(as_of: Instant, processors: u32) -> Self {
        let (count, work, fresh) = (0, Duration::ZERO, (Duration::ZERO, 0));
        Self { as_of, at: as_of, processors, count, work, low_ns: None, fresh }
    }

    fn add(&mut self, at: Instant, work: Duration) {
        let elapsed = self.at.until(at);
        if !elapsed.is_zero() {
            let low_ns = self.rest_ns(Duration::ZERO, at);
            self.low_ns = Some(self.low_ns.map_or(low_ns, |least| least.min(low_ns)));
        }
        let figure = LoadFigure { queued: self.fresh.0, in_flight: self.fresh.1, ..self.none() };
        let figure = run_off(figure, elapsed);
        self.fresh = (figure.queued + work, figure.in_flight.saturating_add(1));
        self.work += work;
        self.count = self.count.saturating_add(1);
        self.at = self.at.max(at);
    }

    /// The work that is left at a time if the queue began with `queued` and was never empty; negative if it was.
    fn rest_ns(&self, queued: Duration, at: Instant) -> i128 {
        let done = i128::from(self.as_of.until(at).as_nanos()) * i128::from(self.processors.max(1));
        i128::from(queued.as_nanos()) + i128::from(self.work.as_nanos()) - done
    }

    fn none(&self) -> LoadFigure {
        LoadFigure { processors: self.processors, ..LoadFigure::default() }
    }

    /// A figure as of the last placement.
    fn after(&self, figure: LoadFigure) -> LoadFigure {
        let was_never_empty =
            self.low_ns.is_none_or(|low_ns| i128::from(figure.queued.as_nanos()) + low_ns > 0);
        let (queued, in_flight) = if was_never_empty {
            let rest_ns = u64::try_from(self.rest_ns(figure.queued, self.at)).unwrap_or(u64::MAX);
            (Duration::from_nanos(rest_ns), figure.in_flight.saturating_add(self.count))
        } else {
            self.fresh
        };
        LoadFigure { queued, in_flight, ..figure }
    }
}

impl Placed {
    /// Adds a placement on a node with this many processors, whose figure is as of this time.
    pub(super) fn add(&mut self, at: Instant, work: Duration, as_of: Option<Instant>, processors: u32) {
        if self.recent.len() >= PLACED_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((at, work));
        match &mut self.sums {
            Some(sums) if sums.processors == processors => sums.add(at, work),
            _ => self.sum(as_of.unwrap_or(self.recent[0].0), processors),
        }
    }

    /// A figure as of this time has come: it includes the placements before.
    pub(super) fn include(&mut self, as_of: Instant, processors: u32) {
        while self.recent.front().is_some_and(|&(at, _)| at < as_of) {
            self.recent.pop_front();
        }
        self.sum(as_of, processors);
    }

    fn sum(&mut self, as_of: Instant, processors: u32) {
        self.sums = (!self.recent.is_empty()).then(|| {
            let mut sums = Sums::since(as_of, processors);
            self.recent.iter().for_each(|&(at, work)| sums.add(at, work));
            sums
        });
    }

    /// A figure brought up to date; `None` for a node without a figure on which nothing waits.
    pub(super) fn by_now(&self, known: Option<Known>, now: Instant) -> Option<LoadFigure> {
        let (figure, at) = match (&self.sums, known) {
            (None, known) => known.map(|Known { figure, as_of }| (figure, as_of))?,
            (Some(sums), Some(Known { figure, .. })) => (sums.after(figure), sums.at),
            (Some(sums), None) => (sums.after(sums.none()), sums.at),
        };
        let figure = run_off(figure, at.until(now));
        (known.is_some() || !figure.queued.is_zero()).then_some(figure)
    }
}

/// The rest of a figure after the node has worked for `time`. An empty queue has nothing in flight.
fn run_off(figure: LoadFigure, time: Duration) -> LoadFigure {
    let done_ns = time.as_nanos().saturating_mul(figure.processors.max(1).into());
    let queued = figure.queued.saturating_sub(Duration::from_nanos(done_ns));
    let in_flight = if queued.is_zero() && !time.is_zero() { 0 } else { figure.in_flight };
    LoadFigure { queued, in_flight, ..figure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn at(micros: u64) -> Instant {
        Instant::START + Duration::from_micros(micros)
    }

    /// The same by walking through all placements.
    fn walked(
        figure: LoadFigure,
        as_of: Instant,
        placed: &[(Instant, Duration)],
        now: Instant,
    ) -> LoadFigure {
        let (mut figure, mut last) = (figure, as_of);
        for &(at, work) in placed {
            figure = run_off(figure, last.until(at));
            figure.queued += work;
            figure.in_flight += 1;
            last = last.max(at);
        }
        run_off(figure, last.until(now))
    }

    proptest! {
        #[test]
        fn sums_tell_what_a_walk_tells(
            queued_us in 0_u64..60,
            in_flight in 0_u32..3,
            processors in 1_u32..4,
            placements in prop::collection::vec((0_u64..20, 0_u64..40), 0..PLACED_MAX),
            later_us in 0_u64..50,
            figure_after in prop::option::of(0_usize..PLACED_MAX),
        ) {
            let figure = LoadFigure {
                queued: Duration::from_micros(queued_us), in_flight, processors, ..LoadFigure::default()
            };
            let (mut placed, mut time_us, mut all) = (Placed::default(), 100, Vec::new());
            let mut as_of = at(time_us);
            placed.include(as_of, processors);
            for (number, (pause_us, work_us)) in placements.into_iter().enumerate() {
                time_us += pause_us;
                let (time, work) = (at(time_us), Duration::from_micros(work_us));
                placed.add(time, work, Some(as_of), processors);
                all.push((time, work));
                if figure_after == Some(number) {
                    as_of = at(time_us.saturating_sub(15).max(100));
                    placed.include(as_of, processors);
                    all.retain(|&(time, _)| time >= as_of);
                }
            }
            let now = at(time_us + later_us);
            let expected = walked(figure, as_of, &all, now);
            prop_assert_eq!(placed.by_now(Some(Known { figure, as_of }), now), Some(expected));
        }
    }

    #[test]
    fn placements_beyond_the_last_ones_still_count() {
        let mut placed = Placed::default();
        let more = PLACED_MAX as u64 + 36;
        (0..more).for_each(|_| placed.add(at(0), Duration::from_micros(10), None, 1));
        let figure = placed.by_now(None, at(1)).expect("the work waits");
        assert_eq!(
            (figure.queued, u64::from(figure.in_flight)),
            (Duration::from_micros(10 * more - 1), more)
        );
        placed.include(at(0), 1);
        let known = Known { figure: LoadFigure::default(), as_of: at(0) };
        let figure = placed.by_now(Some(known), at(0)).expect("there is a figure");
        assert_eq!(figure.in_flight as usize, PLACED_MAX, "which of the others it includes is not known");
    }
}
