//! Numbers, node names and partition sets as rows of a column.
//!
//! [`treefold_core::encoding`] writes and reads one of each; columns are made of them here. A column of *numbers* is
//! what protobuf calls packed `uint32`. Protobuf's own code takes it for a string of bytes, which on the wire is the
//! same, so a column travels from a tree to a frame and back without a row of numbers in between.
//!
//! A column of *nodes* names the family of all its addresses once. Only a mixed column spends a byte per node on it.
//!
//! A column of *sets* is two rows: how many runs each set has, and all runs.

use crate::wire::error::{WireError, malformed};
pub(super) use treefold_core::encoding::node::put_node;
use treefold_core::encoding::node::{V4_BYTES, V6_BYTES, put_marked, take_marked, take_v4, take_v6};
use treefold_core::encoding::numbers::{self, take_u32};
use treefold_core::encoding::runs::{RunReader, RunsProblem, put_runs};
use treefold_core::id::NodeId;
use treefold_core::partitions::PartitionSet;

const FAMILY_V4: u32 = 0;
const FAMILY_V6: u32 = 1;
const FAMILY_MIXED: u32 = 2;

/// Reads a node outside a column. Its length tells its address family.
pub(super) fn node_alone(bytes: &[u8], field: &'static str) -> Result<NodeId, WireError> {
    let mut rest = bytes;
    let node = match bytes.len() {
        V4_BYTES => take_v4(&mut rest),
        V6_BYTES => take_v6(&mut rest),
        _ => None,
    };
    node.ok_or(malformed(field))
}

/// Appends a row of nodes to an empty column and returns the column's family.
pub(super) fn put_nodes(column: &mut Vec<u8>, nodes: impl Iterator<Item = NodeId> + Clone) -> u32 {
    if nodes.clone().all(|node| node.addr.is_ipv4()) {
        nodes.for_each(|node| put_node(column, node));
        FAMILY_V4
    } else if nodes.clone().all(|node| node.addr.is_ipv6()) {
        nodes.for_each(|node| put_node(column, node));
        FAMILY_V6
    } else {
        nodes.for_each(|node| put_marked(column, node));
        FAMILY_MIXED
    }
}

/// Reads a column of nodes from the front.
pub(super) struct Nodes<'a> {
    rest: &'a [u8],
    family: u32,
}

impl<'a> Nodes<'a> {
    /// A column of the given family.
    pub(super) fn new(column: &'a [u8], family: u32) -> Self {
        Self { rest: column, family }
    }

    /// The next node; `None` at the end or if the bytes are malformed.
    #[inline]
    pub(super) fn take(&mut self) -> Option<NodeId> {
        match self.family {
            FAMILY_V4 => take_v4(&mut self.rest),
            FAMILY_V6 => take_v6(&mut self.rest),
            FAMILY_MIXED => {
                let &mark = self.rest.split_off_first()?;
                take_marked(mark, &mut self.rest)
            }
            _ => None,
        }
    }

    /// True if every byte has been read.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Appends a number as protobuf's packed `uint32` does.
#[inline]
pub(super) fn put_number(column: &mut Vec<u8>, number: u32) {
    numbers::put_number(column, number.into());
}

/// Reads a column of numbers from the front.
#[derive(Clone, Copy)]
pub(super) struct Numbers<'a> {
    rest: &'a [u8],
}

impl<'a> Numbers<'a> {
    /// Reads a packed column.
    pub(super) fn new(column: &'a [u8]) -> Self {
        Self { rest: column }
    }

    /// Counts the numbers, assuming that they are well-formed: each ends with exactly one byte below 0x80.
    pub(super) fn count(&self) -> usize {
        self.rest.iter().filter(|&&byte| byte < 0x80).count()
    }

    /// The next number; `None` at the end, or if the number is too large or not in its shortest encoding.
    #[inline]
    pub(super) fn take(&mut self) -> Option<u32> {
        take_u32(&mut self.rest)
    }

    /// True if every byte has been read.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Appends a set's row and returns the number of its runs.
///
/// # Errors
/// If the set contains a partition at or above `partitions_max`.
#[inline]
pub(super) fn put_set(
    column: &mut Vec<u8>,
    set: &PartitionSet,
    partitions_max: u32,
    field: &'static str,
) -> Result<u32, WireError> {
    let runs = set.runs();
    let count = runs.len();
    if let Some(&(_, end)) = runs.clone().last()
        && end > partitions_max
    {
        return Err(above(field, partitions_max, end.into()));
    }
    put_runs(column, set);
    Ok(count as u32)
}

/// Reads a set from a row that contains nothing else.
///
/// # Errors
/// If the row is malformed or contains a partition at or above `partitions_max`.
pub(super) fn set_alone(
    row: &[u8],
    partitions_max: u32,
    field: &'static str,
) -> Result<PartitionSet, WireError> {
    RunReader::new(row, partitions_max).take_all().map_err(|problem| refused(problem, field, partitions_max))
}

#[cold]
fn refused(problem: RunsProblem, field: &'static str, partitions_max: u32) -> WireError {
    match problem {
        RunsProblem::Malformed => malformed(field),
        RunsProblem::EndsAt(end) => above(field, partitions_max, end),
    }
}

fn above(field: &'static str, partitions_max: u32, end: u64) -> WireError {
    WireError::TooLarge { field, limit: partitions_max.into(), got: end }
}

/// Reads a column of sets from the front: one row of run counts and one row of runs.
pub(super) struct Sets<'a> {
    counts: Numbers<'a>,
    runs: &'a [u8],
    partitions_max: u32,
    field: &'static str,
}

