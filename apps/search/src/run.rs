//! Sorted runs: words with their counts, ordered by word, in their encoded form.
//!
//! A run is one MessagePack map from texts to numbers, with its keys in ascending byte order. A key may
//! occur several times if the run has not been combined yet. Runs are merged entry by entry in encoded
//! form, without being decoded into texts first, and a run that is kept is shared, not copied.

use bytes::{BufMut, Bytes, BytesMut};
use treefold_operators::fold::{Side, merge_runs, side_by_side, slice_of};
use treefold_operators::{Body, BodyError, Codec};

/// Words with their counts, ordered by word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run(Bytes);

/// Size of the head of a run written here: a map with a four-byte length.
const HEAD_BYTES: usize = 5;

impl Default for Run {
    fn default() -> Self {
        RunWriter::default().finish()
    }
}

impl Run {
    /// Its encoded size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Its entries, ordered by word.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        Entries::of(&self.0)
            .expect("invariant: a run was checked when it was made")
            .map(|entry| entry.expect("invariant: a run was checked when it was made"))
    }

    /// Merges two runs into one with each word once.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        let mut writer = RunWriter::with_capacity(self.bytes() + other.bytes());
        for side in side_by_side(self.iter(), other.iter(), |(this, _), (that, _)| this.cmp(that)) {
            match side {
                Side::Ours((word, count)) | Side::Theirs((word, count)) => writer.add(word, count),
                Side::Both((word, ours), (_, theirs)) => {
                    writer.add(word, ours);
                    writer.add(word, theirs);
                }
            }
        }
        writer.finish()
    }

    /// Splits the run into this many runs, at least one. A word's hash selects its run.
    pub fn split(&self, slices: u32) -> Vec<Self> {
        let slices = slices.max(1);
        let room = self.bytes() / slices as usize + HEAD_BYTES;
        let mut writers: Vec<RunWriter> = (0..slices).map(|_| RunWriter::with_capacity(room)).collect();
        for (word, count) in self.iter() {
            writers[slice_of(&word, slices)].add_apart(word, count);
        }
        writers.into_iter().map(RunWriter::finish).collect()
    }

    /// Merges all runs into one with each word once, in one pass.
    #[must_use]
    pub fn joined(runs: &[Self]) -> Self {
        let mut writer = RunWriter::with_capacity(HEAD_BYTES + runs.iter().map(Self::bytes).sum::<usize>());
        for (word, count) in merge_runs(runs.iter().map(Self::iter), |(a, _), (b, _)| a.cmp(b)) {
            writer.add(word, count);
        }
        writer.finish()
    }

    /// The same run with each word once.
    #[must_use]
    pub fn combined(&self) -> Self {
        self.merged(&Self::default())
    }
}

impl Body for Run {
    const CODEC: Codec = Codec::MessagePack;

    fn encode(&self) -> Result<Bytes, BodyError> {
        Ok(self.0.clone())
    }

    fn decode(bytes: &Bytes) -> Result<Self, BodyError> {
        let refused = |cause: &str| BodyError::Decode {
            codec: Codec::MessagePack,
            type_name: "a sorted run",
            bytes: bytes.len(),
            cause: cause.to_owned(),
        };
        let mut before = "";
        for entry in Entries::of(bytes).map_err(refused)? {
            let (word, _) = entry.map_err(refused)?;
            if word < before {
                return Err(refused("its words are not in order"));
            }
            before = word;
        }
        Ok(Self(bytes.clone()))
    }
}

/// Writes a run, word by word in ascending order.
#[derive(Debug)]
pub(crate) struct RunWriter {
    bytes: BytesMut,
    entries: u32,
    /// The current word, whose count may still grow, and that count.
    open: (String, u64),
}

impl Default for RunWriter {
    fn default() -> Self {
        Self::with_capacity(HEAD_BYTES)
    }
}

