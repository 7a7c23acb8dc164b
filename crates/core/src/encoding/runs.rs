//! Partition sets: two numbers for each run.
//!
//! The first is the gap between the least place where the run could start and its start. The second is the length of
//! the run less one. Such a row cannot express runs that are empty, overlap, touch or are out of order, and its numbers
//! are small. Every row that ends within the limit is one set, and every set is one row.

use super::numbers::{put_number, take_u32};
use crate::partitions::PartitionSet;
use alloc::vec::Vec;

/// Appends the runs of a set.
#[inline]
pub fn put_runs(out: &mut Vec<u8>, set: &PartitionSet) {
    let mut least = 0;
    for &(start, end) in set.runs() {
        put_number(out, (start - least).into());
        put_number(out, (end - start - 1).into());
        // Only the last run may end at the greatest number, and `least` is not used after it.
        least = end.wrapping_add(1);
    }
}

/// The reason why a row is no set. No error yet: a reader makes one for each seat of each tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsProblem {
    /// Two numbers cannot be read.
    Malformed,
    /// A run ends above the limit.
    EndsAt(u64),
}

/// Reads the runs of one set.
#[derive(Debug)]
pub struct RunReader<'a> {
    rest: &'a [u8],
    /// The least place where the next run can start.
    least: u64,
    partitions_max: u32,
    problem: Option<RunsProblem>,
}

impl<'a> RunReader<'a> {
    /// A reader of runs whose partitions are below `partitions_max`.
    #[inline]
    pub fn new(row: &'a [u8], partitions_max: u32) -> Self {
        Self { rest: row, least: 0, partitions_max, problem: None }
    }

    /// The bytes after the runs that were taken.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next run; `None` if there is no sound one.
    #[inline]
    fn take_run(&mut self) -> Option<(u32, u32)> {
        let (Some(gap), Some(rest)) = (take_u32(&mut self.rest), take_u32(&mut self.rest)) else {
            self.problem = Some(RunsProblem::Malformed);
            return None;
        };
        let start = self.least + u64::from(gap);
        let end = start + u64::from(rest) + 1;
        self.least = end + 1;
        if end > u64::from(self.partitions_max) {
            self.problem = Some(RunsProblem::EndsAt(end));
            return None;
        }
        Some((start as u32, end as u32))
    }

    /// Takes a set of `count` runs.
    ///
    /// # Errors
    /// The first problem of the row.
    #[inline]
    pub fn take_set(&mut self, count: u32) -> Result<PartitionSet, RunsProblem> {
        // Most sets have one run, which needs no loop.
        let set = match count {
            0 => Some(PartitionSet::new()),
            1 => self.take_run().and_then(|run| PartitionSet::from_runs([run])),
            _ => PartitionSet::from_runs((0..count).map_while(|_| self.take_run())),
        };
        self.checked(set)
    }

    /// Takes all runs of the row as one set.
    ///
    /// # Errors
    /// The first problem of the row.
    pub fn take_all(&mut self) -> Result<PartitionSet, RunsProblem> {
        let set = PartitionSet::from_runs(core::iter::from_fn(|| {
            if self.rest.is_empty() { None } else { self.take_run() }
        }));
        self.checked(set)
    }

    #[inline]
    fn checked(&self, set: Option<PartitionSet>) -> Result<PartitionSet, RunsProblem> {
        match (self.problem, set) {
            (None, Some(set)) => Ok(set),
            (Some(problem), _) => Err(problem),
            (None, None) => Err(RunsProblem::Malformed),
        }
    }
}
