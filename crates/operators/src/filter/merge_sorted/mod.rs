//! Merges many sorted runs of keys and values into one, chunk by chunk.
//!
//! ```text
//!  endpoints and nodes send chunks:   blobs keys │ blobs values │ u64 1 when the run ends │ u64 late
//!                                     (combine sum: i64s instead of blobs)
//!
//!    endpoint 0   a c │ f …            entries below every run's last key go up,
//!    endpoint 1   b b │ d …     ──▶    the others wait for the next wave:  a b b │ …      held: c │ b d …
//! ```
//!
//! **Entries that go up.** The keys of a run ascend, so later entries of a run are never below its last key,
//! but they may equal it. With every wave, all entries go up that are less than the last key of *every* run
//! that has not ended. So either all entries of a key go up together, or none do yet. A run ends only when
//! its source says so, so every source must send a chunk in each wave (`wait_for_all`). A source without new
//! entries sends an empty chunk; a source whose run has ended repeats that it has ended. The filter does the
//! same: it sends a chunk up with every wave, even an empty one.
//!
//! **When a child is lost.** Its heirs send again, from [`holds_from`](Filter::holds_from) on, entries that
//! the lost child may have sent up already. The lost child sent each key whole and in order, so it delivered
//! exactly the entries up to its last key. The filter therefore drops the heirs' entries up to that key and
//! takes the entries after it as new. No entry beyond that key goes up until every heir has sent a chunk. If
//! the child's run had ended, the heirs' runs have ended too. Entries that the child delivered and that are
//! still held here stay. So inner nodes may die at any time, and no entry is lost or counted twice. Entries
//! of endpoints that died with their node are missing from there on. (A wave of several packets must arrive
//! whole or not at all, as core's waves do.)
//!
//! **Late entries.** If a source joins after greater keys have gone up, its entries up to the greatest of
//! these keys are late. If it joins after the end, all its entries are late. Late entries are dropped and
//! counted in `late`.
//!
//! **Bounded memory.** If the keys of two runs lie far apart, the filter must hold one run while it waits for
//! the other. If more than `held_bytes_max` bytes would stay held after a wave has released all it can, the
//! wave fails and none of its entries are kept. To avoid that, give the endpoints runs with similar
//! distributions (hashed keys).
//!
//! Calls and pushes have no waves. There a run is one packet, and the same merge folds whole runs (`whole`).
//!
//! Invariants: the output ascends over all waves, and no entry follows its end. Of each key, either all
//! entries have gone up or none. A wave that fails changes no state.

mod merging;
mod run;
mod whole;

use super::{Filter, FilterKind, Piece, Source, Wave};
use crate::builtin::{Builtin, Made, Param, named, plain};
use crate::error::Result;
use crate::fold::{FilterError, params};
use crate::packet::{Packet, Row};
use bytes::Bytes;
use merging::{Merged, Writer};
use run::{Chunk, Mark, Run};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use whole::MergeWhole;

pub(crate) const ENTRY: Builtin = Builtin {
    name: "merge-sorted",
    summary: "merges sorted runs of keys and values into one, chunk by chunk",
    params: &[
        Param {
            name: "combine",
            meaning: "treatment of equal keys: \"keep\" all entries, or \"sum\" their i64 values; keep by default",
        },
        Param { name: "chunk_bytes", meaning: "bytes of a chunk sent up: 64 to 16777216; 65536 by default" },
        Param {
            name: "held_bytes_max",
            meaning: "most bytes of waiting runs held after a wave, else the wave fails: 1024 to 1073741824; 67108864 by default",
        },
    ],
    made: Made::Both(|name| named(name, Kind), plain::<MergeWhole>),
};

/// Largest allowed `chunk_bytes`.
pub const CHUNK_BYTES_MAX: u64 = 16 << 20;
/// Largest allowed `held_bytes_max`.
pub const HELD_BYTES_MAX: u64 = 1 << 30;

/// The treatment of entries with equal keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Combine {
    /// Keeps all of them, in order for entries of the same source; values are bytes.
    #[default]
    Keep,
    /// Combines them into one entry with the sum of their values, which are `i64`.
    Sum,
}

/// The parameters of `merge-sorted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MergeSorted {
    /// The treatment of entries with equal keys.
    pub combine: Combine,
    /// Bytes of a chunk that goes up; a larger entry is a chunk by itself.
    pub chunk_bytes: u64,
    /// Most bytes of waiting runs that may be held after a wave; beyond it, the wave fails.
    ///
    /// Counts the received chunks and the bookkeeping of each.
    pub held_bytes_max: u64,
}

impl Default for MergeSorted {
    fn default() -> Self {
        Self { combine: Combine::Keep, chunk_bytes: 64 << 10, held_bytes_max: 64 << 20 }
    }
}

/// Builds a chunk for an endpoint to send: entries by ascending key, and whether the run ends with them.
pub fn chunk<B: AsRef<[u8]>>(entries: &[(B, B)], ends: bool) -> Packet {
    let keys: Vec<&[u8]> = entries.iter().map(|(key, _)| key.as_ref()).collect();
    let values: Vec<&[u8]> = entries.iter().map(|(_, value)| value.as_ref()).collect();
    Row::new().blobs(&keys).blobs(&values).u64(u64::from(ends)).u64(0).packet()
}

