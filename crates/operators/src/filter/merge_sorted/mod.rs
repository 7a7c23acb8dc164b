//! Many sorted runs of key and value as one, chunk by chunk.
//!
//! ```text
//!  endpoints and nodes send chunks:   blobs keys │ blobs values │ u64 1 when the run ends │ u64 late
//!                                     (combine sum: i64s instead of blobs)
//!
//!    endpoint 0   a c │ f …            what is less than every run's last key goes up,
//!    endpoint 1   b b │ d …     ──▶    the rest waits for the next wave:  a b b │ …      held: c │ b d …
//! ```
//!
//! **What goes up.** A run ascends, so nothing below its last key will come from it any more; at the last key itself
//! something may. With every wave goes up whatever is less than the last key of *every* run that has not ended: all
//! entries of a key together, or none yet. Nobody's run ends before it says so, so each source is wanted in each wave
//! (`wait_for_all`): one that has nothing sends an empty chunk, and one whose run has ended goes on saying so. The
//! filter does likewise: a chunk goes up with every wave, empty if need be.
//!
//! **When a child is lost.** Its heirs send again, from [`holds_from`](Filter::holds_from) on, what it may have sent up
//! already. Since it sent each key whole and in order, what had come from it is exactly the entries up to its last key:
//! what heirs send up to that key is left out, what follows is new, and until every heir has spoken nothing beyond
//! that key goes up. Had the child's run ended, so have its heirs'. What had come from it and is still held here
//! stays. So inner nodes may die at any time, and nothing is lost or counted twice; entries of endpoints that died
//! with their node are missing from there on. (A wave of several packets must come whole or not at all, as core's do.)
//!
//! **Late entries.** A source that joins when greater keys have gone up is too late with those entries that are below,
//! and one that joins after the end with all: they are left out, and counted in `late`.
//!
//! **Bounded memory.** Runs whose keys lie far apart make the filter hold one while it waits for another. When more than
//! `held_bytes_max` would be left after a wave has released what it can, the wave fails and nothing of it is kept; give
//! endpoints runs of like distribution (hashed keys).
//!
//! Calls and pushes have no waves: there a run is one packet, and the same merge folds whole runs (`whole`).
//!
//! Invariants: what goes up ascends, over all waves, and nothing follows its end; of a key, all or nothing has gone up;
//! a wave that fails leaves no trace.

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
    summary: "sorted runs of key and value, merged into one, chunk by chunk",
    params: &[
        Param {
            name: "combine",
            meaning: "what becomes of equal keys: \"keep\" all entries, or the \"sum\" of their i64s; keep by default",
        },
        Param {
            name: "chunk_bytes",
            meaning: "bytes of a chunk that goes up: 64 to 16777216; 65536 by default",
        },
        Param {
            name: "held_bytes_max",
            meaning: "bytes held of runs that wait for others after a wave, beyond which it fails: 1024 to 1073741824; 67108864 by default",
        },
    ],
    made: Made::Both(|name| named(name, Kind), plain::<MergeWhole>),
};

/// The most that `chunk_bytes` can be.
pub const CHUNK_BYTES_MAX: u64 = 16 << 20;
/// The most that `held_bytes_max` can be.
pub const HELD_BYTES_MAX: u64 = 1 << 30;

/// What becomes of entries with equal keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Combine {
    /// All stay, those of one source in their order; values are bytes.
    #[default]
    Keep,
    /// They become one with the sum of their values, which are `i64`.
    Sum,
}

/// The parameters of `merge-sorted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MergeSorted {
    /// What becomes of entries with equal keys.
    pub combine: Combine,
    /// Bytes of a chunk that goes up; an entry that is larger is a chunk of its own.
    pub chunk_bytes: u64,
    /// Bytes held of runs that wait for others after a wave, beyond which it fails: chunks as they came, and what is kept
    /// beside each.
    pub held_bytes_max: u64,
}

impl Default for MergeSorted {
    fn default() -> Self {
        Self { combine: Combine::Keep, chunk_bytes: 64 << 10, held_bytes_max: 64 << 20 }
    }
}

/// A chunk of a run, for an endpoint to send: entries by ascending key, and whether the run ends with them.
pub fn chunk<B: AsRef<[u8]>>(entries: &[(B, B)], ends: bool) -> Packet {
    let keys: Vec<&[u8]> = entries.iter().map(|(key, _)| key.as_ref()).collect();
    let values: Vec<&[u8]> = entries.iter().map(|(_, value)| value.as_ref()).collect();
    Row::new().blobs(&keys).blobs(&values).u64(u64::from(ends)).u64(0).packet()
}

/// As [`chunk`], of values that are to be summed.
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

/// What the filter remembers from wave to wave.
#[derive(Default)]
struct State {
    runs: BTreeMap<Source, Run>,
    /// The greatest key that went up.
    frontier: Option<Bytes>,
    /// Whether the run that goes up has ended.
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
                out.extend(self.state.settle(merged));
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
    late.checked_add(more).ok_or_else(|| FilterError::Overflow { figure: "count of late entries".into() })
}

impl State {
    /// How the runs of a wave's sources stand before it; `None` of one that is not known yet.
    fn marks(&self, pieces: &[Piece]) -> Vec<(Source, Option<Mark>)> {
        let sources = pieces.chunk_by(|a, b| a.source == b.source).map(|of_one| of_one[0].source);
        sources.map(|source| (source, self.runs.get(&source).map(Run::mark))).collect()
    }

    /// Takes back what a wave that failed has brought.
    fn undo(&mut self, before: Vec<(Source, Option<Mark>)>) {
        for (source, mark) in before {
            match (self.runs.get_mut(&source), mark) {
                (Some(run), Some(mark)) => run.undo(mark),
                _ => drop(self.runs.remove(&source)),
            }
        }
    }

    /// Takes a wave's chunks in, and merges what can go up; the runs still have it.
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

    /// Lets go of what goes up.
    fn settle(&mut self, merged: Merged) -> Vec<Bytes> {
        for (run, position) in self.runs.values_mut().zip(merged.positions) {
            run.settle(position);
        }
        self.runs.retain(|_, run| !run.is_spent());
        self.frontier = merged.last_key.or(self.frontier.take());
        self.ended = merged.ends;
        merged.chunks
    }

    /// Takes a chunk in; gives how many of its entries are too late.
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
