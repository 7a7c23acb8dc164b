//! Measures the time from a fault until all survivors are in a wave again, and from its end until the broken
//! node is.
//!
//! The survivors of a fault are the endpoints that took part in the stream right before it and have not been
//! broken since. The survivors have recovered when one round that was asked after the fault has come from
//! each of them. Earlier rounds do not count, because they may have been answered before any node noticed the
//! fault. If another fault happens before the recovery, the answers do not show which fault ended when. Then
//! both are timed to the same wave, and the earlier one is marked `is_one_of_several`.

use crate::breaker::{Fault, Happening};
use std::time::{Duration, Instant};
use treefold::PartitionSet;
use treefold_core::tree::Tree;

/// A fault and its recovery.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) at: Instant,
    pub(super) endpoint: u32,
    pub(super) fault: Fault,
    /// True if the node had children then.
    pub(super) was_inner: bool,
    /// Time from the fault until all survivors were in a round again.
    pub(super) recovered: Option<Duration>,
    /// True if another fault happened before that.
    pub(super) is_one_of_several: bool,
    /// When the node was mended, and the last round asked before.
    mended: Option<(Instant, u64)>,
    /// Time from the mending until the node was in a wave again; `None` also if it was broken again before.
    pub(super) returned: Option<Duration>,
    /// Last round asked before the fault.
    after: u64,
}

/// Endpoints of a stream and the faults so far.
#[derive(Debug)]
pub(super) struct Watch {
    /// Endpoints that were in a wave since they were last broken, or since the start.
    present: PartitionSet,
    inner: PartitionSet,
    records: Vec<Record>,
    /// Index of the first record whose survivors have not recovered.
    unrecovered: usize,
}

impl Watch {
    /// Watches a stream in which `backends` back-ends take part.
    pub(super) fn of(backends: u32) -> Self {
        let present = PartitionSet::first(backends);
        Self { present, inner: PartitionSet::new(), records: Vec::new(), unrecovered: 0 }
    }

    /// Returns the endpoints that take part, as far as waves have shown.
    pub(super) fn present(&self) -> &PartitionSet {
        &self.present
    }

    /// Returns all faults so far.
    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Records the current subtrees below the front-end.
    pub(super) fn trees_are(&mut self, trees: &[Tree]) {
        let seats = trees.iter().flat_map(Tree::seats);
        self.inner = seats.filter(|seat| seat.size > 1).flat_map(|seat| seat.partitions.iter()).collect();
    }

    /// Records an event of the breaker.
    ///
    /// `asked` is the last round that was asked for.
    pub(super) fn note(&mut self, now: Instant, asked: u64, happening: Happening) {
        match happening {
            Happening::Broke(node, fault) => {
                let endpoint = super::endpoint_of(node);
                self.present = self.present.difference(&PartitionSet::from_range(endpoint..endpoint + 1));
                self.records.push(Record {
                    at: now,
                    endpoint,
                    fault,
                    was_inner: self.inner.contains(endpoint),
                    recovered: None,
                    is_one_of_several: false,
                    mended: None,
                    returned: None,
                    after: asked,
                });
            }
            Happening::Mended(node) => {
                let endpoint = super::endpoint_of(node);
                if let Some(last) = self.last_of(endpoint) {
                    last.mended = Some((now, asked));
                }
            }
        }
    }

    /// Records that a part of a round has come `from` these endpoints; `came` is all that has come of the
    /// round.
    pub(super) fn saw(&mut self, now: Instant, round: u64, from: &PartitionSet, came: &PartitionSet) {
        if let Some((last, earlier)) = self.records[self.unrecovered..].split_last_mut()
            && round > last.after
            && self.present.is_subset(came)
        {
            last.recovered = Some(now - last.at);
            for one in earlier {
                (one.recovered, one.is_one_of_several) = (Some(now - one.at), true);
            }
            self.unrecovered = self.records.len();
        }
        for endpoint in from.difference(&self.present).iter() {
            if let Some(last) = self.last_of(endpoint)
                && let Some((mended_at, _)) = last.mended.filter(|&(_, after)| round > after)
            {
                last.returned = Some(now - mended_at);
                self.present.insert(endpoint);
            }
        }
    }

    /// Returns the latest fault of an endpoint.
    fn last_of(&mut self, endpoint: u32) -> Option<&mut Record> {
        self.records.iter_mut().rev().find(|record| record.endpoint == endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn millis(time: Option<Duration>) -> u128 {
        time.expect("it was measured").as_millis()
    }

    #[test]
    fn a_fault_is_over_when_a_later_round_holds_all_survivors() {
        let mut story = Story::new();
        story.happens(10, 5, Happening::Broke(2, Fault::Killed));
        story.sees(11, 5, &[0, 1, 3]); // asked before the fault
        story.sees(20, 6, &[0, 1]); // 3 was below 2
        story.sees(40, 7, &[0, 1, 3]);
        story.happens(50, 8, Happening::Mended(2));
        story.sees(51, 8, &[0, 1, 2, 3]); // its pending answers from before the fault
        story.sees(90, 9, &[0, 1, 2, 3]);
        let fault = &story.watch.records()[0];
        assert_eq!((millis(fault.recovered), millis(fault.returned)), (30, 40));
        assert_eq!(story.watch.present(), &PartitionSet::first(4));
    }

    #[test]
    fn overlapping_faults_end_with_the_last() {
        let mut story = Story::new();
        story.happens(10, 5, Happening::Broke(2, Fault::Stopped));
        story.happens(30, 6, Happening::Broke(3, Fault::Killed));
        story.sees(50, 7, &[0, 1]);
        let faults = story.watch.records();
        assert_eq!(faults.iter().map(|fault| millis(fault.recovered)).collect::<Vec<_>>(), [40, 20]);
        assert_eq!(faults.iter().map(|fault| fault.is_one_of_several).collect::<Vec<_>>(), [true, false]);
    }
}
