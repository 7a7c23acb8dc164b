//! Sets of partitions as sorted, disjoint, non-adjacent half-open ranges.
//!
//! A tree folds neighbours, so a partial nearly always contains one or two runs: the set of ten thousand
//! partitions is eight bytes. The type is used for contributors (DAC §3.2, "aggregation quality"),
//! assignments and losses.
//!
//! A root over ten thousand children holds thousands of runs for a while, and compares them ten thousand
//! times with a partial of one run. Therefore overlap, inclusion and the difference from a small set use
//! binary searches in the larger set. A small set is added to or removed from a larger one in place (`runs`).
//! The number of partitions is stored, not counted.

use crate::id::PartitionId;
use core::cmp::Ordering;
use core::fmt;
use core::ops::Range;
use runs::{Row, Run, Runs, length, rows_intersect, union_of_rows};

mod runs;

/// If the other set has no more runs than this, each is inserted on its own.
const INSERTED_MAX: usize = 4;
/// If this set has this many times as many runs as the other, each of the other's runs is inserted on its own
/// too, because one search costs about as much as passing this many runs. Otherwise the sets are merged in
/// one walk through both.
const SEARCH_RUNS: usize = 16;

/// A set of partition ids.
#[derive(Clone, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "Recorded", into = "Recorded"))]
pub struct PartitionSet {
    runs: Runs,
}

// Packets, partials and waves have several sets each, and are moved from queue to queue.
const _: () = assert!(size_of::<PartitionSet>() <= 24);

/// A set in a recording: the runs alone.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Recorded {
    runs: alloc::vec::Vec<Run>,
}

#[cfg(feature = "serde")]
impl From<Recorded> for PartitionSet {
    fn from(recorded: Recorded) -> Self {
        Self::of_runs(recorded.runs.into_iter().collect())
    }
}

#[cfg(feature = "serde")]
impl From<PartitionSet> for Recorded {
    fn from(set: PartitionSet) -> Self {
        Self { runs: set.runs.iter().copied().collect() }
    }
}

