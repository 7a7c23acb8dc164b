//! Samples of different clocks' intervals, aligned to the same intervals and reduced (MRNet §3.2, figures 5b,
//! 6).
//!
//! ```text
//!   endpoint a   ├────4────┤├────────9────────┤├───…       amounts over intervals of the endpoint's own
//!   endpoint b      ├──────6──────┤├────4────┤├────…
//!   output       ┊         I         ┊         II        ┊ …
//!                  4 + 9·(share in I)   9·(the rest) + …    then reduced over a, b
//! ```
//!
//! A sample is an amount (of time used, bytes sent, faults taken) and the interval it was gathered over. The
//! output intervals are the multiples of `interval_ns` since the Unix epoch, so all nodes of a tree have the
//! same. A sample gives each interval it overlaps the share of its values that falls within, by length; the
//! rest goes to the next. Once every live source has filled an interval, up to its end, the amounts are
//! reduced and go up as one [`Aligned`]; a parent takes it as its child's whole contribution to that
//! interval. No amount is lost by rounding: the shares of a sample add up to it, but for floating-point's
//! last places.
//!
//! Invariants:
//! - A source is counted up to its *watermark* and never below it again: what it sends twice is cut off
//!   proportionally, what is behind the watermark is dropped.
//! - A packet for an interval goes up once, and intervals in ascending order; those nobody has a sample in
//!   are left out.
//! - Nobody is far ahead: an interval that begins more than `intervals_max` intervals after this node's clock is refused.
//!   One wrong clock would otherwise close the intervals of all others, which wait for nobody once too many are open.
//! - What is held is bounded: for each source the one interval its watermark lies in, and `intervals_max`
//!   intervals that wait for someone. When one more would be opened, the oldest is closed with those who
//!   filled it; who had not has that interval's end for a watermark, so what it sends later for it is lost,
//!   as `endpoints` shows.
//! - Of a source that goes away or is left behind, the interval it filled in part: a sum takes the part, so
//!   nothing that came is lost; average, least and greatest leave it out, for a part would pass for a low
//!   value.
//! - A lost child's heirs begin at its watermark (they send again what it may have held), so nothing counts
//!   twice and nothing is left out.

mod alignment;
mod packets;

use super::{Filter, FilterKind, Piece, Source, Wave};
use crate::builtin::{Builtin, Made, Param, named};
use crate::codec::Body;
use crate::error::Result;
use crate::fold::FilterError;
use crate::fold::params::{read, within};
use alignment::{Alignment, Contribution};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use packets::{Aligned, Metrics, Sample};

/// How many metrics a sample may have at most.
pub const METRICS_MAX: u32 = 4096;

/// How many intervals may wait for someone at most.
pub const INTERVALS_MAX: u32 = 4096;

/// The filter `time-aligned`: endpoints send [`Sample`]s, the front-end gets [`Aligned`] intervals.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeAligned;

/// What becomes of the amounts of one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their mean over the endpoints that contributed.
    Average,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

/// What a stream says about it; `interval_ns` it must say.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    interval_ns: u64,
    metrics: u32,
    reduce: Reduction,
    intervals_max: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self { interval_ns: 0, metrics: 1, reduce: Reduction::Sum, intervals_max: 64 }
    }
}

pub(crate) const ENTRY: Builtin = Builtin {
    name: "time-aligned",
    summary: "amounts over intervals, aligned to common ones and reduced",
    params: &[
        Param { name: "interval_ns", meaning: "the length of an output interval; must be given" },
        Param { name: "metrics", meaning: "figures in a sample; 1 by default" },
        Param { name: "reduce", meaning: "sum, average, min or max; sum by default" },
        Param {
            name: "intervals_max",
            meaning: "intervals that wait for who is behind, and that a sample may be ahead: 1 to 4096; 64 by default",
        },
    ],
    made: Made::Filter(|name| named(name, TimeAligned)),
};

impl FilterKind for TimeAligned {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        let params: Params = read(params)?;
        if params.interval_ns == 0 {
            return Err(FilterError::parameter("interval_ns", "an output interval has at least 1 ns").into());
        }
        within("metrics", params.metrics, 1..=METRICS_MAX)?;
        within("intervals_max", params.intervals_max, 1..=INTERVALS_MAX)?;
        Ok(Box::new(Aligning(Alignment::new(params))))
    }
}

struct Aligning(Alignment);

impl Filter for Aligning {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        // All are read before any is taken, so that a bad one leaves the filter as it was.
        let mut contributions = Vec::with_capacity(wave.pieces.len());
        for piece in wave.pieces {
            contributions.push((piece.source, self.contribution(piece, wave.now_ns)?));
        }
        // And all are taken before any interval is closed, so that who comes for the first time is waited for.
        for (source, contribution) in contributions {
            self.0.take(source, &contribution, wave.tag);
        }
        while let Some(aligned) = self.0.next_filled() {
            out.push(aligned.encode()?);
        }
        Ok(())
    }

    fn holds_from(&self) -> Option<u64> {
        self.0.oldest_tag()
    }

    fn joined(&mut self, source: Source) {
        self.0.join(source);
    }

    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        self.0.replace(lost, heirs);
    }
}

impl Aligning {
    fn contribution(&self, piece: &Piece, now_ns: u64) -> Result<Contribution> {
        let params = self.0.params();
        let (start_ns, contribution) = match piece.source {
            Source::Endpoint(_) => {
                let sample = Sample::read(piece)?;
                sample.check(params).map_err(|error| piece.refused(error))?;
                (sample.start_ns, Contribution::Part(sample))
            }
            Source::Child(_) => {
                let aligned: Aligned = piece.read()?;
                aligned.check(params).map_err(|error| piece.refused(error))?;
                (aligned.start_ns, Contribution::Whole(aligned))
            }
        };
        let ahead_ns_max = params.interval_ns.saturating_mul(params.intervals_max.into());
        if start_ns > now_ns.saturating_add(ahead_ns_max) {
            return Err(FilterError::Ahead { from: piece.source, start_ns, now_ns, ahead_ns_max }.into());
        }
        Ok(contribution)
    }
}

#[cfg(test)]
mod tests;
