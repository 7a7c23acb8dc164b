//! Sets of partitions as sorted, disjoint, non-adjacent half-open ranges.
//!
//! A tree folds neighbours, so what a partial holds is nearly always one or two runs: the set of ten thousand
//! partitions is eight bytes. It carries contributors (DAC §3.2, "aggregation quality"), assignments and losses alike.
//!
//! A root over ten thousand children holds thousands of runs for a while, and compares them with a partial of one run
//! ten thousand times. So overlap, inclusion and what a small set has left take binary searches in the larger set, and
//! the number of partitions is kept and not counted.

use crate::id::PartitionId;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use smallvec::SmallVec;

type Runs = SmallVec<[(PartitionId, PartitionId); 2]>;

/// Up to so many runs of another set are inserted one by one; more are merged by one walk through both sets.
const INSERTED_MAX: usize = 4;

/// A set of partition ids.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "Recorded", into = "Recorded"))]
pub struct PartitionSet {
    runs: Runs,
    /// How many partitions the runs hold.
    len: usize,
}

/// A set as it is recorded: the runs alone.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Recorded {
    runs: Runs,
}

#[cfg(feature = "serde")]
impl From<Recorded> for PartitionSet {
    fn from(recorded: Recorded) -> Self {
        Self::of_runs(recorded.runs)
    }
}

#[cfg(feature = "serde")]
impl From<PartitionSet> for Recorded {
    fn from(set: PartitionSet) -> Self {
        Self { runs: set.runs }
    }
}