impl PartitionSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { runs: Runs::new() }
    }

    /// The set of these runs, which must be ascending, disjoint and not adjacent.
    fn of_runs(runs: Runs) -> Self {
        Self { runs }
    }

    /// The union of these sets. Faster than repeated unions if there are many.
    pub fn union_of<'a>(sets: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut runs: Row = sets.into_iter().flat_map(|set| set.runs.iter().copied()).collect();
        // One number sorts faster than a pair, which takes several comparisons.
        runs.sort_unstable_by_key(|&(start, end)| u64::from(start) << 32 | u64::from(end));
        runs.dedup_by(|next, last| {
            let touches = last.1 >= next.0;
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
        Self::of_runs(Runs::of(runs))
    }

    /// Partitions `0..count`.
    pub fn first(count: u32) -> Self {
        Self::from_range(0..count)
    }

    /// One partition alone.
    pub(crate) fn alone(partition: PartitionId) -> Self {
        Self::from_range(partition..partition.saturating_add(1))
    }

    /// Partitions of one half-open range.
    pub fn from_range(range: Range<PartitionId>) -> Self {
        let mut set = Self::new();
        set.insert_range(range);
        set
    }

    /// The runs as half-open `(start, end)` pairs, ascending.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = &(PartitionId, PartitionId)> + Clone {
        self.runs.iter()
    }

    /// The last run that begins at `partition` or before it.
    pub(crate) fn last_run_from(&self, partition: PartitionId) -> Option<(PartitionId, PartitionId)> {
        self.runs.last_from(partition)
    }

    /// The number of partitions in the set.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.count() == 0
    }

    /// The least partition of the set.
    pub fn least(&self) -> Option<PartitionId> {
        self.runs.first().map(|(start, _)| start)
    }

    /// The partitions of the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = PartitionId> + Clone + '_ {
        self.runs.iter().flat_map(|&(start, end)| start..end)
    }

    /// True if the set contains `partition`.
    pub fn contains(&self, partition: PartitionId) -> bool {
        self.runs.last_from(partition).is_some_and(|(_, end)| partition < end)
    }

    /// Adds one partition.
    pub fn insert(&mut self, partition: PartitionId) {
        self.insert_range(partition..partition.saturating_add(1));
    }

    /// Adds a half-open range. An empty range changes nothing.
    pub fn insert_range(&mut self, range: Range<PartitionId>) {
        if range.start < range.end {
            self.runs.insert((range.start, range.end));
        }
    }

    /// Adds every partition of `other`.
    pub fn union_with(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
        } else if self.is_changed_in_place(other) {
            for &run in other.runs.iter() {
                self.runs.insert(run);
            }
        } else if let Some((a, b)) = self.runs.short_rows(&other.runs) {
            let joined = union_of_rows(a, b);
            self.runs.lay(joined);
        } else {
            *self = self.merged(other);
        }
    }

    /// Removes every partition of `other`.
    pub fn subtract(&mut self, other: &Self) {
        if self.is_empty() {
            return;
        }
        if self.is_changed_in_place(other) {
            for &run in other.runs.iter() {
                self.runs.remove(run);
            }
        } else {
            *self = self.difference(other);
        }
    }

    /// True if searching for the place of each of the other's runs takes less than passing all of this set's.
    fn is_changed_in_place(&self, other: &Self) -> bool {
        let runs = other.runs.count();
        runs <= INSERTED_MAX || runs <= self.runs.count() / SEARCH_RUNS
    }

    /// The union, by one walk through both sets.
    fn merged(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.runs.iter(), other.runs.iter());
        let mut joined = Runs::new();
        loop {
            let next = match (a.peek(), b.peek()) {
                (Some(one), Some(two)) if one <= two => a.next(),
                (_, Some(_)) => b.next(),
                (_, None) => a.next(),
            };
            match next {
                Some(&run) => joined.append(run),
                None => return Self::of_runs(joined),
            }
        }
    }

    /// The partitions in this set and not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Runs::new();
        let mut cuts = other.runs.iter();
        for &(mut start, end) in self.runs.iter() {
            cuts.skip_to(start);
            let mut ahead = cuts;
            while let Some(&(cut_start, cut_end)) = ahead.next().filter(|&&(cut_start, _)| cut_start < end) {
                if cut_start > start {
                    rest.push((start, cut_start));
                }
                start = cut_end;
            }
            if start < end {
                rest.push((start, end));
            }
        }
        Self::of_runs(rest)
    }

    /// The partitions in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut common = Runs::new();
        self.for_each_common(other, |run| common.push(run));
        Self::of_runs(common)
    }

    /// The number of partitions in both sets.
    pub fn common_len(&self, other: &Self) -> usize {
        if self.spans(other) {
            return other.len();
        }
        if other.spans(self) {
            return self.len();
        }
        let mut len = 0;
        self.for_each_common(other, |run| len += length(&run));
        len
    }

    /// True if one run of this set contains all of `other`.
    fn spans(&self, other: &Self) -> bool {
        let (Some((start, _)), Some((_, end))) = (other.runs.first(), other.runs.last()) else {
            return true;
        };
        self.runs.last_from(start).is_some_and(|(_, run_end)| end <= run_end)
    }

    /// Calls `give` with each run that is in both sets, ascending. Walks through the set with fewer runs, and
    /// searches the other.
    fn for_each_common(&self, other: &Self, mut give: impl FnMut(Run)) {
        let (few, many) = self.fewer_runs_first(other);
        let mut many = many.runs.iter();
        for &(start, end) in few.runs.iter() {
            many.skip_to(start);
            let common = many.take_while(|&&(many_start, _)| many_start < end);
            common.for_each(|&(many_start, many_end)| give((start.max(many_start), end.min(many_end))));
        }
    }

    fn fewer_runs_first<'a>(&'a self, other: &'a Self) -> (&'a Self, &'a Self) {
        if self.runs.count() <= other.runs.count() { (self, other) } else { (other, self) }
    }

    /// True if the sets have a partition in common.
    pub fn intersects(&self, other: &Self) -> bool {
        if let Some((a, b)) = self.runs.short_rows(&other.runs) {
            return rows_intersect(a, b);
        }
        let (few, many) = self.fewer_runs_first(other);
        let mut many = many.runs.iter();
        few.runs.iter().any(|&(start, end)| {
            many.skip_to(start);
            many.peek().is_some_and(|(many_start, _)| many_start < end)
        })
    }

    /// True if every partition of this set is also in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        if self.len() > other.len() {
            return false;
        }
        // The runs of a set do not touch, so each run here must lie within a single run of `other`.
        let mut wider = other.runs.iter();
        self.runs.iter().all(|&(start, end)| {
            wider.skip_to(start);
            wider.peek().is_some_and(|(wide_start, wide_end)| wide_start <= start && end <= wide_end)
        })
    }

    /// A set from the runs of a message.
    ///
    /// Returns `None` unless the runs are ascending, non-empty, disjoint and non-adjacent, so that each set
    /// has exactly one encoding.
    pub fn from_runs(runs: impl IntoIterator<Item = (PartitionId, PartitionId)>) -> Option<Self> {
        let mut set = Runs::new();
        for (start, end) in runs {
            if start >= end || set.last().is_some_and(|(_, before)| before >= start) {
                return None;
            }
            set.push((start, end));
        }
        Some(Self::of_runs(set))
    }
}

