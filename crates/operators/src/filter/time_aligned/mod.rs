//! Aligns samples over different intervals to common intervals and reduces them (MRNet §3.2, figures 5b, 6).
//!
//! ```text
//!   endpoint a   ├────4────┤├────────9────────┤├───…       amounts over intervals of the endpoint's own
//!   endpoint b      ├──────6──────┤├────4────┤├────…
//!   output       ┊         I         ┊         II        ┊ …
//!                  4 + 9·(share in I)   9·(the rest) + …    then reduced over a, b
//! ```
//!
//! A sample is an amount (of time used, bytes sent, faults taken) and the interval over which it was
//! gathered. The output intervals are the multiples of `interval_ns` since the Unix epoch, so all nodes of a
//! tree use the same intervals. A sample is divided among the output intervals it overlaps, in proportion to
//! the length of the overlap. Once every live source has filled an interval up to its end, the amounts are
//! reduced and go up as one [`Aligned`]. The parent takes it as its child's whole contribution to that
//! interval. Rounding loses no amount: the shares of a sample add up to the sample, except for the last
//! digits of floating-point arithmetic.
//!
//! Invariants:
//! - A source is counted up to its *watermark* and never below it again. If it repeats a sample, the counted
//!   part is cut off proportionally, and data behind the watermark is dropped.
//! - Each interval goes up in one packet, and intervals go up in ascending order. Intervals without any
//!   sample are left out.
//! - A source can't run far ahead: an interval that begins more than `intervals_max` intervals after this
//!   node's clock is refused. Otherwise, one wrong clock would close the intervals of all other sources,
//!   because the oldest intervals are closed once too many are open.
//! - Memory is bounded: for each source, the one interval that contains its watermark, and `intervals_max`
//!   waiting intervals. If one more would be opened, the oldest is closed with the sources that have filled
//!   it. The watermark of every other source moves to the end of that interval, so their later samples for it
//!   are lost; `endpoints` shows that.
//! - If a source goes away or is left behind, a sum includes the interval that it filled in part, so no
//!   received amount is lost. Average, least and greatest leave that part out, because it would look like a
//!   low value.
//! - The heirs of a lost child begin at its watermark and send again the data that it may have held. So no
//!   amount counts twice, and none is left out.

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

/// Most metrics that a sample may have.
pub const METRICS_MAX: u32 = 4096;

/// Most intervals that may wait for sources.
pub const INTERVALS_MAX: u32 = 4096;

/// The filter `time-aligned`: endpoints send [`Sample`]s, the front-end gets [`Aligned`] intervals.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeAligned;

/// The reduction of the amounts of one interval.
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

/// The parameters of a stream; `interval_ns` is required.
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
    summary: "aligns amounts over intervals to common intervals and reduces them",
    params: &[
        Param { name: "interval_ns", meaning: "length of an output interval in ns; required" },
        Param { name: "metrics", meaning: "figures in a sample; 1 by default" },
        Param { name: "reduce", meaning: "sum, average, min or max; sum by default" },
        Param {
            name: "intervals_max",
            meaning: "most intervals that wait for late sources, and that a sample may be ahead: 1 to 4096; 64 by default",
        },
    ],
    made: Made::Filter(|name| named(name, TimeAligned)),
};

impl FilterKind for TimeAligned {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        let params: Params = read(params)?;
        if params.interval_ns == 0 {
            return Err(
                FilterError::parameter("interval_ns", "an output interval must have at least 1 ns").into()
            );
        }
        within("metrics", params.metrics, 1..=METRICS_MAX)?;
        within("intervals_max", params.intervals_max, 1..=INTERVALS_MAX)?;
        Ok(Box::new(Aligning(Alignment::new(params))))
    }
}

struct Aligning(Alignment);

impl Filter for Aligning {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        // Reads all pieces before taking any, so that an invalid one leaves the filter unchanged.
        let mut contributions = Vec::with_capacity(wave.pieces.len());
        for piece in wave.pieces {
            contributions.push((piece.source, self.contribution(piece, wave.now_ns)?));
        }
        // Takes all contributions before closing any interval, so that intervals wait for sources that are
        // new in this wave.
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