impl PartitionSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { runs: SmallVec::new_const(), len: 0 }
    }

    /// The set of these runs, which are ascending, disjoint and not adjacent.
    fn of_runs(runs: Runs) -> Self {
        let len = runs.iter().map(length).sum();
        Self { runs, len }
    }

    /// Every partition of these sets. Faster than one union after another if there are many.
    pub fn union_of<'a>(sets: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut runs: Vec<(PartitionId, PartitionId)> =
            sets.into_iter().flat_map(|set| set.runs.iter().copied()).collect();
        runs.sort_unstable();
        let mut joined = Runs::new();
        runs.into_iter().for_each(|run| append(&mut joined, run));
        Self::of_runs(joined)
    }

    /// Partitions `0..count`.
    pub fn first(count: u32) -> Self {
        Self::from_range(0..count)
    }

    /// Partitions of one half-open range.
    pub fn from_range(range: Range<PartitionId>) -> Self {
        let mut set = Self::new();
        set.insert_range(range);
        set
    }

    /// The runs, ascending, as half-open `(start, end)` pairs.
    pub fn runs(&self) -> &[(PartitionId, PartitionId)] {
        &self.runs
    }

    /// How many partitions it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when it holds none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The least partition it holds.
    pub fn least(&self) -> Option<PartitionId> {
        self.runs.first().map(|&(start, _)| start)
    }

    /// Its partitions, ascending.
    pub fn iter(&self) -> impl Iterator<Item = PartitionId> + Clone + '_ {
        self.runs.iter().flat_map(|&(start, end)| start..end)
    }

    /// True when it holds `partition`.
    pub fn contains(&self, partition: PartitionId) -> bool {
        let at = self.runs.partition_point(|&(_, end)| end <= partition);
        self.runs.get(at).is_some_and(|&(start, _)| start <= partition)
    }

    /// Adds one partition.
    pub fn insert(&mut self, partition: PartitionId) {
        self.insert_range(partition..partition.saturating_add(1));
    }

    /// Adds a half-open range; an empty one changes nothing.
    pub fn insert_range(&mut self, range: Range<PartitionId>) {
        let (mut start, mut end) = (range.start, range.end);
        if start >= end {
            return;
        }
        let from = self.runs.partition_point(|&(_, e)| e < start);
        let mut to = from;
        while let Some(&(s, e)) = self.runs.get(to)
            && s <= end
        {
            start = start.min(s);
            end = end.max(e);
            to += 1;
            self.len -= length(&(s, e));
        }
        self.len += length(&(start, end));
        if to > from {
            self.runs[from] = (start, end);
            self.runs.drain(from + 1..to);
        } else {
            self.runs.insert(from, (start, end));
        }
    }

    /// Adds every partition of `other`.
    pub fn union_with(&mut self, other: &Self) {
        if self.is_empty() {
            self.clone_from(other);
        } else if other.runs.len() <= INSERTED_MAX {
            other.runs.iter().for_each(|&(start, end)| self.insert_range(start..end));
        } else {
            *self = self.merged(other);
        }
    }

    /// The union, by one walk through both.
    fn merged(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.runs.iter().peekable(), other.runs.iter().peekable());
        let mut joined = Runs::new();
        loop {
            let next = match (a.peek(), b.peek()) {
                (Some(one), Some(two)) if one <= two => a.next(),
                (_, Some(_)) => b.next(),
                (_, None) => a.next(),
            };
            match next {
                Some(&run) => append(&mut joined, run),
                None => return Self::of_runs(joined),
            }
        }
    }

    /// What is here and not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Runs::new();
        let mut cuts = &other.runs[..];
        for &(mut start, end) in &self.runs {
            cuts = after(cuts, start);
            let mut at = 0;
            while let Some(&(cut_start, cut_end)) = cuts.get(at).filter(|&&(cut_start, _)| cut_start < end) {
                if cut_start > start {
                    rest.push((start, cut_start));
                }
                start = cut_end;
                at += 1;
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
            return other.len;
        }
        if other.spans(self) {
            return self.len;
        }
        let mut len = 0;
        self.for_each_common(other, |run| len += length(&run));
        len
    }

    /// True when one run of this set holds all of `other`.
    fn spans(&self, other: &Self) -> bool {
        let (Some(&(start, _)), Some(&(_, end))) = (other.runs.first(), other.runs.last()) else {
            return true;
        };
        let at = self.runs.partition_point(|&(_, end)| end <= start);
        self.runs.get(at).is_some_and(|&(run_start, run_end)| run_start <= start && end <= run_end)
    }

    /// Gives the runs that are in both, ascending. The set with fewer runs is walked through, and the other is searched.
    fn for_each_common(&self, other: &Self, mut give: impl FnMut((PartitionId, PartitionId))) {
        let (few, many) = self.fewer_runs_first(other);
        let mut many = &many.runs[..];
        for &(start, end) in &few.runs {
            many = after(many, start);
            let common = many.iter().take_while(|&&(many_start, _)| many_start < end);
            common.for_each(|&(many_start, many_end)| give((start.max(many_start), end.min(many_end))));
        }
    }

    fn fewer_runs_first<'a>(&'a self, other: &'a Self) -> (&'a Self, &'a Self) {
        if self.runs.len() <= other.runs.len() { (self, other) } else { (other, self) }
    }

    /// True when some partition is in both.
    pub fn intersects(&self, other: &Self) -> bool {
        let (few, many) = self.fewer_runs_first(other);
        let mut many = &many.runs[..];
        few.runs.iter().any(|&(start, end)| {
            many = after(many, start);
            many.first().is_some_and(|&(many_start, _)| many_start < end)
        })
    }

    /// True when every partition here is also in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        if self.len > other.len {
            return false;
        }
        // Runs of a set do not touch, so each of these lies within one of those or is none's.
        let mut wider = &other.runs[..];
        self.runs.iter().all(|&(start, end)| {
            wider = after(wider, start);
            wider.first().is_some_and(|&(wide_start, wide_end)| wide_start <= start && end <= wide_end)
        })
    }

    /// A set from runs of the wire.
    ///
    /// # Errors
    /// `None` unless the runs are ascending, non-empty, disjoint and non-adjacent: one set has one encoding.
    pub fn from_runs(runs: impl IntoIterator<Item = (PartitionId, PartitionId)>) -> Option<Self> {
        let mut set = Runs::new();
        for (start, end) in runs {
            if start >= end || set.last().is_some_and(|&(_, before)| before >= start) {
                return None;
            }
            set.push((start, end));
        }
        Some(Self::of_runs(set))
    }
}

/// How many partitions a run holds.
fn length(&(start, end): &(PartitionId, PartitionId)) -> usize {
    (end - start) as usize
}

/// Adds a run to others that begin no later.
fn append(runs: &mut Runs, (start, end): (PartitionId, PartitionId)) {
    match runs.last_mut() {
        Some((_, last_end)) if *last_end >= start => *last_end = end.max(*last_end),
        _ => runs.push((start, end)),
    }
}

/// The runs that end after `start`: found near the beginning, where they mostly are, or else by halving.
fn after(runs: &[(PartitionId, PartitionId)], start: PartitionId) -> &[(PartitionId, PartitionId)] {
    if runs.first().is_none_or(|&(_, end)| end > start) {
        return runs;
    }
    let mut bound = 1;
    while bound < runs.len() && runs[bound].1 <= start {
        bound *= 2;
    }
    let from = bound / 2;
    let within = &runs[from..runs.len().min(bound + 1)];
    &runs[from + within.partition_point(|&(_, end)| end <= start)..]
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
            prop_assert_eq!(PartitionSet::from_runs(set_a.runs().iter().copied()), Some(set_a));
        }
    }
}
