//! Numbers, node names and partition sets as rows of a column.
//!
//! A column of *numbers* is protobuf's packed `uint32`. This module writes and reads it byte by byte.
//! Protobuf's own code treats the column as a byte string, which has the same form on the wire. A column
//! therefore moves between a tree and a frame without an intermediate array of numbers. Only the shortest
//! encoding of a number is accepted.
//!
//! A *node* is the octets of its address, its port and its generation: 14 bytes for IPv4, 26 for IPv6. A
//! column of nodes states the address family once. Only a column that mixes both families spends one more
//! byte per node. An IPv6 scope or flow label is valid on one host only and is not sent.
//!
//! A *partition set* is a row of numbers, two per run: the gap between the run's start and the least possible
//! start, and the run's length minus one. Such a row cannot express runs that are empty, overlapping,
//! adjacent or out of order, and its numbers are small. Every row that ends within the limit encodes exactly
//! one set, and every set has exactly one row.

use crate::wire::error::{WireError, malformed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use treefold_core::id::NodeId;
use treefold_core::partitions::PartitionSet;

const V4_BYTES: usize = 4 + 2 + 8;
const V6_BYTES: usize = 16 + 2 + 8;
const FAMILY_V4: u32 = 0;
const FAMILY_V6: u32 = 1;
const FAMILY_MIXED: u32 = 2;
const MARK_V4: u8 = 4;
const MARK_V6: u8 = 6;

/// Appends a node.
#[inline]
pub(super) fn put_node(column: &mut Vec<u8>, node: NodeId) {
    let port = node.addr.port().to_le_bytes();
    let generation = node.generation.to_le_bytes();
    // A single array, so that the column's capacity is checked once.
    match node.addr.ip() {
        IpAddr::V4(ip) => {
            let mut bytes = [0; V4_BYTES];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes[4..6].copy_from_slice(&port);
            bytes[6..].copy_from_slice(&generation);
            column.extend_from_slice(&bytes);
        }
        IpAddr::V6(ip) => {
            let mut bytes = [0; V6_BYTES];
            bytes[..16].copy_from_slice(&ip.octets());
            bytes[16..18].copy_from_slice(&port);
            bytes[18..].copy_from_slice(&generation);
            column.extend_from_slice(&bytes);
        }
    }
}

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
        for node in nodes {
            column.push(if node.addr.is_ipv4() { MARK_V4 } else { MARK_V6 });
            put_node(column, node);
        }
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
            FAMILY_MIXED => match *self.rest.split_off_first()? {
                MARK_V4 => take_v4(&mut self.rest),
                MARK_V6 => take_v6(&mut self.rest),
                _ => None,
            },
            _ => None,
        }
    }

    /// True if every byte has been read.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[inline]
fn take_v4(rest: &mut &[u8]) -> Option<NodeId> {
    let (bytes, after) = rest.split_first_chunk::<V4_BYTES>()?;
    *rest = after;
    let ip = Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]);
    named(ip.into(), bytes.last_chunk()?)
}

#[inline]
fn take_v6(rest: &mut &[u8]) -> Option<NodeId> {
    let (bytes, after) = rest.split_first_chunk::<V6_BYTES>()?;
    *rest = after;
    let ip = Ipv6Addr::from(*bytes.first_chunk::<16>()?);
    named(ip.into(), bytes.last_chunk()?)
}

#[inline]
fn named(ip: IpAddr, [p0, p1, generation @ ..]: &[u8; 10]) -> Option<NodeId> {
    let port = u16::from_le_bytes([*p0, *p1]);
    Some(NodeId::new(SocketAddr::new(ip, port), u64::from_le_bytes(*generation)))
}

/// Appends a number as protobuf's packed `uint32` does.
#[inline]
pub(super) fn put_number(column: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        column.push(number as u8 | 0x80);
        number >>= 7;
    }
    column.push(number as u8);
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
        let &first = self.rest.split_off_first()?;
        if first < 0x80 {
            return Some(first.into());
        }
        let mut number = u32::from(first & 0x7f);
        for shift in [7, 14, 21, 28] {
            let &byte = self.rest.split_off_first()?;
            let bits = u32::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return (byte != 0).then_some(number);
            }
        }
        None
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
    let mut least = 0;
    for &(start, end) in runs {
        put_number(column, start - least);
        put_number(column, end - start - 1);
        // Only the last run can end at `u32::MAX`, and `least` is not used after it.
        least = end.wrapping_add(1);
    }
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
    let mut row = Row::new(Numbers::new(row), partitions_max);
    let set = PartitionSet::from_runs(std::iter::from_fn(|| {
        if row.numbers.is_empty() { None } else { row.take_run() }
    }));
    row.checked(set, field)
}

/// Reads the runs of one set.
struct Row<'a> {
    numbers: Numbers<'a>,
    /// The least possible start of the next run.
    least: u64,
    partitions_max: u32,
    fate: Fate,
}

/// The result of reading a row. An error is built from it only when needed, because one row is read for each
/// seat of each tree.
#[derive(Clone, Copy)]
enum Fate {
    Sound,
    Senseless,
    EndsAt(u64),
}

impl<'a> Row<'a> {
    fn new(numbers: Numbers<'a>, partitions_max: u32) -> Self {
        Self { numbers, least: 0, partitions_max, fate: Fate::Sound }
    }

    /// The next run; `None` if the row is malformed or above the limit.
    #[inline]
    fn take_run(&mut self) -> Option<(u32, u32)> {
        let Some((gap, rest)) = self.numbers.take().zip(self.numbers.take()) else {
            self.fate = Fate::Senseless;
            return None;
        };
        let start = self.least + u64::from(gap);
        let end = start + u64::from(rest) + 1;
        self.least = end + 1;
        if end > u64::from(self.partitions_max) {
            self.fate = Fate::EndsAt(end);
            return None;
        }
        Some((start as u32, end as u32))
    }

    fn checked(&self, set: Option<PartitionSet>, field: &'static str) -> Result<PartitionSet, WireError> {
        match (self.fate, set) {
            (Fate::Sound, Some(set)) => Ok(set),
            (Fate::EndsAt(end), _) => Err(above(field, self.partitions_max, end)),
            _ => Err(malformed(field)),
        }
    }
}

fn above(field: &'static str, partitions_max: u32, end: u64) -> WireError {
    WireError::TooLarge { field, limit: partitions_max.into(), got: end }
}

/// Reads a column of sets from the front: one row of run counts and one row of runs.
pub(super) struct Sets<'a> {
    counts: Numbers<'a>,
    runs: Numbers<'a>,
    partitions_max: u32,
    field: &'static str,
}

impl<'a> Sets<'a> {
    /// A column with the given number of runs for each set.
    pub(super) fn new(counts: &'a [u8], runs: &'a [u8], partitions_max: u32, field: &'static str) -> Self {
        Self { counts: Numbers::new(counts), runs: Numbers::new(runs), partitions_max, field }
    }

    /// The next set.
    #[inline]
    pub(super) fn take(&mut self) -> Result<PartitionSet, WireError> {
        let Some(count) = self.counts.take() else { return Err(malformed(self.field)) };
        let mut row = Row::new(self.runs, self.partitions_max);
        // Most sets have one run, which is read without a loop.
        let set = match count {
            0 => Some(PartitionSet::new()),
            1 => row.take_run().and_then(|run| PartitionSet::from_runs([run])),
            _ => PartitionSet::from_runs((0..count).map_while(|_| row.take_run())),
        };
        self.runs = row.numbers;
        row.checked(set, self.field)
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