impl RunWriter {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut written = BytesMut::with_capacity(bytes);
        written.put_bytes(0, HEAD_BYTES);
        Self { bytes: written, entries: 0, open: (String::new(), 0) }
    }

    /// Adds `count` to a word, which must not be below the last one.
    pub(crate) fn add(&mut self, word: &str, count: u64) {
        if self.open.0 == word {
            self.open.1 = self.open.1.saturating_add(count);
            return;
        }
        self.close();
        self.open.0.push_str(word);
        self.open.1 = count;
    }

    /// Adds a separate entry, even if the word is the last one again.
    pub(crate) fn add_apart(&mut self, word: &str, count: u64) {
        self.close();
        self.put(word, count);
    }

    fn close(&mut self) {
        let (word, count) = (std::mem::take(&mut self.open.0), std::mem::take(&mut self.open.1));
        if count > 0 {
            self.put(&word, count);
        }
        self.open.0 = word;
        self.open.0.clear();
    }

    fn put(&mut self, word: &str, count: u64) {
        let length = word.len();
        match length {
            0..=31 => self.bytes.put_u8(0xa0 | length as u8),
            32..=0xff => self.bytes.put_slice(&[0xd9, length as u8]),
            _ => {
                self.bytes.put_u8(0xdb);
                self.bytes.put_u32(u32::try_from(length).expect("invariant: a word is shorter than a text"));
            }
        }
        self.bytes.put_slice(word.as_bytes());
        match count {
            0..=0x7f => self.bytes.put_u8(count as u8),
            0x80..=0xff => self.bytes.put_slice(&[0xcc, count as u8]),
            0x100..=0xffff => {
                self.bytes.put_u8(0xcd);
                self.bytes.put_u16(count as u16);
            }
            0x1_0000..=0xffff_ffff => {
                self.bytes.put_u8(0xce);
                self.bytes.put_u32(count as u32);
            }
            _ => {
                self.bytes.put_u8(0xcf);
                self.bytes.put_u64(count);
            }
        }
        self.entries += 1;
    }

    pub(crate) fn finish(mut self) -> Run {
        self.close();
        self.bytes[0] = 0xdf;
        self.bytes[1..HEAD_BYTES].copy_from_slice(&self.entries.to_be_bytes());
        Run(self.bytes.freeze())
    }
}

