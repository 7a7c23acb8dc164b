//! Sets of tags as runs: waves that were delivered or settled.
//!
//! Waves are delivered roughly in the order of their tags. The set of delivered waves is therefore one
//! growing run, and a few more runs while some wave is late. Tags chosen by the user (request ids) may leave
//! gaps for ever, so the number of runs is bounded: if there are too many, the lowest gap is closed, because
//! a wave that old is not waited for.

use alloc::vec::Vec;

/// Largest number of runs that a set keeps apart.
pub const RUNS_MAX: usize = 256;

/// A set of numbers as ascending, disjoint, non-adjacent runs, both ends included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TagRuns {
    runs: Vec<(u64, u64)>,
}

impl TagRuns {
    /// The empty set.
    pub const fn new() -> Self {
        Self { runs: Vec::new() }
    }

    /// The runs, ascending, both ends included.
    pub fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The largest tag in the set.
    pub fn last(&self) -> Option<u64> {
        self.runs.last().map(|&(_, last)| last)
    }

    /// The smallest tag from 1 on that is not in the set.
    pub fn first_gap(&self) -> u64 {
        match self.runs.iter().find(|&&(_, last)| last > 0) {
            Some(&(first, last)) if first <= 1 => last.saturating_add(1),
            _ => 1,
        }
    }

    /// True if `tag` is in the set.
    pub fn contains(&self, tag: u64) -> bool {
        // Nearly always `tag` is beyond all runs, or in the last one.
        let Some(&(first, last)) = self.runs.last() else { return false };
        if tag > last {
            return false;
        }
        if tag >= first {
            return true;
        }
        let at = self.runs.partition_point(|&(_, last)| last < tag);
        self.runs.get(at).is_some_and(|&(first, _)| first <= tag)
    }

    /// Adds one tag.
    pub fn insert(&mut self, tag: u64) {
        match self.runs.last_mut() {
            Some((_, last)) if *last < tag => {
                if *last + 1 == tag {
                    *last = tag;
                } else {
                    self.runs.push((tag, tag));
                    self.bound();
                }
            }
            Some(_) => self.insert_run(tag, tag),
            None => self.runs.push((tag, tag)),
        }
    }

    /// Adds `first..=last`; does nothing if that range is empty.
    pub fn insert_run(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        let (mut first, mut last) = (first, last);
        let from = self.runs.partition_point(|&(_, end)| end < first.saturating_sub(1));
        let mut to = from;
        while let Some(&(start, end)) = self.runs.get(to)
            && start <= last.saturating_add(1)
        {
            first = first.min(start);
            last = last.max(end);
            to += 1;
        }
        self.runs.splice(from..to, [(first, last)]);
        self.bound();
    }

    /// Removes all tags from `from` on, and returns them.
    #[must_use]
    pub fn split_off(&mut self, from: u64) -> Self {
        let at = self.runs.partition_point(|&(_, last)| last < from);
        let mut rest: Vec<(u64, u64)> = self.runs.split_off(at);
        if let Some(cut) = rest.first_mut()
            && cut.0 < from
        {
            self.runs.push((cut.0, from - 1));
            cut.0 = from;
        }
        Self { runs: rest }
    }

    /// Creates a set from runs that came over the wire.
    ///
    /// # Errors
    /// `None` unless they are ascending, disjoint, non-adjacent, non-empty and at most [`RUNS_MAX`].
    pub fn from_runs(runs: Vec<(u64, u64)>) -> Option<Self> {
        let is_run = |&(first, last): &(u64, u64)| first <= last;
        let ascends = |pair: &[(u64, u64)]| pair[0].1.checked_add(1).is_some_and(|next| next < pair[1].0);
        let is_sound = runs.len() <= RUNS_MAX && runs.iter().all(is_run) && runs.windows(2).all(ascends);
        is_sound.then_some(Self { runs })
    }

    fn bound(&mut self) {
        if self.runs.len() > RUNS_MAX {
            self.runs[1].0 = self.runs[0].0;
            self.runs.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn too_many_gaps_are_closed_from_below() {
        let mut set = TagRuns::new();
        (0..=RUNS_MAX as u64).for_each(|n| set.insert(10 * n));
        assert_eq!(set.runs().len(), RUNS_MAX);
        assert_eq!(set.runs()[0], (0, 10));
        assert!(set.contains(5) && !set.contains(15));
    }

    #[test]
    fn invalid_runs_from_the_wire_are_rejected() {
        assert!(TagRuns::from_runs(vec![(0, 2), (3, 4)]).is_none(), "adjacent");
        assert!(TagRuns::from_runs(vec![(3, 2)]).is_none(), "empty");
        assert!(TagRuns::from_runs(vec![(5, 6), (0, 1)]).is_none(), "descending");
        assert!(
            TagRuns::from_runs(vec![(0, u64::MAX), (7, 8)]).is_none(),
            "overlapping at the end of all tags"
        );
        assert!(TagRuns::from_runs(vec![(0, 1), (3, u64::MAX)]).is_some());
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(
            runs in proptest::collection::vec((0u64..60, 0u64..6), 0..30),
            singles in proptest::collection::vec(0u64..70, 0..30),
            cut in 0u64..70,
        ) {
            let (mut set, mut model) = (TagRuns::new(), BTreeSet::new());
            for (first, more) in runs {
                set.insert_run(first, first + more);
                model.extend(first..=first + more);
            }
            for tag in singles {
                set.insert(tag);
                model.insert(tag);
            }
            prop_assert!((0..80).all(|tag| set.contains(tag) == model.contains(&tag)));
            prop_assert_eq!(set.last(), model.last().copied());
            prop_assert_eq!(Some(set.first_gap()), (1..).find(|tag| !model.contains(tag)));
            prop_assert_eq!(TagRuns::from_runs(set.runs().to_vec()), Some(set.clone()));
            let rest = set.split_off(cut);
            prop_assert!((0..80).all(|tag| set.contains(tag) == (tag < cut && model.contains(&tag))));
            prop_assert!((0..80).all(|tag| rest.contains(tag) == (tag >= cut && model.contains(&tag))));
        }
    }
}