/// Builds a chunk as [`chunk`] does, with values to be summed.
pub fn chunk_of_counts<B: AsRef<[u8]>>(entries: &[(B, i64)], ends: bool) -> Packet {
    let keys: Vec<&[u8]> = entries.iter().map(|(key, _)| key.as_ref()).collect();
    let values: Vec<i64> = entries.iter().map(|&(_, value)| value).collect();
    Row::new().blobs(&keys).i64s(&values).u64(u64::from(ends)).u64(0).packet()
}

struct Kind;

impl FilterKind for Kind {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        Ok(Box::new(Merger::open(params)?))
    }
}

struct Merger {
    params: MergeSorted,
    state: State,
}

/// The state that the filter keeps from wave to wave.
#[derive(Default)]
struct State {
    runs: BTreeMap<Source, Run>,
    /// The greatest key that has gone up.
    frontier: Option<Bytes>,
    /// Whether the output run has ended.
    ended: bool,
}

impl Merger {
    fn open(params: &Bytes) -> Result<Self> {
        let params: MergeSorted = params::read(params)?;
        params::within("chunk_bytes", params.chunk_bytes, 64..=CHUNK_BYTES_MAX)?;
        params::within("held_bytes_max", params.held_bytes_max, 1024..=HELD_BYTES_MAX)?;
        Ok(Self { params, state: State::default() })
    }
}

impl Filter for Merger {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        let before = self.state.marks(wave.pieces);
        match self.state.fold(wave, &self.params) {
            Ok(merged) => {
                out.extend(self.state.release(merged));
                Ok(())
            }
            Err(error) => {
                self.state.undo(before);
                Err(error.into())
            }
        }
    }

    fn holds_from(&self) -> Option<u64> {
        self.state.runs.values().filter_map(Run::holds_from).min()
    }

    fn joined(&mut self, source: Source) {
        self.state.runs.entry(source).or_default().join();
    }

    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        self.state.replaced(lost, heirs);
    }
}

fn late_sum(late: u64, more: u64) -> Result<u64, FilterError> {
    late.checked_add(more)
        .ok_or_else(|| FilterError::Overflow { figure: "count of late entries".into(), bits: 64 })
}

impl State {
    /// Records the state of the runs of a wave's sources before the wave; `None` for an unknown source.
    fn marks(&self, pieces: &[Piece]) -> Vec<(Source, Option<Mark>)> {
        let sources = pieces.chunk_by(|a, b| a.source == b.source).map(|of_one| of_one[0].source);
        sources.map(|source| (source, self.runs.get(&source).map(Run::mark))).collect()
    }

    /// Undoes the changes of a failed wave.
    fn undo(&mut self, before: Vec<(Source, Option<Mark>)>) {
        for (source, mark) in before {
            match (self.runs.get_mut(&source), mark) {
                (Some(run), Some(mark)) => run.undo(mark),
                _ => drop(self.runs.remove(&source)),
            }
        }
    }

    /// Takes in a wave's chunks and merges the entries that can go up. The runs still hold these entries.
    fn fold(&mut self, wave: Wave<'_>, params: &MergeSorted) -> Result<Merged, FilterError> {
        let mut late = 0;
        for piece in wave.pieces {
            let chunk = Chunk::read(piece, wave.tag, params.combine)?;
            late = late_sum(late, chunk.late)?;
            late = late_sum(late, self.take(piece.source, chunk)?)?;
        }
        let floor = self.runs.values().filter_map(Run::floor).min();
        let ends = self.ended || floor.is_none();
        let merged =
            merging::merge(self.runs.values(), floor.as_ref(), Writer::of_chunks(params), (ends, late))?;
        let left = self.runs.values().zip(&merged.positions).map(|(run, &position)| run.held_bytes(position));
        let (bytes, bytes_max) = (left.sum::<usize>() as u64, params.held_bytes_max);
        if bytes > bytes_max {
            return Err(FilterError::TooManyBytes { limit: "held_bytes_max", bytes, bytes_max });
        }
        Ok(merged)
    }

    /// Releases the entries that go up.
    fn release(&mut self, merged: Merged) -> Vec<Bytes> {
        for (run, position) in self.runs.values_mut().zip(merged.positions) {
            run.release(position);
        }
        self.runs.retain(|_, run| !run.is_spent());
        self.frontier = merged.last_key.or(self.frontier.take());
        self.ended = merged.ends;
        merged.chunks
    }

    /// Takes in a chunk. Returns the number of its entries that are late.
    fn take(&mut self, from: Source, mut chunk: Chunk) -> Result<u64, FilterError> {
        let run = self.runs.entry(from).or_default();
        run.skip_repeated(&mut chunk);
        let late = match (&self.frontier, self.ended) {
            (_, true) => chunk.skip_all(),
            (Some(frontier), false) if run.is_unheard() => chunk.skip_up_to(frontier),
            _ => 0,
        };
        run.take(from, chunk)?;
        Ok(late)
    }

    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        let mut run = self.runs.remove(&lost).unwrap_or_default();
        run.lose();
        for &source in heirs {
            let heir = self.runs.entry(source).or_default();
            if !heir.was_heard() {
                *heir = run.heir();
            }
        }
        self.runs.insert(lost, run);
    }
}

#[cfg(test)]
mod tests;
