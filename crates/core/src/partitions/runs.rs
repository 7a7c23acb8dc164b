//! The runs of a set: half-open ranges, ascending, disjoint and not adjacent.
//!
//! Nearly every set has one or two runs. These are stored in the set itself, which is kept small, because
//! packets, partials and waves have several sets each and are moved often. More runs are stored in chunks. A
//! root over ten thousand children holds thousands of runs for a while, and adds one run for each partial. In
//! a single row each insertion would move half of the runs. With chunks, a change searches for its chunk and
//! moves at most the runs of that chunk.
//!
//! Invariants: sets with chunks have more than [`FEW_MAX`] runs, and no chunk is empty. The division of runs
//! into chunks does not affect the set's value.

use crate::id::PartitionId;
use alloc::boxed::Box;
use smallvec::SmallVec;

/// A run, as its first partition and the one after its last.
pub(super) type Run = (PartitionId, PartitionId);

/// Runs in one array.
pub(super) type Row = SmallVec<[Run; 8]>;

/// Sets with at most this many runs store them in the set itself.
const FEW_MAX: usize = 2;
/// If two sets together have at most this many runs, they are compared run by run.
const SHORT_MAX: usize = 48;
/// The maximum number of runs in one chunk.
const CHUNK_MAX: usize = 256;

#[derive(Clone)]
enum Layout {
    /// The number of runs, and the array whose first elements they are.
    Few(u8, [Run; FEW_MAX]),
    Many(Box<Chunks>),
}

/// The runs of a set that has too many to store in the set itself.
#[derive(Clone)]
struct Chunks {
    chunks: SmallVec<[Row; 1]>,
    /// The number of runs in all chunks.
    count: usize,
    /// The number of partitions in all runs.
    len: usize,
}

/// The runs of a set.
#[derive(Clone)]
pub(super) struct Runs(Layout);

impl PartialEq for Runs {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Layout::Few(count, few), Layout::Few(other_count, other_few)) => {
                count == other_count && few[..usize::from(*count)] == other_few[..usize::from(*other_count)]
            }
            // The same runs may be divided into other chunks.
            _ => self.count() == other.count() && self.iter().eq(other.iter()),
        }
    }
}

impl Default for Runs {
    fn default() -> Self {
        Self::new()
    }
}

impl Runs {
    pub(super) const fn new() -> Self {
        Self(Layout::Few(0, [(0, 0); FEW_MAX]))
    }

    /// From runs that are ascending, disjoint and not adjacent.
    pub(super) fn of(row: Row) -> Self {
        let mut all = Self::new();
        if row.len() <= CHUNK_MAX {
            all.lay(row);
        } else {
            row.into_iter().for_each(|run| all.push(run));
        }
        all
    }

    /// The number of runs.
    #[inline]
    pub(super) fn count(&self) -> usize {
        match &self.0 {
            Layout::Few(count, _) => usize::from(*count),
            Layout::Many(many) => many.count,
        }
    }