impl PartialEq for PartitionSet {
    fn eq(&self, other: &Self) -> bool {
        self.runs == other.runs
    }
}

impl Eq for PartitionSet {}

impl PartialOrd for PartitionSet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PartitionSet {
    fn cmp(&self, other: &Self) -> Ordering {
        self.runs.iter().cmp(other.runs.iter())
    }
}

impl FromIterator<PartitionId> for PartitionSet {
    fn from_iter<I: IntoIterator<Item = PartitionId>>(iter: I) -> Self {
        let mut set = Self::new();
        iter.into_iter().for_each(|partition| set.insert(partition));
        set
    }
}

impl fmt::Display for PartitionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &(start, end)) in self.runs.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            if end - start == 1 {
                write!(f, "{comma}{start}")?;
            } else {
                write!(f, "{comma}{start}-{}", end - 1)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for PartitionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn displays_as_ranges() {
        let set: PartitionSet = [9, 0, 1, 2, 4, 5].into_iter().collect();
        assert_eq!(set.to_string(), "0-2,4-5,9");
        assert_eq!(set.len(), 6);
    }

    #[test]
    fn one_set_has_one_encoding() {
        assert!(PartitionSet::from_runs([(0, 2), (2, 3)]).is_none(), "adjacent runs");
        assert!(PartitionSet::from_runs([(3, 4), (0, 1)]).is_none(), "descending runs");
        assert!(PartitionSet::from_runs([(3, 3)]).is_none(), "an empty run");
        assert!(PartitionSet::from_runs([(0, 2), (3, 4)]).is_some());
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(
            a in proptest::collection::btree_set(0u32..64, 0..40),
            b in proptest::collection::btree_set(0u32..64, 0..40),
        ) {
            let (set_a, set_b): (PartitionSet, PartitionSet) =
                (a.iter().copied().collect(), b.iter().copied().collect());
            let mut union = set_a.clone();
            union.union_with(&set_b);
            prop_assert!(union.iter().eq((&a | &b).iter().copied()));
            prop_assert!(set_a.difference(&set_b).iter().eq((&a - &b).iter().copied()));
            prop_assert!(set_a.intersection(&set_b).iter().eq((&a & &b).iter().copied()));
            prop_assert_eq!(set_a.common_len(&set_b), (&a & &b).len());
            prop_assert_eq!(PartitionSet::union_of([&set_a, &set_b]), union.clone());
            prop_assert_eq!((union.len(), set_a.difference(&set_b).len()), ((&a | &b).len(), (&a - &b).len()));
            prop_assert_eq!(set_a.intersects(&set_b), !a.is_disjoint(&b));
            prop_assert_eq!(set_a.is_subset(&set_b), a.is_subset(&b));
            prop_assert_eq!(set_a.len(), a.len());
            let contained: BTreeSet<u32> = (0..64).filter(|&p| set_a.contains(p)).collect();
            prop_assert_eq!(contained, a);
            prop_assert_eq!(PartitionSet::from_runs(set_a.runs().copied()), Some(set_a));
        }
    }
}
