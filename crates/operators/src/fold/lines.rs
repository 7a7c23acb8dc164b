//! Runs of lines, for applications that exchange plain text.
//!
//! Samples and partials have the same format. A last line without a line feed is accepted and gets one. Lines
//! are compared by their bytes.

use super::{Fold, Piece, Side, merge_runs, side_by_side};
use crate::builtin::{Builtin, Made, plain};
use crate::codec::Codec;
use crate::error::{OperatorError, Result};
use bytes::Bytes;
use std::marker::PhantomData;

pub(crate) const MERGE_LINES: Builtin = Builtin {
    name: "merge-lines",
    summary: "merges lines of text that ascend by their bytes",
    params: &[],
    made: Made::Fold(plain::<Runs<Text>>),
};

pub(crate) const SUM_LINES: Builtin = Builtin {
    name: "sum-lines",
    summary: "merges lines of a key, a tab and a number that ascend by key; adds the numbers of equal keys",
    params: &[],
    made: Made::Fold(plain::<Runs<Counts>>),
};

pub(crate) const APPEND: Builtin = Builtin {
    name: "append",
    summary: "concatenates any bytes, in no particular order",
    params: &[],
    made: Made::Fold(plain::<Append>),
};

#[derive(Default)]
struct Append;

impl Fold for Append {
    const CODECS: (Codec, Codec) = (Codec::MessagePack, Codec::Raw);

    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let payloads: Vec<&[u8]> = pieces.iter().map(|piece| piece.payload.as_ref()).collect();
        Ok(payloads.concat().into())
    }
}

/// The format of a run's lines.
trait Lines: Send + Sync + 'static {
    /// Whether several lines may have the same key. If not, their numbers are added.
    const REPEATS: bool;

    /// Returns the length of the line's key, and its number.
    fn read(line: &[u8]) -> Result<(usize, i64)>;
}

/// Lines that consist of the key only.
struct Text;

impl Lines for Text {
    const REPEATS: bool = true;

    #[inline]
    fn read(line: &[u8]) -> Result<(usize, i64)> {
        Ok((line.len(), 0))
    }
}

/// Lines of a key, a tab and a number.
///
/// The keys are compared, not the lines, because a tab is greater than some bytes of longer keys.
struct Counts;

impl Lines for Counts {
    const REPEATS: bool = false;

    #[inline]
    fn read(line: &[u8]) -> Result<(usize, i64)> {
        let no_count = || OperatorError::new(format!("{} is not a line of key, tab and number", shown(line)));
        number_behind_tab(line).ok_or_else(no_count)
    }
}

/// The fold of ascending runs of lines.
struct Runs<L>(PhantomData<fn() -> L>);

impl<L> Default for Runs<L> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<L: Lines> Fold for Runs<L> {
    const CODECS: (Codec, Codec) = (Codec::MessagePack, Codec::Raw);

    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let check =
            |piece: &Piece| merge::<L>(&piece.payload, &Bytes::new()).map_err(|error| piece.invalid(error));
        match pieces {
            [only] => check(only),
            _ => merged::<L>(pieces).map_err(|error| {
                // Only now the faulty run is searched for. If every run is valid by itself, the merge reports
                // the error.
                pieces.iter().find_map(|piece| check(piece).err()).unwrap_or(error)
            }),
        }
    }
}

fn merged<L: Lines>(pieces: &[Piece]) -> Result<Bytes> {
    match pieces {
        [one, other] => merge::<L>(&one.payload, &other.payload),
        _ => merge_all::<L>(pieces.iter().map(|piece| &piece.payload)),
    }
}

/// Merges two ascending runs.
fn merge<L: Lines>(a: &Bytes, b: &Bytes) -> Result<Bytes> {
    let mut merged = Vec::with_capacity(a.len() + b.len() + 2);
    let (mut left, mut right) = (Run::<L>::new(a), Run::<L>::new(b));
    for side in side_by_side(&mut left, &mut right, |our, their| our.key.cmp(&their.key)) {
        match side {
            Side::Ours(line) | Side::Theirs(line) => put(&mut merged, line.bytes),
            Side::Both(our, their) if L::REPEATS => {
                put(&mut merged, our.bytes);
                put(&mut merged, their.bytes);
            }
            Side::Both(our, their) => put_count(&mut merged, our, sum(our, their.count)?),
        }
    }
    left.end()?;
    right.end()?;
    Ok(merged.into())
}

/// Merges any number of ascending runs in one pass.
fn merge_all<'a, L: Lines>(runs: impl Iterator<Item = &'a Bytes> + Clone) -> Result<Bytes> {
    let mut merged = Vec::with_capacity(runs.clone().map(|run| run.len() + 1).sum());
    let mut runs: Vec<Run<L>> = runs.map(|run| Run::new(run)).collect();
    let mut lines = merge_runs(&mut runs, |our, their| our.key.cmp(&their.key));
    let mut next = lines.next();
    while let Some(line) = next {
        let (mut count, mut is_alone) = (line.count, true);
        next = lines.next();
        while let Some(equal) = next.filter(|other| !L::REPEATS && other.key == line.key) {
            count = sum(Line { count, ..line }, equal.count)?;
            (next, is_alone) = (lines.next(), false);
        }
        if is_alone { put(&mut merged, line.bytes) } else { put_count(&mut merged, line, count) }
    }
    drop(lines);
    runs.into_iter().try_for_each(Run::end)?;
    Ok(merged.into())
}

