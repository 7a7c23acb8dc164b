//! Which parts of a wave are folded by one job, and when.
//!
//! ```text
//!   folds on a worker, or dear ones    any two parts at rest, at once
//!   cheap folds on the loop            up to 16 parts: when twice as many rest, when their bytes become many,
//!                                      when no more will come, or when time is up
//! ```
//!
//! To hand out a fold and to take its result takes about 2,500 instructions, and to sum two numbers takes ten. So eight children's
//! cheap partials are folded by one job, after the last of them has come, and an aggregation decodes each partial once and
//! encodes one result. The folds of a lot are expected to take no longer together than one fold may take on the loop
//! (`Tuning::inline_cost_max`), which is also the time by which waiting for the last partial can delay the answer.

use crate::call::jobs::What;
use crate::effect::{Place, Work};
use crate::message::Payload;
use crate::node::context::Context;
use crate::schedule::queue::Pending;
use crate::time::{Duration, Instant};
use crate::wave::state::Wave;

/// The most parts that one job folds.
const LOT_PARTS_MAX: usize = 16;
/// Parts of more bytes than this do not wait for others to be folded with.
const LOT_BYTES_MAX: usize = 64 << 10;

impl<P: Payload> Wave<P> {
    /// Hands out the folds of parts at rest that are due. Returns true if some of them are on the loop: their results come back
    /// before any other input.
    ///
    /// Folds that were put off are handed out when time is up too.
    pub(crate) fn fold_parts(&mut self, cx: &mut Context<P>, now: Instant) -> bool {
        let Some(kind) = self.ask.kind else { return false };
        let most = if self.folds_in_lots() { cx.lot_max(kind) } else { 2 };
        let is_over = now >= self.clock.answer_at;
        if is_over && most == 2 {
            return false;
        }
        let before = self.locals.inline;
        while is_over || most == 2 || self.is_lot_due(most) {
            let Some((lot, mut parts)) = self.parts.take_lot(most) else { break };
            if self.ask.push.is_some() && parts.iter().any(Payload::is_empty) {
                let empty = usize::from(!parts[0].is_empty());
                self.parts.put_folded(lot, parts.swap_remove(1 - empty));
                continue;
            }
            let folds = parts.len() as u32 - 1;
            let work = Work::Reduce { parts, params: self.ask.params.common.clone() };
            let (what, epoch) = (What::Fold { lot, folds }, self.locals.epoch);
            self.queue_fold(cx, now, Pending { tag: self.tag, kind, work, what, epoch });
        }
        self.locals.inline > before
    }

    /// False for a wave that may stop early, which must have folded what it has by then, and for pushes, whose folds free the
    /// workers' windows.
    fn folds_in_lots(&self) -> bool {
        self.clock.stop.spare == 0 && self.ask.push.is_none()
    }

    /// True if so many parts rest here that they must be folded, or if all are here that will come.
    fn is_lot_due(&self, most: usize) -> bool {
        let (resting, bytes) = (self.parts.resting().len(), self.parts.bytes());
        resting >= 2 * most
            || bytes > LOT_BYTES_MAX
            || self.is_own_over() && self.seat.children.are_hopeless()
    }
}

impl<P: Payload> Context<P> {
    /// The most parts of an aggregation that are folded by one job: as many as are expected to take no longer than one fold
    /// may take on the loop.
    fn lot_max(&self, kind: u32) -> usize {
        let cost = self.loads.costs.of(kind).reduce.mean_ms();
        let (Some(ms), Place::Inline) = (cost, self.place_in(kind, true)) else { return 2 };
        let folds = Duration::from(self.config.tuning.inline_cost_max).as_millis_f64() / ms;
        1 + (folds as usize).clamp(1, LOT_PARTS_MAX - 1)
    }
}

#[cfg(test)]
mod tests;
