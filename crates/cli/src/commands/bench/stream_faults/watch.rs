//! How long it takes after a fault until all survivors are in again, and after its end until the broken one is.
//!
//! A survivor of a fault is whoever took part in the stream just before and has not been broken since. All are in
//! again when one round that was asked after the fault has come from each of them: earlier rounds may have been
//! answered before anybody noticed. When another fault happens before that, the two can't be told apart by what
//! comes; both are timed to the same wave, the earlier among those of several.

use crate::commands::bench::breaker::Happening;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use treefold::PartitionSet;
use treefold::core::tree::Tree;

/// A fault that not all survivors have got over.
#[derive(Debug)]
struct Open {
    at: Instant,
    /// The last round asked before it.
    after: u64,
}

/// Times, as they were measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    pub(super) recovered: Vec<Duration>,
    pub(super) recovered_from_several: Vec<Duration>,
    pub(super) returned: Vec<Duration>,
    /// Faults of nodes that had children then.
    pub(super) inner_broken: u64,
}

/// Who is in the stream, who is broken, and since when.
#[derive(Debug)]
pub(super) struct Watch {
    /// In a wave since they were last broken, or from the start.
    present: PartitionSet,
    inner: PartitionSet,
    open: Vec<Open>,
    /// Mended and not seen yet: since when, and the last round asked before.
    returning: BTreeMap<u32, (Instant, u64)>,
    times: Times,
}

impl Watch {
    /// Of a stream in which so many back-ends take part.
    pub(super) fn of(backends: u32) -> Self {
        Self {
            present: PartitionSet::first(backends),
            inner: PartitionSet::new(),
            open: Vec::new(),
            returning: BTreeMap::new(),
            times: Times::default(),
        }
    }

    /// Who takes part, as far as waves have shown.
    pub(super) fn present(&self) -> &PartitionSet {
        &self.present
    }

    /// The subtrees below the front-end are these now.
    pub(super) fn trees_are(&mut self, trees: &[Tree]) {
        let seats = trees.iter().flat_map(Tree::seats);
        self.inner = seats.filter(|seat| seat.size > 1).flat_map(|seat| seat.partitions.iter()).collect();
    }

    /// Something was done to a node; `asked` is the last round that was asked for.
    pub(super) fn note(&mut self, now: Instant, asked: u64, happening: Happening) {
        match happening {
            Happening::Broke(node, _) => {
                let endpoint = super::endpoint_of(node);
                let broken = PartitionSet::from_range(endpoint..endpoint + 1);
                self.present = self.present.difference(&broken);
                self.returning.remove(&endpoint);
                self.times.inner_broken += u64::from(self.inner.contains(endpoint));
                self.open.push(Open { at: now, after: asked });
            }
            Happening::Mended(node) => {
                self.returning.insert(super::endpoint_of(node), (now, asked));
            }
        }
    }

    /// A part of a round has come from these; all that has come of it is `came`.
    pub(super) fn saw(&mut self, now: Instant, round: u64, from: &PartitionSet, came: &PartitionSet) {
        if self.open.last().is_some_and(|last| round > last.after) && self.present.is_subset(came) {
            let last = self.open.pop().expect("invariant: it was looked at");
            self.times.recovered.push(now - last.at);
            let earlier = self.open.drain(..).map(|earlier| now - earlier.at);
            self.times.recovered_from_several.extend(earlier);
        }
        for endpoint in from.iter() {
            if let Some(&(mended_at, after)) = self.returning.get(&endpoint)
                && round > after
            {
                self.returning.remove(&endpoint);
                self.present.insert(endpoint);
                self.times.returned.push(now - mended_at);
            }
        }
    }

    pub(super) fn times(&self) -> Times {
        self.times.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::breaker::Fault;

    fn ids(ids: &[u32]) -> PartitionSet {
        ids.iter().copied().collect()
    }

    struct Story {
        watch: Watch,
        began_at: Instant,
    }

    impl Story {
        fn new() -> Self {
            Self { watch: Watch::of(4), began_at: Instant::now() }
        }

        fn happens(&mut self, at_ms: u64, asked: u64, happening: Happening) {
            self.watch.note(self.began_at + Duration::from_millis(at_ms), asked, happening);
        }

        fn sees(&mut self, at_ms: u64, round: u64, from: &[u32]) {
            self.watch.saw(self.began_at + Duration::from_millis(at_ms), round, &ids(from), &ids(from));
        }
    }

    fn millis(times: &[Duration]) -> Vec<u128> {
        times.iter().map(Duration::as_millis).collect()
    }

    #[test]
    fn a_fault_is_over_when_a_later_round_holds_all_survivors() {
        let mut story = Story::new();
        story.happens(10, 5, Happening::Broke(2, Fault::Killed));
        story.sees(11, 5, &[0, 1, 3]); // asked before the fault
        story.sees(20, 6, &[0, 1]); // 3 was below 2
        story.sees(40, 7, &[0, 1, 3]);
        story.happens(50, 8, Happening::Mended(2));
        story.sees(51, 8, &[0, 1, 2, 3]); // what it had to say before
        story.sees(90, 9, &[0, 1, 2, 3]);
        let times = story.watch.times();
        assert_eq!((millis(&times.recovered), millis(&times.returned)), (vec![30], vec![40]));
        assert_eq!(story.watch.present(), &PartitionSet::first(4));
    }

    #[test]
    fn faults_that_run_into_each_other_end_with_the_last() {
        let mut story = Story::new();
        story.happens(10, 5, Happening::Broke(2, Fault::Stopped));
        story.happens(30, 6, Happening::Broke(3, Fault::Killed));
        story.sees(50, 7, &[0, 1]);
        let times = story.watch.times();
        assert_eq!((millis(&times.recovered), millis(&times.recovered_from_several)), (vec![20], vec![40]));
    }
}