impl<'a> Sets<'a> {
    /// A column with the given number of runs for each set.
    pub(super) fn new(counts: &'a [u8], runs: &'a [u8], partitions_max: u32, field: &'static str) -> Self {
        Self { counts: Numbers::new(counts), runs, partitions_max, field }
    }

    /// The next set.
    #[inline]
    pub(super) fn take(&mut self) -> Result<PartitionSet, WireError> {
        let Some(count) = self.counts.take() else { return Err(malformed(self.field)) };
        let mut row = RunReader::new(self.runs, self.partitions_max);
        let set = row.take_set(count).map_err(|problem| refused(problem, self.field, self.partitions_max))?;
        self.runs = row.rest();
        Ok(set)
    }

    /// True if every number has been read.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(set: &PartitionSet) -> Vec<u8> {
        let mut column = Vec::new();
        put_set(&mut column, set, u32::MAX, "partitions").unwrap();
        column
    }

    fn numbers(numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
        let mut column = Vec::new();
        numbers.into_iter().for_each(|number| put_number(&mut column, number));
        column
    }

    #[test]
    fn numbers_match_protobuf_varints() {
        for bits in 0..=32 {
            let number = (1_u64 << bits).saturating_sub(1) as u32;
            let mut theirs = Vec::new();
            prost::encoding::encode_varint(number.into(), &mut theirs);
            assert_eq!(numbers([number]), theirs);
            let mut read = Numbers::new(&theirs);
            assert_eq!((read.count(), read.take(), read.is_empty()), (1, Some(number), true));
        }
    }

    #[test]
    fn numbers_too_large_or_too_long_are_none() {
        for bad in [&[0x80][..], &[0x80, 0], &[0xff, 0xff, 0xff, 0xff, 0x10], &[0xff; 10], &[]] {
            assert_eq!(Numbers::new(bad).take(), None, "{bad:?}");
        }
    }

    #[test]
    fn a_set_is_gaps_and_lengths() {
        let set: PartitionSet = (0..3).chain(5..6).chain(9..11).collect();
        assert_eq!(row(&set), [0, 2, 1, 0, 2, 1]);
        assert_eq!(set_alone(&row(&set), 11, "partitions"), Ok(set));
    }

    #[test]
    fn the_limit_is_the_first_partition_that_is_not_allowed() {
        let set = PartitionSet::first(8);
        assert_eq!(set_alone(&row(&set), 8, "partitions"), Ok(set.clone()));
        let refused = WireError::TooLarge { field: "partitions", limit: 7, got: 8 };
        assert_eq!(set_alone(&row(&set), 7, "partitions"), Err(refused.clone()));
        assert_eq!(put_set(&mut Vec::new(), &set, 7, "partitions"), Err(refused));
    }

    #[test]
    fn numbers_that_run_over_are_no_set() {
        let last = PartitionSet::from_range(u32::MAX - 1..u32::MAX);
        assert_eq!(set_alone(&row(&last), u32::MAX, "partitions"), Ok(last));
        for over in [[u32::MAX, 0], [0, u32::MAX], [u32::MAX, u32::MAX]] {
            assert!(set_alone(&numbers(over), u32::MAX, "partitions").is_err(), "{over:?}");
        }
        assert_eq!(set_alone(&[1], u32::MAX, "partitions"), Err(malformed("partitions")));
    }

    #[test]
    fn a_column_states_the_address_family_once() {
        let v4 = NodeId::new("10.0.0.1:7700".parse().unwrap(), 1);
        let v6 = NodeId::new("[fe80::1]:7700".parse().unwrap(), 2);
        for (nodes, family, bytes) in
            [(vec![v4, v4], FAMILY_V4, 28), (vec![v6, v6], FAMILY_V6, 52), (vec![v6, v4], FAMILY_MIXED, 42)]
        {
            let mut column = Vec::new();
            assert_eq!(put_nodes(&mut column, nodes.iter().copied()), family);
            assert_eq!(column.len(), bytes);
            let mut read = Nodes::new(&column, family);
            assert_eq!([read.take(), read.take(), read.take()], [Some(nodes[0]), Some(nodes[1]), None]);
            assert!(read.is_empty());
        }
    }
}
