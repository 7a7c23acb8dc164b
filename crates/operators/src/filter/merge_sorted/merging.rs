//! The merge itself: takes the least of all runs' next entries, repeatedly, up to the floor.

use super::run::{Floor, Position, Run};
use super::{Combine, MergeSorted};
use crate::filter::FilterError;
use crate::packet::value::LENGTH;
use crate::packet::{Row, Type};
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// The result of a merge.
pub(super) struct Merged {
    /// The chunks that go up.
    pub(super) chunks: Vec<Bytes>,
    /// The greatest key in the chunks.
    pub(super) last_key: Option<Bytes>,
    /// The position in each run up to which its entries have gone up.
    pub(super) positions: Vec<Position>,
    /// Whether the output run ends with these chunks.
    pub(super) ends: bool,
}

/// Merges all entries below `floor`, or all entries if there is no floor.
///
/// The last chunk carries `last`: whether the run ends, and the number of late entries.
pub(super) fn merge<'a>(
    runs: impl Iterator<Item = &'a Run>,
    floor: Option<&Floor>,
    mut writer: Writer<'a>,
    last: (bool, u64),
) -> Result<Merged, FilterError> {
    let runs: Vec<&Run> = runs.collect();
    let mut positions: Vec<Position> = runs.iter().map(|run| run.start()).collect();
    // The heap yields the least key first; of equal keys, the one of the first source.
    let mut heads: BinaryHeap<Reverse<(&[u8], usize)>> = BinaryHeap::with_capacity(runs.len());
    heads.extend((0..).zip(&runs).filter_map(|(at, run)| Some(Reverse((run.entry(run.start())?.0, at)))));
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((key, at)) = *head;
        if floor.is_some_and(|floor| !floor.is_beyond(key)) {
            break;
        }
        let (_, value) = runs[at].entry(positions[at]).expect("invariant: a head is an entry");
        writer.take(key, value)?;
        positions[at] = runs[at].after(positions[at]);
        match runs[at].entry(positions[at]) {
            Some((next, _)) => *head = Reverse((next, at)),
            None => drop(PeekMut::pop(head)),
        }
    }
    let (chunks, last_key) = writer.finish(last);
    Ok(Merged { chunks, last_key, positions, ends: last.0 })
}

/// Gathers entries into chunks, or into one packet.
pub(super) struct Writer<'a> {
    combine: Combine,
    /// Bytes of a chunk; `None` writes one packet of keys and values only.
    chunk_bytes: Option<usize>,
    /// The type of a key.
    key: Type,
    /// The current key and the sum of its values so far.
    sum: Option<(&'a [u8], i64)>,
    last_key: Option<&'a [u8]>,
    keys: Vec<u8>,
    values: Vec<u8>,
    count: usize,
    chunks: Vec<Bytes>,
}

impl<'a> Writer<'a> {
    /// Creates a writer of a stream's chunks.
    pub(super) fn of_chunks(params: &MergeSorted) -> Self {
        Self::new(params.combine, Some(params.chunk_bytes as usize), Type::Blob)
    }

    /// Creates a writer of one packet with keys of type `key`.
    pub(super) fn whole(combine: Combine, key: Type) -> Self {
        Self::new(combine, None, key)
    }

    fn new(combine: Combine, chunk_bytes: Option<usize>, key: Type) -> Self {
        Self {
            combine,
            chunk_bytes,
            key,
            sum: None,
            last_key: None,
            keys: Vec::new(),
            values: Vec::new(),
            count: 0,
            chunks: Vec::new(),
        }
    }

    /// Takes the next entry. Its key must not be less than the key before it.
    fn take(&mut self, key: &'a [u8], value: &[u8]) -> Result<(), FilterError> {
        self.last_key = Some(key);
        if self.combine == Combine::Keep {
            self.append(key, value, LENGTH);
            return Ok(());
        }
        let value =
            i64::from_le_bytes(*value.first_chunk().expect("invariant: summed values have eight bytes"));
        match &mut self.sum {
            Some((same, sum)) if *same == key => {
                *sum = sum.checked_add(value).ok_or_else(|| FilterError::Overflow {
                    figure: format!("sum of key \"{}\"", key.escape_ascii()),
                    bits: 64,
                })?;
            }
            _ => {
                self.write_sum();
                self.sum = Some((key, value));
            }
        }
        Ok(())
    }

    fn write_sum(&mut self) {
        if let Some((key, sum)) = self.sum.take() {
            self.append(key, &sum.to_le_bytes(), 0);
        }
    }

    /// Appends an entry whose value has a length prefix of `value_length` bytes. Starts a new chunk if this
    /// one is full.
    fn append(&mut self, key: &[u8], value: &[u8], value_length: usize) {
        let entry_bytes = LENGTH + key.len() + value_length + value.len();
        let bytes = self.keys.len() + self.values.len() + entry_bytes;
        if self.count > 0 && self.chunk_bytes.is_some_and(|bytes_max| bytes > bytes_max) {
            self.write_chunk((false, 0));
        }
        let length = |octets: &[u8]| (octets.len() as u32).to_le_bytes(); // an entry is never longer than the packet that contained it
        self.keys.extend_from_slice(&length(key));
        self.keys.extend_from_slice(key);
        self.values.extend_from_slice(&length(value)[..value_length]);
        self.values.extend_from_slice(value);
        self.count += 1;
    }

    fn write_chunk(&mut self, (ends, late): (bool, u64)) {
        let mut row = Row::new();
        row.reserve(self.keys.len() + self.values.len());
        row.begin_list(self.key, self.count, self.keys.len());
        row.octets(&self.keys);
        match self.combine {
            Combine::Keep => row.begin_list(Type::Blob, self.count, self.values.len()),
            Combine::Sum => row.begin_array(Type::I64, self.count),
        }
        row.octets(&self.values);
        let row = if self.chunk_bytes.is_some() { row.u64(u64::from(ends)).u64(late) } else { row };
        self.chunks.push(row.packet().into_bytes());
        self.keys.clear();
        self.values.clear();
        self.count = 0;
    }

    fn finish(mut self, last: (bool, u64)) -> (Vec<Bytes>, Option<Bytes>) {
        self.write_sum();
        self.write_chunk(last);
        (self.chunks, self.last_key.map(Bytes::copy_from_slice))
    }
}
