//! Sets of tags as rows of a column.
//!
//! The form is that of partition sets ([`crate::wire::columns`]): two numbers for each run, the gap between
//! its start and the least possible start, and its length minus one. Because a tag has 64 bits, the numbers
//! have 64 bits too. In a stream with large tags, each set costs one long number, and its other numbers are
//! short.

use crate::wire::columns::{Numbers, put_number};
use crate::wire::error::{WireError, malformed, within};
use treefold_core::stream::tags::{RUNS_MAX, TagRuns};

/// Appends a set's row to one column and its number of runs to another.
pub(super) fn put_tags(run_counts: &mut Vec<u8>, runs: &mut Vec<u8>, tags: &TagRuns) {
    put_number(run_counts, tags.runs().len() as u32);
    let mut least = 0;
    for &(first, last) in tags.runs() {
        put_long(runs, first - least);
        put_long(runs, last - first);
        // The addition wraps only after the last possible run, and `least` is not used after that.
        least = last.wrapping_add(2);
    }
}

/// Reads a column of sets from the front: one row of run counts and one row of runs.
pub(super) struct TagSets<'a> {
    counts: Numbers<'a>,
    runs: Longs<'a>,
}

impl<'a> TagSets<'a> {
    /// A column with the given number of runs for each set.
    pub(super) fn new(counts: &'a [u8], runs: &'a [u8]) -> Self {
        Self { counts: Numbers::new(counts), runs: Longs { rest: runs } }
    }

    /// The next set.
    ///
    /// # Errors
    /// If there is no further set, or it has more runs than a set may have, or its runs are malformed.
    pub(super) fn take(&mut self) -> Result<TagRuns, WireError> {
        let count = self.counts.take().ok_or(malformed("run_counts"))? as usize;
        within("runs", RUNS_MAX, count)?;
        let mut runs = Vec::with_capacity(count);
        let mut least = Some(0);
        for _ in 0..count {
            let (first, last) = self.take_run(least).ok_or(malformed("runs"))?;
            runs.push((first, last));
            least = last.checked_add(2);
        }
        TagRuns::from_runs(runs).ok_or(malformed("runs"))
    }

    /// The next run, which starts at `least` or later; `None` if the numbers overflow or end.
    fn take_run(&mut self, least: Option<u64>) -> Option<(u64, u64)> {
        let first = least?.checked_add(self.runs.take()?)?;
        Some((first, first.checked_add(self.runs.take()?)?))
    }

    /// True if every number has been read.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.runs.rest.is_empty()
    }
}

/// Appends a number as protobuf's packed `uint64` does.
fn put_long(column: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        column.push(number as u8 | 0x80);
        number >>= 7;
    }
    column.push(number as u8);
}

/// Reads a column of 64-bit numbers from the front.
struct Longs<'a> {
    rest: &'a [u8],
}

impl Longs<'_> {
    /// The next number; `None` at the end, or if the number is too large or not in its shortest encoding.
    fn take(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let &byte = self.rest.split_off_first()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return (byte != 0 || shift == 0).then_some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(tags: &TagRuns) -> (Vec<u8>, Vec<u8>) {
        let (mut counts, mut runs) = (Vec::new(), Vec::new());
        put_tags(&mut counts, &mut runs, tags);
        (counts, runs)
    }

    fn tags(runs: &[(u64, u64)]) -> TagRuns {
        TagRuns::from_runs(runs.to_vec()).unwrap()
    }

    #[test]
    fn numbers_match_protobuf_varints() {
        for bits in 0..=64 {
            let number = (1_u128 << bits).saturating_sub(1) as u64;
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            put_long(&mut ours, number);
            prost::encoding::encode_varint(number, &mut theirs);
            assert_eq!(ours, theirs);
            assert_eq!(Longs { rest: &theirs }.take(), Some(number));
        }
        for bad in [&[0x80][..], &[0x80, 0], &[0xff; 10], &[0xff; 11], &[]] {
            assert_eq!(Longs { rest: bad }.take(), None, "{bad:?}");
        }
    }

    #[test]
    fn a_set_is_gaps_and_lengths() {
        let set = tags(&[(1, 3), (5, 5), (9, 10)]);
        assert_eq!(columns(&set), (vec![3], vec![1, 2, 0, 0, 2, 1]));
    }

    #[test]
    fn sets_up_to_the_largest_tag_round_trip() {
        let last = u64::MAX;
        for set in [tags(&[]), tags(&[(0, last)]), tags(&[(0, 0), (last, last)]), tags(&[(7, last - 1)])] {
            let (counts, runs) = columns(&set);
            let mut read = TagSets::new(&counts, &runs);
            assert_eq!(read.take(), Ok(set));
            assert!(read.is_empty());
        }
    }

    #[test]
    fn overflowing_or_short_rows_are_refused() {
        let mut all = Vec::new();
        [u64::MAX, 0, 0, 0].into_iter().for_each(|number| put_long(&mut all, number));
        let mut long = Vec::new();
        [1, u64::MAX].into_iter().for_each(|number| put_long(&mut long, number));
        for (count, runs) in [(2, &all[..]), (1, &long), (1, &[0]), (1, &[]), (2, &[0, 0, 1])] {
            assert_eq!(TagSets::new(&[count], runs).take(), Err(malformed("runs")), "{runs:?}");
        }
        assert_eq!(TagSets::new(&[], &[]).take(), Err(malformed("run_counts")));
    }

    #[test]
    fn a_set_with_too_many_runs_is_refused() {
        let most = TagRuns::from_runs((0..RUNS_MAX as u64).map(|n| (2 * n, 2 * n)).collect()).unwrap();
        let (counts, mut runs) = columns(&most);
        assert_eq!(TagSets::new(&counts, &runs).take(), Ok(most));
        let mut counts = Vec::new();
        put_number(&mut counts, RUNS_MAX as u32 + 1);
        runs.extend([0, 0]);
        let (limit, got) = (RUNS_MAX as u64, RUNS_MAX as u64 + 1);
        let refused = WireError::TooLarge { field: "runs", limit, got };
        assert_eq!(TagSets::new(&counts, &runs).take(), Err(refused));
    }
}
