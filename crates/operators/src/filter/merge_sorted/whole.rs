//! The merge of whole runs, each of which is one packet: the reduce of calls and pushes.
//!
//! A packet is `blobs blobs`, `strs blobs`, `blobs i64s` or `strs i64s`: keys and values. For equal keys, all
//! blobs are kept, and whole numbers are added.

use super::Combine;
use super::merging::{self, Writer};
use super::run::{Chunk, Run, unlike};
use crate::error::Result;
use crate::fold::{FilterError, Fold, Piece};
use crate::packet::{Packet, Type};
use bytes::Bytes;

/// The accepted formats of a run.
const FORMATS: [[Type; 2]; 4] = [
    [Type::Blobs, Type::Blobs],
    [Type::Strs, Type::Blobs],
    [Type::Blobs, Type::I64s],
    [Type::Strs, Type::I64s],
];
const WANTED: &str = "`blobs blobs`, `strs blobs`, `blobs i64s` or `strs i64s`";

/// Merges sorted runs.
#[derive(Default)]
pub(super) struct MergeWhole;

impl Fold for MergeWhole {
    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let mut runs = Vec::with_capacity(pieces.len());
        let mut first: Option<Packet> = None;
        for &Piece { source, ref payload } in pieces {
            let packet = Packet::read(payload).map_err(FilterError::packet(source))?;
            if !FORMATS.iter().any(|format| packet.types().eq(*format)) {
                return Err(unlike(source, &packet, WANTED).into());
            }
            let first = first.get_or_insert_with(|| packet.clone());
            if !packet.types().eq(first.types()) {
                return Err(unlike(source, &packet, &format!("`{}`, as others send,", first.format())).into());
            }
            let mut run = Run::default();
            run.take(source, Chunk::of(source, &packet, WANTED)?)?;
            runs.push(run);
        }
        let mut types = first.iter().flat_map(Packet::types);
        let key = types.next().map_or(Type::Blob, Type::element);
        let combine = if types.next() == Some(Type::I64s) { Combine::Sum } else { Combine::Keep };
        let mut merged = merging::merge(runs.iter(), None, Writer::whole(combine, key), (true, 0))?;
        Ok(merged.chunks.pop().expect("invariant: a writer of one packet gives one"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Source;
    use crate::packet::Row;

    fn merged(rows: [Row; 2]) -> Result<Packet> {
        let piece =
            |(at, row): (u32, Row)| Piece { source: Source::Child(at), payload: row.packet().into_bytes() };
        let pieces: Vec<Piece> = (0..).zip(rows).map(piece).collect();
        Ok(Packet::read(&MergeWhole.fold(&pieces)?)?)
    }

    fn counts(keys: &[&str], values: &[i64]) -> Row {
        Row::new().strs(keys).i64s(values)
    }

    #[test]
    fn runs_are_merged_by_key_and_counts_are_added() {
        let both = merged([counts(&["a", "c"], &[1, 2]), counts(&["a", "b"], &[10, 5])]).unwrap();
        assert_eq!(both, counts(&["a", "b", "c"], &[11, 5, 2]).packet());
        let blobs = |keys: &[&[u8]], values: &[&[u8]]| Row::new().blobs(keys).blobs(values);
        let both = merged([blobs(&[b"a"], &[b"1"]), blobs(&[b"a", b"b"], &[b"2", b"3"])]).unwrap();
        assert_eq!(both, blobs(&[b"a", b"a", b"b"], &[b"1", b"2", b"3"]).packet());
    }

    #[test]
    fn packets_that_are_no_runs_are_refused() {
        let why = |a: Row, b: Row| merged([a, b]).unwrap_err().to_string();
        let one = counts(&["a"], &[1]);
        let descending = why(one.clone(), counts(&["b", "a"], &[1, 2]));
        assert_eq!(descending, "the keys of child 1 don't ascend: entry 1 is less than the one before it");
        assert!(
            why(counts(&["b"], &[1, 2]), one.clone()).contains("has 2 elements, where the others have 1")
        );
        assert!(why(one.clone(), Row::new().i64(3)).starts_with("child 1 sends `i64`, but `blobs blobs`, "));
        let unlike = why(one.clone(), Row::new().blobs(&[b"a"]).i64s(&[1]));
        assert_eq!(unlike, "child 1 sends `blobs i64s`, but `strs i64s`, as others send, is expected");
        assert!(why(counts(&["a"], &[i64::MAX]), one).starts_with("overflow: the sum of key"));
    }
}
