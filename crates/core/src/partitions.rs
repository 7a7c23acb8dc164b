//! Sets of partitions as sorted, disjoint, non-adjacent half-open ranges.
//!
//! A tree folds neighbours, so what a partial holds is nearly always one or two runs: the set of ten thousand
//! partitions is eight bytes. It carries contributors (DAC §3.2, "aggregation quality"), assignments and losses alike.
//!
//! A root over ten thousand children holds thousands of runs for a while, and compares them with a partial of one run
//! ten thousand times. So overlap, inclusion and what a small set has left take binary searches in the larger set, a small
//! set is added to a larger one and taken from it in place (`runs`), and the number of partitions is kept and not counted.

use crate::id::PartitionId;
use core::cmp::Ordering;
use core::fmt;
use core::ops::Range;
use runs::{Row, Run, Runs, length, rows_intersect, union_of_rows};

mod runs;

/// Up to so many runs of another set are inserted one by one.
const INSERTED_MAX: usize = 4;
/// So are more if this set has so many times as many: a search costs about as much as passing so many runs. Other sets are
/// merged by one walk through both.
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

/// A set as it is recorded: the runs alone.
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

    /// The set of these runs, which are ascending, disjoint and not adjacent.
    fn of_runs(runs: Runs) -> Self {
        Self { runs }
    }

    /// Every partition of these sets. Faster than one union after another if there are many.
    pub fn union_of<'a>(sets: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut runs: Row = sets.into_iter().flat_map(|set| set.runs.iter().copied()).collect();
        // As one number: a pair takes several comparisons.
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

    /// The runs, ascending, as half-open `(start, end)` pairs.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = &(PartitionId, PartitionId)> + Clone {
        self.runs.iter()
    }

    /// The last run that begins at `partition` or before it.
    pub(crate) fn last_run_from(&self, partition: PartitionId) -> Option<(PartitionId, PartitionId)> {
        self.runs.last_from(partition)
    }

    /// How many partitions it holds.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// True when it holds none.
    pub fn is_empty(&self) -> bool {
        self.runs.count() == 0
    }

    /// The least partition it holds.
    pub fn least(&self) -> Option<PartitionId> {
        self.runs.first().map(|(start, _)| start)
    }

    /// Its partitions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = PartitionId> + Clone + '_ {
        self.runs.iter().flat_map(|&(start, end)| start..end)
    }

    /// True when it holds `partition`.
    pub fn contains(&self, partition: PartitionId) -> bool {
        self.runs.last_from(partition).is_some_and(|(_, end)| partition < end)
    }

    /// Adds one partition.
    pub fn insert(&mut self, partition: PartitionId) {
        self.insert_range(partition..partition.saturating_add(1));
    }

    /// Adds a half-open range; an empty one changes nothing.
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

    /// True when searching for the place of each of the other's runs takes less than passing all of this set's.
    fn is_changed_in_place(&self, other: &Self) -> bool {
        let runs = other.runs.count();
        runs <= INSERTED_MAX || runs <= self.runs.count() / SEARCH_RUNS
    }

    /// The union, by one walk through both.
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

    /// What is here and not in `other`.
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

    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut common = Runs::new();
        self.for_each_common(other, |run| common.push(run));
        Self::of_runs(common)
    }

    /// How many partitions are in both.
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

    /// True when one run of this set holds all of `other`.
    fn spans(&self, other: &Self) -> bool {
        let (Some((start, _)), Some((_, end))) = (other.runs.first(), other.runs.last()) else {
            return true;
        };
        self.runs.last_from(start).is_some_and(|(_, run_end)| end <= run_end)
    }

    /// Gives the runs that are in both, ascending. The set with fewer runs is walked through, and the other is searched.
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

    /// True when some partition is in both.
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

    /// True when every partition here is also in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        if self.len() > other.len() {
            return false;
        }
        // Runs of a set do not touch, so each of these lies within one of those or is none's.
        let mut wider = other.runs.iter();
        self.runs.iter().all(|&(start, end)| {
            wider.skip_to(start);
            wider.peek().is_some_and(|(wide_start, wide_end)| wide_start <= start && end <= wide_end)
        })
    }

    /// A set from runs of the wire.
    ///
    /// # Errors
    /// `None` unless the runs are ascending, non-empty, disjoint and non-adjacent: one set has one encoding.
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
        self.runs.count() == other.runs.count() && self.runs.iter().eq(other.runs.iter())
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
    fn reads_as_people_write_it() {
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
