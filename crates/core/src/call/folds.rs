//! Which parts of a wave are folded by one job, and when.
//!
//! ```text
//!   cheap folds on the loop    up to 16 parts: when twice as many rest, when their bytes become many,
//!                              when no more will come, or when time is up
//!   folds on a worker          up to 8 parts: those that rest when the fold's turn in the queue comes
//!   other folds                any two parts at rest, at once
//! ```
//!
//! To hand out a fold and to take its result takes about 2,500 instructions, and to sum two numbers takes ten. So eight children's
//! cheap partials are folded by one job, after the last of them has come, and an aggregation decodes each partial once and
//! encodes one result. The folds of a lot are expected to take no longer together than one fold may take on the loop
//! (`Tuning::inline_cost_max`), which is also the time by which waiting for the last partial can delay the answer.
//!
//! A fold on a worker waits for nothing: two parts at rest queue it. But it takes its parts only when a processor is free
//! for it. By then more parts may rest, and a merge of eight runs in one pass reads and writes each entry once, while in pairs
//! each is read and written three times. A wave has as many turns in the queue as pairs at rest, so that several processors fold
//! its parts, and a turn that finds fewer than two parts is dropped. If twice as many parts rest as a fold takes, the oldest
//! of them no longer wait for a turn: they leave as a lot. So a wave has few turns, and few parts at rest.
//!
//! Folds in pairs are those of futures, of pushes, of waves that may stop early, of aggregations that demand it
//! ([`Kind::folds_in_pairs`](crate::config::Kind::folds_in_pairs)), and of aggregations on the loop whose cost is unknown.

use crate::call::jobs::What;
use crate::effect::{Place, Work};
use crate::limits::FOLD_INPUTS_MAX;
use crate::message::Payload;
use crate::node::context::Context;
use crate::schedule::queue::{FoldTurn, Pending};
use crate::time::{Duration, Instant};
use crate::wave::contributors::LotNumber;
use crate::wave::state::Wave;
use smallvec::SmallVec;

/// The most parts that one job folds on the loop.
const LOT_PARTS_MAX: usize = 16;
/// Parts of more bytes than this do not wait for others to be folded with.
const LOT_BYTES_MAX: usize = 64 << 10;

impl<P: Payload> Wave<P> {
    /// Hands out or queues the folds of parts at rest that are due. Returns true if some of them are on the loop: their results
    /// come back before any other input.
    ///
    /// Folds on the loop that were put off are handed out when time is up too.
    pub(crate) fn fold_parts(&mut self, cx: &mut Context<P>, now: Instant) -> bool {
        let Some(kind) = self.ask.kind.filter(|_| self.parts.resting().len() >= 2) else { return false };
        let place = cx.place_in(kind, true);
        let most = if self.folds_in_lots() { cx.fold_max(kind, place) } else { 2 };
        let is_over = now >= self.clock.answer_at;
        if is_over && (most == 2 || place != Place::Inline) {
            return false;
        }
        let before = self.locals.inline;
        while is_over || most == 2 || self.is_lot_due(most, place) {
            let Some((lot, mut parts)) = self.parts.take_lot(most) else { break };
            if self.ask.push.is_some() && parts.iter().any(Payload::is_empty) {
                let empty = usize::from(!parts[0].is_empty());
                self.parts.put_folded(lot, parts.swap_remove(1 - empty));
                continue;
            }
            let fold = self.fold_of(kind, lot, parts);
            self.queue_fold(cx, now, fold);
        }
        if most > 2 && place != Place::Inline {
            self.queue_fold_turns(cx, kind);
        }
        self.locals.inline > before
    }

    fn fold_of(&self, kind: u32, lot: LotNumber, parts: SmallVec<[P; 2]>) -> Pending<P> {
        let what = What::Fold { lot, folds: parts.len() as u32 - 1 };
        let work = Work::Reduce { parts, params: self.ask.params.of_reduce().clone() };
        Pending { tag: self.tag, kind, work, what, epoch: self.locals.epoch }
    }

    /// Queues a turn for each pair at rest that has none.
    fn queue_fold_turns(&mut self, cx: &mut Context<P>, kind: u32) {
        let pairs = self.parts.resting().len() as u32 / 2;
        let (tag, epoch) = (self.tag, self.locals.epoch);
        for _ in self.locals.folds_queued..pairs {
            cx.queue.push_fold_turn(FoldTurn { tag, kind, epoch });
        }
        self.locals.folds_queued = self.locals.folds_queued.max(pairs);
    }

    /// The turn of one of this wave's folds has come. The fold takes the parts at rest, if there are at least two.
    pub(crate) fn take_fold_turn(&mut self, cx: &mut Context<P>, now: Instant, kind: u32) {
        self.locals.folds_queued -= 1;
        let most = if self.folds_in_lots() { FOLD_INPUTS_MAX } else { 2 };
        let Some((lot, parts)) = self.parts.take_lot(most) else { return };
        let fold = self.fold_of(kind, lot, parts);
        // Its cost may have been found small enough for the loop since it was queued.
        self.hand_out(cx, now, fold, Place::Worker);
    }

    /// False for a wave that may stop early, which must have folded what it has by then, and for pushes, whose folds free the
    /// workers' windows.
    fn folds_in_lots(&self) -> bool {
        self.clock.stop.spare == 0 && self.ask.push.is_none()
    }

    /// True if so many parts rest here that they must be folded. On the loop, also if all are here that will come.
    fn is_lot_due(&self, most: usize, place: Place) -> bool {
        let (resting, bytes) = (self.parts.resting().len(), self.parts.bytes());
        resting >= 2 * most
            || place == Place::Inline
                && (bytes > LOT_BYTES_MAX || self.is_own_over() && self.seat.children.are_hopeless())
    }
}

impl<P: Payload> Context<P> {
    /// The most parts of an aggregation that are folded by one job. On the loop, as many as are expected to take no longer
    /// than one fold may take there.
    fn fold_max(&self, kind: u32, place: Place) -> usize {
        match place {
            _ if self.config.kinds[kind as usize].folds_in_pairs => 2,
            Place::Async => 2,
            Place::Worker => FOLD_INPUTS_MAX,
            Place::Inline => {
                let Some(ms) = self.loads.costs.of(kind).reduce.mean_ms() else { return 2 };
                let folds = Duration::from(self.config.tuning.inline_cost_max).as_millis_f64() / ms;
                1 + (folds as usize).clamp(1, LOT_PARTS_MAX - 1)
            }
        }
    }
}

#[cfg(test)]
mod tests;