/// Adds a number to that of a line.
fn sum(line: Line<'_>, count: i64) -> Result<i64> {
    let key = line.key.bytes;
    let overflow = || OperatorError::new(format!("the sum of {} does not fit into 64 bits", shown(key)));
    line.count.checked_add(count).ok_or_else(overflow)
}

/// Writes a line with another number.
fn put_count(out: &mut Vec<u8>, line: Line<'_>, count: i64) {
    out.extend_from_slice(&line.bytes[..=line.key.bytes.len()]);
    put(out, itoa::Buffer::new().format(count).as_bytes());
}

fn put(out: &mut Vec<u8>, line: &[u8]) {
    out.extend_from_slice(line);
    out.push(b'\n');
}

fn shown(line: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 40;
    format!("{:?}", String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES_MAX)]))
}

#[cold]
fn out_of_order(key: &[u8], before: &[u8]) -> OperatorError {
    OperatorError::new(format!("{} comes after {}", shown(key), shown(before)))
}

/// A key that compares as its bytes do, but faster.
///
/// The first sixteen bytes are compared as one number, and all bytes only if these are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    /// Big-endian. Missing bytes count as zero, which is never greater than an existing byte.
    first: u128,
    bytes: &'a [u8],
}

impl<'a> Key<'a> {
    const FIRST_BYTES: usize = size_of::<u128>();

    /// Returns the key in the first `bytes` bytes of `rest`.
    fn at_front(rest: &'a [u8], bytes: usize) -> Self {
        let key = &rest[..bytes];
        let first = match rest.first_chunk() {
            // The sixteen bytes may contain data behind the key, which is shifted out.
            Some(&first) if bytes > 0 => {
                let behind = 8 * Self::FIRST_BYTES.saturating_sub(bytes);
                u128::from_be_bytes(first) >> behind << behind
            }
            Some(_) => 0,
            None => {
                let mut first = [0; Self::FIRST_BYTES];
                first[..bytes].copy_from_slice(key);
                u128::from_be_bytes(first)
            }
        };
        Self { first, bytes: key }
    }
}

#[derive(Clone, Copy)]
struct Line<'a> {
    key: Key<'a>,
    count: i64,
    /// The whole line.
    bytes: &'a [u8],
}

/// Iterates over the lines of a run by ascending key. An invalid line ends it, and [`end`](Self::end) returns
/// the error.
struct Run<'a, L> {
    rest: &'a [u8],
    before: Option<Key<'a>>,
    broken: Option<OperatorError>,
    lines: PhantomData<L>,
}

impl<'a, L: Lines> Run<'a, L> {
    fn new(run: &'a [u8]) -> Self {
        Self { rest: run, before: None, broken: None, lines: PhantomData }
    }

    fn end(self) -> Result<()> {
        self.broken.map_or(Ok(()), Err)
    }
}

impl<'a, L: Lines> Iterator for Run<'a, L> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        let rest = self.rest;
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest);
        self.rest = end.map_or(&[], |end| &rest[end + 1..]);
        let bytes = &rest[..end.unwrap_or(rest.len())];
        let (key_bytes, count) = L::read(bytes).map_err(|error| self.broken = Some(error)).ok()?;
        let key = Key::at_front(rest, key_bytes);
        if let Some(before) = self.before.replace(key)
            && (before > key || !L::REPEATS && before == key)
        {
            self.broken = Some(out_of_order(key.bytes, before.bytes));
            return None;
        }
        Some(Line { key, count, bytes })
    }
}

