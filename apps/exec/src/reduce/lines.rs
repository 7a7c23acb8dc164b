//! Lines of text: sorting, merging, and joining.
//!
//! Two sorted texts are merged by sorting both together: Rust's stable sort finds the two runs and merges them.

use super::decimal::Decimal;
use bytes::Bytes;
use std::cmp::{Ordering, Reverse};

/// The order of `merge-sorted` and `unique`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By bytes.
    #[default]
    Text,
    /// By bytes, the greatest first.
    TextReverse,
    /// By the number in the first column, then by bytes.
    Numeric,
    /// By the number in the first column, the greatest first, then by bytes.
    NumericReverse,
}

impl Order {
    /// The names of all orders.
    pub const NAMES: [&'static str; 4] = ["text", "text-reverse", "numeric", "numeric-reverse"];

    /// The order of this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Text, Self::TextReverse, Self::Numeric, Self::NumericReverse];
        Self::NAMES.iter().position(|known| *known == name).map(|at| all[at])
    }

    /// The name of this order.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// How lines are sorted, and whether equal lines are kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rank {
    Order(Order),
    Unique(Order),
}

/// Iterates over the lines of a text, without their line feeds.
pub(super) fn of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = text.strip_suffix(b"\n").unwrap_or(text);
    // An empty text has no line; a text of one line feed has one empty line.
    let count = if text.is_empty() { 0 } else { usize::MAX };
    whole.split(|&byte| byte == b'\n').take(count)
}

/// Shows the beginning of a line in an error.
pub(super) fn shown(line: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 40;
    format!("{:?}", String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES_MAX)]))
}

/// Joins texts, each with a line feed at its end.
pub(super) fn joined(texts: &[&Bytes]) -> Vec<u8> {
    let mut out = Vec::with_capacity(texts.iter().map(|text| text.len() + 1).sum());
    for text in texts.iter().filter(|text| !text.is_empty()) {
        out.extend_from_slice(text);
        if !text.ends_with(b"\n") {
            out.push(b'\n');
        }
    }
    out
}

/// Sorts the lines of all texts, and keeps the first `most`.
pub(super) fn sorted(texts: &[&Bytes], rank: Rank, most: Option<usize>) -> Result<Vec<u8>, String> {
    let (order, is_unique) = match rank {
        Rank::Order(order) => (order, false),
        Rank::Unique(order) => (order, true),
    };
    let all = texts.iter().flat_map(|text| of(text));
    let mut lines: Vec<&[u8]> = match order {
        Order::Text => by(all, Ok, Ord::cmp)?,
        Order::TextReverse => by(all, |line| Ok(Reverse(line)), Ord::cmp)?,
        Order::Numeric => by(all, number_of, Ord::cmp)?,
        Order::NumericReverse => by(all, |line| number_of(line).map(Reverse), Ord::cmp)?,
    };
    if is_unique {
        lines.dedup();
    }
    lines.truncate(most.unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
    for line in lines {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    Ok(out)
}

/// Sorts lines by a key, and those of equal keys by their bytes.
fn by<'a, K>(
    lines: impl Iterator<Item = &'a [u8]>,
    key: impl Fn(&'a [u8]) -> Result<K, String>,
    compare: impl Fn(&K, &K) -> Ordering,
) -> Result<Vec<&'a [u8]>, String> {
    let keyed = lines.map(|line| Ok((key(line)?, line))).collect::<Result<Vec<_>, String>>();
    let mut keyed = keyed?;
    keyed.sort_by(|(ours, our), (theirs, their)| compare(ours, theirs).then_with(|| our.cmp(their)));
    Ok(keyed.into_iter().map(|(_, line)| line).collect())
}

/// Returns the number in a line's first column.
fn number_of(line: &[u8]) -> Result<Decimal, String> {
    let column = line.split(u8::is_ascii_whitespace).find(|column| !column.is_empty()).unwrap_or_default();
    Decimal::read(column).map_err(|error| format!("the first column of {} is {error}", shown(line)))
}
