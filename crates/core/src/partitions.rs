//! Sets of partitions as sorted, disjoint, non-adjacent half-open ranges.
//!
//! A tree folds neighbours, so what a partial holds is nearly always one or two runs: the set of ten thousand
//! partitions is eight bytes, and union, difference and overlap are linear in the number of runs. It carries
//! contributors (DAC §3.2, "aggregation quality"), assignments and losses alike.

use crate::id::PartitionId;
use core::fmt;
use core::ops::Range;
use smallvec::SmallVec;

type Runs = SmallVec<[(PartitionId, PartitionId); 2]>;

/// A set of partition ids.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PartitionSet {
    runs: Runs,
}

impl PartitionSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { runs: SmallVec::new_const() }
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
        self.runs.iter().map(|&(start, end)| (end - start) as usize).sum()
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
        }
        self.runs.drain(from..to);
        self.runs.insert(from, (start, end));
    }

    /// Adds every partition of `other`.
    pub fn union_with(&mut self, other: &Self) {
        if self.is_empty() {
            self.runs.clone_from(&other.runs);
            return;
        }
        for &(start, end) in &other.runs {
            self.insert_range(start..end);
        }
    }

    /// What is here and not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Runs::new();
        let mut cuts = other.runs.iter().peekable();
        for &(mut start, end) in &self.runs {
            while let Some(&&(cut_start, cut_end)) = cuts.peek() {
                if cut_end <= start {
                    cuts.next();
                    continue;
                }
                if cut_start >= end {
                    break;
                }
                if cut_start > start {
                    rest.push((start, cut_start));
                }
                start = cut_end;
                if cut_end > end {
                    break;
                }
            }
            if start < end {
                rest.push((start, end));
            }
        }
        Self { runs: rest }
    }

    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        self.difference(&self.difference(other))
    }

    /// True when some partition is in both.
    pub fn intersects(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.runs.iter().peekable(), other.runs.iter().peekable());
        while let (Some(&&(a_start, a_end)), Some(&&(b_start, b_end))) = (a.peek(), b.peek()) {
            if a_end <= b_start {
                a.next();
            } else if b_end <= a_start {
                b.next();
            } else {
                return true;
            }
        }
        false
    }

    /// True when every partition here is also in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        // Runs of a set do not touch, so each of these lies within one of those or is none's.
        let mut wider = other.runs.iter().peekable();
        self.runs.iter().all(|&(start, end)| {
            while wider.next_if(|&&(_, wide_end)| wide_end < end).is_some() {}
            wider.peek().is_some_and(|&&(wide_start, _)| wide_start <= start)
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
        Some(Self { runs: set })
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
            prop_assert_eq!(set_a.intersects(&set_b), !a.is_disjoint(&b));
            prop_assert_eq!(set_a.is_subset(&set_b), a.is_subset(&b));
            prop_assert_eq!(set_a.len(), a.len());
            let contained: BTreeSet<u32> = (0..64).filter(|&p| set_a.contains(p)).collect();
            prop_assert_eq!(contained, a);
            prop_assert_eq!(PartitionSet::from_runs(set_a.runs().iter().copied()), Some(set_a));
        }
    }
}