    /// The number of partitions.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match &self.0 {
            Layout::Few(count, few) => few[..usize::from(*count)].iter().map(length).sum(),
            Layout::Many(many) => many.len,
        }
    }

    /// All runs, ascending.
    #[inline]
    pub(super) fn iter(&self) -> RunsIter<'_> {
        match &self.0 {
            Layout::Few(count, few) => RunsIter { row: &few[..usize::from(*count)], chunks: &[] },
            Layout::Many(many) => RunsIter { row: &[], chunks: &many.chunks },
        }
    }

    /// All runs as one slice, if they are in one array.
    #[inline]
    fn row(&self) -> Option<&[Run]> {
        match &self.0 {
            Layout::Few(count, few) => Some(&few[..usize::from(*count)]),
            Layout::Many(many) => match &many.chunks[..] {
                [row] => Some(row),
                _ => None,
            },
        }
    }

    /// Both sets' runs as slices, if they are so few that passing all of them takes less than a search.
    #[inline]
    pub(super) fn short_rows<'a>(&'a self, other: &'a Self) -> Option<(&'a [Run], &'a [Run])> {
        let (a, b) = (self.row()?, other.row()?);
        (a.len() + b.len() <= SHORT_MAX).then_some((a, b))
    }

    pub(super) fn first(&self) -> Option<Run> {
        self.iter().next().copied()
    }

    pub(super) fn last(&self) -> Option<Run> {
        self.iter().last().copied()
    }

    /// The last run that begins at `partition` or before it.
    pub(super) fn last_from(&self, partition: PartitionId) -> Option<Run> {
        let row = match &self.0 {
            Layout::Few(count, few) => &few[..usize::from(*count)],
            Layout::Many(many) => {
                let after = many.chunks.partition_point(|chunk| chunk[0].0 <= partition);
                &many.chunks[after.checked_sub(1)?]
            }
        };
        row[..row.partition_point(|&(start, _)| start <= partition)].last().copied()
    }

    /// Adds a run behind all others. It must not touch them.
    pub(super) fn push(&mut self, run: Run) {
        match &mut self.0 {
            Layout::Few(count, few) if usize::from(*count) < FEW_MAX => {
                few[usize::from(*count)] = run;
                *count += 1;
            }
            Layout::Few(_, few) => {
                let mut row = Row::from_slice(few);
                row.push(run);
                self.lay(row);
            }
            Layout::Many(many) => many.push(run),
        }
    }

    /// Adds a run that begins no earlier than any other.
    pub(super) fn append(&mut self, (start, end): Run) {
        let Some(last) = self.last().filter(|&(_, last_end)| last_end >= start) else {
            return self.push((start, end));
        };
        let end = end.max(last.1);
        match &mut self.0 {
            Layout::Few(count, few) => few[usize::from(*count) - 1].1 = end,
            Layout::Many(many) => many.prolong_last(end),
        }
    }

    /// Adds the partitions of a run that is not empty. Returns how many of them are new.
    pub(super) fn insert(&mut self, run: Run) -> usize {
        match &mut self.0 {
            Layout::Few(count, few) => {
                let row = &mut few[..usize::from(*count)];
                if row.last().is_none_or(|last| last.1 < run.0) {
                    self.push(run);
                    return length(&run);
                }
                if let Some(gained) = prolong(row.last_mut(), run) {
                    return gained;
                }
                let mut row = Row::from_slice(row);
                let gained = insert_in(&mut row, run);
                self.lay(row);
                gained
            }
            Layout::Many(many) => {
                let gained = many.insert(run);
                self.lie_in_the_set();
                gained
            }
        }
    }

    /// Removes the partitions of a run. Returns how many of them were in the set.
    pub(super) fn remove(&mut self, run: Run) -> usize {
        match &mut self.0 {
            Layout::Few(count, few) => {
                let row = &few[..usize::from(*count)];
                if !rows_intersect(row, &[run]) {
                    return 0;
                }
                if let (Some(first), Some(last)) = (row.first(), row.last())
                    && run.0 <= first.0
                    && last.1 <= run.1
                {
                    let lost = row.iter().map(length).sum();
                    *self = Self::new();
                    return lost;
                }
                let mut row = Row::from_slice(row);
                let lost = cut(&mut row, run);
                self.lay(row);
                lost
            }
            Layout::Many(many) => {
                let lost = many.remove(run);
                self.lie_in_the_set();
                lost
            }
        }
    }

    /// Replaces all runs with these.
    #[inline]
    pub(super) fn lay(&mut self, row: Row) {
        if row.len() <= FEW_MAX {
            let mut few = [(0, 0); FEW_MAX];
            few[..row.len()].copy_from_slice(&row);
            self.0 = Layout::Few(row.len() as u8, few);
            return;
        }
        match &mut self.0 {
            Layout::Many(many) => **many = Chunks::of(row),
            Layout::Few(..) => self.0 = Layout::Many(Box::new(Chunks::of(row))),
        }
    }

    /// Moves the runs into the set itself if few are left.
    fn lie_in_the_set(&mut self) {
        if self.count() <= FEW_MAX {
            self.lay(self.iter().copied().collect());
        }
    }
}

impl FromIterator<Run> for Runs {
    fn from_iter<I: IntoIterator<Item = Run>>(runs: I) -> Self {
        Self::of(runs.into_iter().collect())
    }
}

impl Chunks {
    fn of(row: Row) -> Self {
        let (count, len) = (row.len(), row.iter().map(length).sum());
        Self { chunks: SmallVec::from_buf([row]), count, len }
    }

    fn push(&mut self, run: Run) {
        self.len += length(&run);
        self.place_last(run);
    }

