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
        let takes_ours = match (ours, theirs) {
            (Some(ours), Some(theirs)) => ours <= theirs,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return Ok(merged.into()),
        };
        let next = if takes_ours { &mut ours } else { &mut theirs };
        put(&mut merged, next.take().unwrap_or_default());
        *next = if takes_ours { left.next()? } else { right.next()? };
    }
}

/// Two runs of key, tab and number, ascending by key, as one in which each key stands once.
pub(super) fn sum(a: &Bytes, b: &Bytes) -> Result<Bytes> {
    let mut summed = Vec::with_capacity(a.len() + b.len() + 2);
    let (mut left, mut right) = (Counts(Lines::new(a)), Counts(Lines::new(b)));
    let (mut ours, mut theirs) = (left.next()?, right.next()?);
    loop {
        let order = match (&ours, &theirs) {
            (Some(ours), Some(theirs)) => ours.key.cmp(theirs.key),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(summed.into()),
        };
        match (order, ours, theirs) {
            (Ordering::Equal, Some(one), Some(other)) => {
                let count = one.count.checked_add(other.count).ok_or_else(|| overflow(one.key))?;
                let digits = count.to_string();
                put_count(&mut summed, one.key, digits.as_bytes());
            }
            (Ordering::Less, Some(one), _) | (_, _, Some(one)) => {
                put_count(&mut summed, one.key, one.digits);
            }
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

fn put_count(out: &mut Vec<u8>, key: &[u8], digits: &[u8]) {
    out.extend_from_slice(key);
    out.push(b'\t');
    put(out, digits);
}

fn shown(line: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 40;
    format!("{:?}", String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES_MAX)]))
}

fn overflow(key: &[u8]) -> OperatorError {
    OperatorError::new(format!("the sum of {} leaves 64 bits", shown(key)))
}

/// The lines of a run, none less than the one before.
struct Lines<'a> {
    rest: &'a [u8],
    before: &'a [u8],
}

impl<'a> Lines<'a> {
    fn new(run: &'a [u8]) -> Self {
        Self { rest: run, before: &[] }
    }

    fn next(&mut self) -> Result<Option<&'a [u8]>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let end = self.rest.iter().position(|&byte| byte == b'\n');
        let (line, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &[][..]),
        };
        if line < self.before {
            let problem = format!("{} comes after {}", shown(line), shown(self.before));
            return Err(OperatorError::new(problem));
        }
        (self.rest, self.before) = (rest, line);
        Ok(Some(line))
    }
}

#[derive(Clone, Copy)]
struct Count<'a> {
    key: &'a [u8],
    digits: &'a [u8],
    count: i64,
}

/// The counts of a run, each key greater than the one before.
struct Counts<'a>(Lines<'a>);

impl<'a> Counts<'a> {
    fn next(&mut self) -> Result<Option<Count<'a>>> {
        let before = key_of(self.0.before);
        let is_first = self.0.before.is_empty();
        let lines = &mut self.0;
        // Keys are compared, and not lines: a tab is greater than some bytes of longer keys.
        lines.before = &[];
        let Some(line) = lines.next()? else { return Ok(None) };
        let key = key_of(line);
        let digits = line.get(key.len() + 1..).unwrap_or_default();
        let count = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let Some(count) = count else {
            return Err(OperatorError::new(format!("{} is no key, tab and number", shown(line))));
        };
        if !is_first && key <= before {
            return Err(OperatorError::new(format!("{} comes after {}", shown(key), shown(before))));
        }
        Ok(Some(Count { key, digits, count }))
    }
}

fn key_of(line: &[u8]) -> &[u8] {
    line.iter().rposition(|&byte| byte == b'\t').map_or(line, |tab| &line[..tab])
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
