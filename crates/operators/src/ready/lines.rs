//! Runs of lines: for applications that have text and no wish for another format.
//!
//! A last line without its line feed is a line all the same, and gets one. Lines are compared by their bytes.

use crate::error::{OperatorError, Result};
use bytes::Bytes;
use std::cmp::Ordering;

/// Two ascending runs of lines as one.
pub(super) fn merge(a: &Bytes, b: &Bytes) -> Result<Bytes> {
    let mut merged = Vec::with_capacity(a.len() + b.len() + 2);
    let (mut left, mut right) = (Lines::new(a), Lines::new(b));
    let (mut ours, mut theirs) = (left.next()?, right.next()?);
    loop {
        let takes_ours = match (&ours, &theirs) {
            (Some(ours), Some(theirs)) => ours <= theirs,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return Ok(merged.into()),
        };
        let (next, lines) = if takes_ours { (&mut ours, &mut left) } else { (&mut theirs, &mut right) };
        put(&mut merged, next.map_or(&[], |line| line.bytes));
        *next = lines.next()?;
    }
}

/// Two runs of key, tab and number, ascending by key, as one in which each key stands once.
pub(super) fn sum(a: &Bytes, b: &Bytes) -> Result<Bytes> {
    let mut summed = Vec::with_capacity(a.len() + b.len() + 2);
    let (mut left, mut right) = (Counts::new(a), Counts::new(b));
    let (mut ours, mut theirs) = (left.next()?, right.next()?);
    loop {
        let order = match (&ours, &theirs) {
            (Some(ours), Some(theirs)) => ours.key.cmp(&theirs.key),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(summed.into()),
        };
        match (order, ours, theirs) {
            (Ordering::Equal, Some(one), Some(other)) => {
                let count = one.count.checked_add(other.count).ok_or_else(|| overflow(one.key.bytes))?;
                summed.extend_from_slice(&one.line[..=one.key.bytes.len()]);
                put(&mut summed, itoa::Buffer::new().format(count).as_bytes());
            }
            (Ordering::Less, Some(one), _) | (_, _, Some(one)) => put(&mut summed, one.line),
            _ => {}
        }
        if order.is_le() {
            ours = left.next()?;
        }
        if order.is_ge() {
            theirs = right.next()?;
        }
    }
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

#[cold]
fn overflow(key: &[u8]) -> OperatorError {
    OperatorError::new(format!("the sum of {} leaves 64 bits", shown(key)))
}

/// Bytes, ordered as they are, and faster: by their first sixteen as one number, and by all only where those are equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    /// Big-endian. Those that are not there count as zero, which is no more than any that is.
    first: u128,
    bytes: &'a [u8],
}

impl<'a> Key<'a> {
    const FIRST_BYTES: usize = size_of::<u128>();

    /// The key of so many bytes at the front of `rest`.
    fn at_front(rest: &'a [u8], bytes: usize) -> Self {
        let key = &rest[..bytes];
        let first = match rest.first_chunk() {
            // What lies behind the key is read with it, and shifted out.
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

    /// This one, unless it comes before what must not come behind it.
    #[inline]
    fn behind(self, before: Option<Self>, is_in_order: fn(Ordering) -> bool) -> Result<Self> {
        match before {
            Some(before) if !is_in_order(before.cmp(&self)) => Err(out_of_order(self.bytes, before.bytes)),
            _ => Ok(self),
        }
    }
}

/// Takes a line off the front of a run; gives its length, and what it is the front of.
fn split_line<'a>(run: &mut &'a [u8]) -> Option<(usize, &'a [u8])> {
    let rest = *run;
    if rest.is_empty() {
        return None;
    }
    let end = memchr::memchr(b'\n', rest);
    *run = end.map_or(&[], |end| &rest[end + 1..]);
    Some((end.unwrap_or(rest.len()), rest))
}

/// The lines of a run, none less than the one before.
struct Lines<'a> {
    rest: &'a [u8],
    before: Option<Key<'a>>,
}

impl<'a> Lines<'a> {
    fn new(run: &'a [u8]) -> Self {
        Self { rest: run, before: None }
    }

    fn next(&mut self) -> Result<Option<Key<'a>>> {
        let Some((end, rest)) = split_line(&mut self.rest) else { return Ok(None) };
        self.before = Some(Key::at_front(rest, end).behind(self.before, Ordering::is_le)?);
        Ok(self.before)
    }
}

#[derive(Clone, Copy)]
struct Count<'a> {
    key: Key<'a>,
    count: i64,
    /// The two as they stand there.
    line: &'a [u8],
}

/// The counts of a run, each key greater than the one before. Keys are compared, and not lines: a tab is greater than
/// some bytes of longer keys.
struct Counts<'a> {
    rest: &'a [u8],
    before: Option<Key<'a>>,
}

impl<'a> Counts<'a> {
    fn new(run: &'a [u8]) -> Self {
        Self { rest: run, before: None }
    }

    fn next(&mut self) -> Result<Option<Count<'a>>> {
        let Some((end, rest)) = split_line(&mut self.rest) else { return Ok(None) };
        let line = &rest[..end];
        let Some((tab, count)) = number_behind_tab(line) else {
            return Err(OperatorError::new(format!("{} is no key, tab and number", shown(line))));
        };
        let key = Key::at_front(rest, tab).behind(self.before, Ordering::is_lt)?;
        self.before = Some(key);
        Ok(Some(Count { key, count, line }))
    }
}

/// Where a line's last tab is, and the whole number of 64 bits behind it, written as [`str::parse`] takes it.
fn number_behind_tab(line: &[u8]) -> Option<(usize, i64)> {
    // So many digits cannot leave 64 bits.
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
            let merged = merge(&text(&a), &text(&b)).unwrap();
            a.append(&mut b);
            a.sort();
            prop_assert_eq!(merged, text(&a));
        }

        #[test]
        fn sums_are_those_of_a_map(a in counts(), b in counts(), c in counts()) {
            let mut all = a.clone();
            for (key, count) in b.iter().chain(&c) {
                *all.entry(key.clone()).or_default() += count;
            }
            let (a, b, c) = (run(&a), run(&b), run(&c));
            let one_way = sum(&sum(&a, &b).unwrap(), &c).unwrap();
            let other_way = sum(&a, &sum(&c, &b).unwrap()).unwrap();
            prop_assert_eq!(&one_way, &other_way);
            prop_assert_eq!(one_way, run(&all));
        }
    }

    fn lines() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[a-c]{0,3}", 0..12)
    }

    proptest! {
        /// Long enough to differ within the first sixteen bytes and behind them, with bytes of zero.
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
    fn what_is_out_of_order_or_no_count_is_told_by_its_line() {
        let run = |text: &'static str| Bytes::from_static(text.as_bytes());
        let why = |result: Result<Bytes>| result.unwrap_err().to_string();
        assert_eq!(why(merge(&run("b\na\n"), &run("c\n"))), r#""a" comes after "b""#);
        assert_eq!(why(sum(&run("a\t1\na\t2\n"), &run("c\t1\n"))), r#""a" comes after "a""#);
        assert!(why(sum(&run("a 1\n"), &run("c\t1\n"))).contains("no key, tab and number"));
        let most = run("a\t9223372036854775807\n");
        assert!(why(sum(&most, &most)).contains("leaves 64 bits"));
        assert_eq!(merge(&run("a"), &run("b")).unwrap(), "a\nb\n", "a last line needs no line feed");
    }
}