/// Returns the position of a line's last tab, and the 64-bit whole number behind it, as [`str::parse`]
/// accepts it.
fn number_behind_tab(line: &[u8]) -> Option<(usize, i64)> {
    // A number of at most this many digits fits into 64 bits.
    const DIGITS_SAFE: usize = 18;
    let (mut number, mut power) = (0, 1);
    for (digits, (at, &byte)) in line.iter().enumerate().rev().take(DIGITS_SAFE + 1).enumerate() {
        match byte {
            b'0'..=b'9' if digits < DIGITS_SAFE => number += power * i64::from(byte - b'0'),
            b'\t' if digits > 0 => return Some((at, number)),
            _ => break,
        }
        power *= 10;
    }
    let tab = memchr::memrchr(b'\t', line)?;
    Some((tab, std::str::from_utf8(&line[tab + 1..]).ok()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn run(counts: &BTreeMap<String, i64>) -> Bytes {
        counts.iter().map(|(key, count)| format!("{key}\t{count}\n")).collect::<String>().into()
    }

    proptest! {
        #[test]
        fn merged_lines_are_all_lines_sorted(mut a in lines(), mut b in lines()) {
            a.sort();
            b.sort();
            let text = |lines: &[String]| Bytes::from(lines.iter().map(|line| format!("{line}\n")).collect::<String>());
            let merged = merge::<Text>(&text(&a), &text(&b)).unwrap();
            a.append(&mut b);
            a.sort();
            prop_assert_eq!(merged, text(&a));
        }

        #[test]
        fn sums_match_a_map(a in counts(), b in counts(), c in counts()) {
            let mut all = a.clone();
            for (key, count) in b.iter().chain(&c) {
                *all.entry(key.clone()).or_default() += count;
            }
            let (a, b, c) = (run(&a), run(&b), run(&c));
            let sum = merge::<Counts>;
            let one_way = sum(&sum(&a, &b).unwrap(), &c).unwrap();
            let other_way = sum(&a, &sum(&c, &b).unwrap()).unwrap();
            prop_assert_eq!(&one_way, &other_way);
            prop_assert_eq!(one_way, run(&all));
        }
    }

    proptest! {
        /// Also if lines are out of order or a sum overflows.
        #[test]
        fn many_runs_merge_as_in_pairs(
            runs in proptest::collection::vec(proptest::collection::btree_map("[ -c]{1,3}", -9_i64..9, 0..8), 3..12),
            broken in proptest::option::of((any::<proptest::sample::Index>(), any::<bool>())),
        ) {
            let mut runs: Vec<Bytes> = runs.iter().map(run).collect();
            if let Some((at, overflows)) = broken {
                let at = at.index(runs.len());
                let more = if overflows { "d\t9223372036854775807\n" } else { "d\t1\na\t1\n" };
                runs[at] = [&runs[at][..], more.as_bytes()].concat().into();
                runs[0] = [&runs[0][..], if at == 0 { b"" } else { b"d\t1\n" }].concat().into();
            }
            compare::<Counts>(&runs);
            let texts: Vec<Bytes> = runs.iter().map(sorted).collect();
            compare::<Text>(&texts);
        }
    }

    fn compare<L: Lines>(runs: &[Bytes]) {
        let in_pairs = runs[1..].iter().try_fold(runs[0].clone(), |sum, run| merge::<L>(&sum, run));
        match (merge_all::<L>(runs.iter()), in_pairs) {
            (Ok(at_once), Ok(in_pairs)) => assert_eq!(at_once, in_pairs),
            (at_once, in_pairs) => assert_eq!(at_once.is_ok(), in_pairs.is_ok(), "{at_once:?}, {in_pairs:?}"),
        }
    }

    /// The lines of a run in the order of their bytes.
    fn sorted(run: &Bytes) -> Bytes {
        let mut lines: Vec<&[u8]> = run.split_inclusive(|&byte| byte == b'\n').collect();
        lines.sort_unstable();
        lines.concat().into()
    }

    fn lines() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[a-c]{0,3}", 0..12)
    }

    proptest! {
        /// The keys differ within the first sixteen bytes or behind them, and contain zero bytes.
        #[test]
        fn keys_are_ordered_as_their_bytes(a in key(), b in key(), behind in key()) {
            let with_more = |key: &[u8]| [key, behind.as_slice()].concat();
            let (with_a, with_b) = (with_more(&a), with_more(&b));
            let keys = (Key::at_front(&with_a, a.len()), Key::at_front(&with_b, b.len()));
            prop_assert_eq!(keys.0.cmp(&keys.1), a.cmp(&b));
        }
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        (0..20_usize, proptest::collection::vec(0_u8..2, 0..4))
            .prop_map(|(same, rest)| [vec![1; same], rest].concat())
    }

    fn counts() -> impl Strategy<Value = BTreeMap<String, i64>> {
        proptest::collection::btree_map("[ -c]{1,3}", -9_i64..9, 0..8)
    }

    #[test]
    fn unordered_lines_and_invalid_counts_are_reported_by_line() {
        let run = |text: &'static str| Bytes::from_static(text.as_bytes());
        let why = |result: Result<Bytes>| result.unwrap_err().to_string();
        let (merge, sum) = (merge::<Text>, merge::<Counts>);
        assert_eq!(why(merge(&run("b\na\n"), &run("c\n"))), r#""a" comes after "b""#);
        assert_eq!(why(sum(&run("a\t1\na\t2\n"), &run("c\t1\n"))), r#""a" comes after "a""#);
        assert!(why(sum(&run("a 1\n"), &run("c\t1\n"))).contains("is not a line of key, tab and number"));
        let most = run("a\t9223372036854775807\n");
        assert!(why(sum(&most, &most)).contains("does not fit into 64 bits"));
        assert_eq!(merge(&run("a"), &run("b")).unwrap(), "a\nb\n", "the last line needs no line feed");
    }
}