    fn place_last(&mut self, run: Run) {
        self.count += 1;
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_MAX => chunk.push(run),
            _ => self.chunks.push(Row::from_slice(&[run])),
        }
    }

    /// Moves the end of the last run to `end`, which is later.
    fn prolong_last(&mut self, end: PartitionId) {
        if let Some(last) = self.chunks.last_mut().and_then(|chunk| chunk.last_mut()) {
            self.len += (end - last.1) as usize;
            last.1 = end;
        }
    }

    fn insert(&mut self, run: Run) -> usize {
        let gained = self.take_in(run);
        self.len += gained;
        gained
    }

    fn remove(&mut self, run: Run) -> usize {
        let lost = self.take_out(run);
        self.len -= lost;
        lost
    }

    fn take_in(&mut self, run: Run) -> usize {
        if let [row] = &mut self.chunks[..]
            && row.len() < CHUNK_MAX
        {
            let gained = insert_in(row, run);
            self.count = row.len();
            return gained;
        }
        let at = self.chunks.partition_point(|chunk| end_of(chunk) < run.0);
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.place_last(run);
            return length(&run);
        };
        let many = chunk.len();
        let from = chunk.partition_point(|&(_, end)| end < run.0);
        let (mut joined, mut before) = absorb(chunk, from, run);
        self.count = self.count + chunk.len() - many;
        let is_last_of_chunk = from + 1 == chunk.len();
        // The runs that it touches may continue in the following chunks.
        let mut emptied = at + 1;
        while is_last_of_chunk
            && let Some(behind) = self.chunks.get_mut(emptied)
            && behind[0].0 <= joined.1
        {
            let touched = behind.partition_point(|&(start, _)| start <= joined.1);
            self.count -= touched;
            for run in behind.drain(..touched) {
                joined.1 = joined.1.max(run.1);
                before += length(&run);
            }
            if !behind.is_empty() {
                break;
            }
            emptied += 1;
        }
        self.chunks[at][from] = joined;
        self.chunks.drain(at + 1..emptied);
        self.split(at);
        length(&joined) - before
    }

    fn take_out(&mut self, run: Run) -> usize {
        let from = self.chunks.partition_point(|chunk| end_of(chunk) <= run.0);
        let (mut to, mut lost) = (from, 0);
        while let Some(chunk) = self.chunks.get_mut(to)
            && chunk[0].0 < run.1
        {
            let many = chunk.len();
            lost += cut(chunk, run);
            self.count = self.count + chunk.len() - many;
            to += 1;
        }
        if to == from {
            return 0;
        }
        // Of these chunks, only the first and the last may have runs left.
        let first = from + usize::from(!self.chunks[from].is_empty());
        let emptied = self.chunks[first..to].iter().take_while(|chunk| chunk.is_empty()).count();
        self.chunks.drain(first..first + emptied);
        if first > from {
            self.split(from);
        }
        lost
    }

    /// Splits a chunk that has become too long.
    fn split(&mut self, at: usize) {
        let chunk = &mut self.chunks[at];
        if chunk.len() > CHUNK_MAX {
            let behind = chunk.drain(chunk.len() / 2..).collect();
            self.chunks.insert(at + 1, behind);
        }
    }
}

/// Extends the last run of a row by another run that begins within it or directly behind it. Returns how many
/// partitions are new, or `None` if the other run begins elsewhere.
#[inline]
fn prolong(last: Option<&mut Run>, (start, end): Run) -> Option<usize> {
    let last = last.filter(|last| last.0 <= start && start <= last.1)?;
    let gained = end.saturating_sub(last.1);
    last.1 += gained;
    Some(gained as usize)
}

/// Adds the partitions of a run to a row. Returns how many of them are new. Most runs are added at the end.
#[inline]
fn insert_in(row: &mut Row, run: Run) -> usize {
    if row.last().is_none_or(|last| last.1 < run.0) {
        row.push(run);
        return length(&run);
    }
    if let Some(gained) = prolong(row.last_mut(), run) {
        return gained;
    }
    let from = row.partition_point(|&(_, end)| end < run.0);
    let (joined, before) = absorb(row, from, run);
    length(&joined) - before
}

/// Merges a run into a row at `from`, in place of the runs that it touches. Returns the merged run, and how
/// many of its partitions were in the row before.
fn absorb(row: &mut Row, from: usize, (mut start, mut end): Run) -> (Run, usize) {
    let (mut to, mut before) = (from, 0);
    while let Some(run) = row.get(to)
        && run.0 <= end
    {
        start = start.min(run.0);
        end = end.max(run.1);
        before += length(run);
        to += 1;
    }
    if to > from {
        row[from] = (start, end);
        if to > from + 1 {
            row.drain(from + 1..to);
        }
    } else {
        row.insert(from, (start, end));
    }
    ((start, end), before)
}