/// The entries of an encoded run.
struct Entries<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Entries<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let mut rest = bytes;
        let left = match rest.first() {
            // An empty input and MessagePack's nil are runs without words.
            None | Some(0xc0) => {
                rest = rest.get(1..).unwrap_or_default();
                0
            }
            Some(_) => match number(&mut rest)? {
                (0x80..=0x8f, head) => u32::from(head as u8 & 0x0f),
                (0xde | 0xdf, length) => length as u32,
                _ => return Err("it is not a map"),
            },
        };
        if left == 0 && !rest.is_empty() {
            return Err("there is more data after the map");
        }
        Ok(Self { rest, left })
    }

    fn entry(&mut self) -> Result<(&'a str, u64), &'static str> {
        let length = match number(&mut self.rest)? {
            (0xa0..=0xbf, head) => head as usize & 0x1f,
            (0xd9..=0xdb, length) => length as usize,
            _ => return Err("a key is not a text"),
        };
        let (word, rest) = self.rest.split_at_checked(length).ok_or("it is cut off")?;
        self.rest = rest;
        let word = std::str::from_utf8(word).map_err(|_| "a word is not UTF-8")?;
        match number(&mut self.rest)? {
            (0x00..=0x7f | 0xcc..=0xcf, count) => Ok((word, count)),
            _ => Err("a count is not a number"),
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(&'a str, u64), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let entry = self.entry();
        match (self.left, self.rest.is_empty()) {
            (0, false) if entry.is_ok() => Some(Err("there is more data after the map")),
            _ => Some(entry),
        }
    }
}

/// A MessagePack marker, and the number after it. If no number follows, the marker itself is the number.
fn number(rest: &mut &[u8]) -> Result<(u8, u64), &'static str> {
    let (&marker, after) = rest.split_first().ok_or("it is cut off")?;
    let width = match marker {
        0xcc | 0xd9 => 1,
        0xcd | 0xda | 0xde => 2,
        0xce | 0xdb | 0xdf => 4,
        0xcf => 8,
        _ => 0,
    };
    let (digits, after) = after.split_at_checked(width).ok_or("it is cut off")?;
    *rest = after;
    let number = digits.iter().fold(0, |number, &digit| (number << 8) | u64::from(digit));
    Ok((marker, if width == 0 { u64::from(marker) } else { number }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A run of these entries, none of them combined.
    fn run(mut entries: Vec<(String, u64)>) -> Run {
        entries.sort();
        let mut writer = RunWriter::default();
        entries.iter().for_each(|(word, count)| writer.add_apart(word, *count));
        writer.finish()
    }

    fn entries() -> impl Strategy<Value = Vec<(String, u64)>> {
        let counts = prop_oneof![1..200u64, 60_000..70_000u64, (1u64 << 32)..(1 << 33)];
        let words = prop_oneof!["[a-c]{1,2}", "[a-c]{31,33}", "é{128}"];
        proptest::collection::vec((words, counts), 0..20)
    }

    proptest! {
        #[test]
        fn runs_are_readable_as_messagepack_maps(entries in entries()) {
            let mut counts = BTreeMap::<String, u64>::new();
            entries.iter().for_each(|(word, count)| *counts.entry(word.clone()).or_default() += count);
            let combined = run(entries).combined().encode().unwrap();
            prop_assert_eq!(BTreeMap::<String, u64>::decode(&combined).unwrap(), counts);
            prop_assert!(Run::decode(&combined).is_ok());
        }

        #[test]
        fn merging_is_associative_and_commutative_with_identity(
            a in entries(), b in entries(), c in entries(),
        ) {
            let [a, b, c] = [a, b, c].map(run);
            prop_assert_eq!(a.merged(&b), b.merged(&a));
            prop_assert_eq!(a.merged(&b).merged(&c), a.merged(&b.merged(&c)));
            prop_assert_eq!(a.combined().merged(&Run::default()), a.combined());
        }

        #[test]
        fn slices_of_runs_fold_like_runs(a in entries(), b in entries(), slices in 1_u32..6) {
            let [a, b] = [a, b].map(run);
            let folded: Vec<Run> = a.split(slices).iter().zip(b.split(slices)).map(|(a, b)| a.merged(&b)).collect();
            prop_assert_eq!(Run::joined(&folded), a.merged(&b));
            prop_assert_eq!(Run::joined(&a.split(slices)), a.combined());
        }

        #[test]
        fn runs_are_joined_as_in_pairs(runs in proptest::collection::vec(entries(), 2..10)) {
            let runs: Vec<Run> = runs.into_iter().map(run).collect();
            let in_pairs = runs.iter().cloned().reduce(|a, b| a.merged(&b)).unwrap();
            prop_assert_eq!(Run::joined(&runs), in_pairs);
        }

        #[test]
        fn arbitrary_bytes_are_a_valid_run_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let bytes = Bytes::from(bytes);
            if let Ok(run) = Run::decode(&bytes) {
                prop_assert!(run.iter().count() <= bytes.len());
            }
        }
    }

    #[test]
    fn truncated_disordered_and_overlong_runs_are_refused() {
        let good = run(vec![("a".into(), 1), ("b".into(), 300)]).encode().unwrap();
        for end in 1..good.len() {
            assert!(Run::decode(&good.slice(..end)).is_err(), "cut off at {end}");
        }
        let longer = Bytes::from([&good[..], &[0]].concat());
        assert!(Run::decode(&longer).unwrap_err().to_string().contains("more data after the map"));
        let disordered = Bytes::from_static(&[0x82, 0xa1, b'b', 1, 0xa1, b'a', 1]);
        assert!(Run::decode(&disordered).unwrap_err().to_string().contains("not in order"));
        assert_eq!(Run::decode(&Bytes::new()).unwrap().iter().count(), 0);
    }
}