/// Removes the partitions of a run from a row. Returns how many of them were in the row.
fn cut(row: &mut Row, (start, end): Run) -> usize {
    let from = row.partition_point(|&(_, old_end)| old_end <= start);
    let many = row[from..].partition_point(|&(old_start, _)| old_start < end);
    let Some(last) = many.checked_sub(1).map(|last| from + last) else { return 0 };
    let before: usize = row[from..=last].iter().map(length).sum();
    let (left, right) = ((row[from].0, start), (end, row[last].1));
    let kept: SmallVec<[Run; 2]> = [left, right].into_iter().filter(|&(start, end)| start < end).collect();
    let (reused, inserted) = kept.split_at(kept.len().min(many));
    row[from..from + reused.len()].copy_from_slice(reused);
    row.drain(from + reused.len()..=last);
    // A run that is cut in two needs one more place.
    inserted.iter().for_each(|&run| row.insert(from + reused.len(), run));
    before - kept.iter().map(length).sum::<usize>()
}

/// True if the rows have a partition in common.
pub(super) fn rows_intersect(mut a: &[Run], mut b: &[Run]) -> bool {
    while let (Some(one), Some(two)) = (a.first(), b.first()) {
        if one.1 <= two.0 {
            a = &a[1..];
        } else if two.1 <= one.0 {
            b = &b[1..];
        } else {
            return true;
        }
    }
    false
}

/// The union of two rows.
pub(super) fn union_of_rows<'a>(mut a: &'a [Run], mut b: &'a [Run]) -> Row {
    let mut joined = Row::with_capacity(a.len() + b.len());
    loop {
        let from_a = match (a.first(), b.first()) {
            (Some(one), Some(two)) => one.0 <= two.0,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return joined,
        };
        let rest = if from_a { &mut a } else { &mut b };
        let (start, end) = rest[0];
        *rest = &rest[1..];
        match joined.last_mut() {
            Some(last) if last.1 >= start => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
}

/// The end of a chunk's last run.
fn end_of(chunk: &Row) -> PartitionId {
    chunk[chunk.len() - 1].1
}

/// The number of partitions in a run.
pub(super) fn length(&(start, end): &Run) -> usize {
    (end - start) as usize
}

/// The runs of a set, ascending, as half-open `(start, end)` pairs.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunsIter<'a> {
    /// The rest of the row that is being read.
    row: &'a [Run],
    /// The chunks after that row.
    chunks: &'a [Row],
}

impl RunsIter<'_> {
    /// Skips the runs that end at `start` or before.
    #[inline]
    pub(super) fn skip_to(&mut self, start: PartitionId) {
        if !self.chunks.is_empty() && self.row.last().is_none_or(|&(_, end)| end <= start) {
            let at = self.chunks.partition_point(|chunk| end_of(chunk) <= start);
            (self.row, self.chunks) = (&[], &self.chunks[at..]);
            if let Some((row, chunks)) = self.chunks.split_first() {
                self.row = row;
                self.chunks = chunks;
            }
        }
        self.row = after(self.row, start);
    }

    /// The next run, without removing it.
    #[inline]
    pub(super) fn peek(mut self) -> Option<Run> {
        self.next().copied()
    }
}

impl<'a> Iterator for RunsIter<'a> {
    type Item = &'a Run;

    #[inline]
    fn next(&mut self) -> Option<&'a Run> {
        if self.row.is_empty() {
            let (row, chunks) = self.chunks.split_first()?;
            self.row = row;
            self.chunks = chunks;
        }
        let (first, rest) = self.row.split_first()?;
        self.row = rest;
        Some(first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.row.len() + self.chunks.iter().map(SmallVec::len).sum::<usize>();
        (left, Some(left))
    }

    fn last(self) -> Option<&'a Run> {
        self.chunks.last().map_or(self.row, |chunk| chunk).last()
    }
}

impl ExactSizeIterator for RunsIter<'_> {}

/// The runs that end after `start`. The first of them is mostly near the beginning, so the search doubles its
/// step before it halves.
fn after(runs: &[Run], start: PartitionId) -> &[Run] {
    if runs.first().is_none_or(|&(_, end)| end > start) {
        return runs;
    }
    let mut bound = 1;
    while bound < runs.len() && runs[bound].1 <= start {
        bound *= 2;
    }
    let from = bound / 2;
    let within = &runs[from..runs.len().min(bound + 1)];
    &runs[from + within.partition_point(|&(_, end)| end <= start)..]
}

#[cfg(test)]
mod tests;
