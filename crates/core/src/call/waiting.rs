//! The waiting rule of a wave: its inputs, and the data learned for later calls.
//!
//! The rules themselves are plain values ([`crate::wave::wait`]). This module collects the data that they
//! need: the wave's progress, the times that bound it, and the times of earlier children.

use crate::message::Payload;
use crate::node::context::Context;
use crate::seat::{Parent, Standing};
use crate::time::Instant;
use crate::tree::Tree;
use crate::wave::state::{Child, Wave};
use crate::wave::wait::Waiting;
use crate::wave::wait::stop::{Bounds, Progress, share_of_spare};

impl<P: Payload> Wave<P> {
    /// True if the waiting rule abandons the partitions that are still open, and the wave may do so.
    pub(crate) fn stops_early(&mut self, cx: &Context<P>, now: Instant) -> bool {
        // A caller that cannot fold has one child, and cannot use half of its partials.
        if self.clock.stop.spare == 0 || self.ask.kind.is_none() || self.seat.children.open() == 0 {
            return false;
        }
        let progress = self.progress();
        self.clock.stop.handle_progress(now, self.ask.waiting, progress, self.bounds(cx));
        let is_over = self.clock.stop.at().is_some_and(|at| at <= now);
        is_over && progress.is_covered() && self.parts.is_folded()
    }

    /// The times that bound the wave. The time that the levels above need is assumed to vary like the folds
    /// measured here. There are no levels above a caller.
    fn bounds(&self, cx: &Context<P>) -> Bounds {
        let reduce = self.ask.kind.map(|kind| cx.loads.costs.of(kind).reduce);
        let varies = |mean_ms: f64, deviation_ms: f64| (mean_ms > 0.0).then(|| deviation_ms / mean_ms);
        let variation = reduce.and_then(|cost| varies(cost.mean_ms()?, cost.deviation_ms()?));
        Bounds {
            started_at: self.tale.timing.arrived_at,
            answer_at: self.clock.answer_at,
            deadline_at: self.ask.deadline_at,
            variation: variation.filter(|_| self.seat.parent != Parent::Top),
        }
    }

    /// A *learned* wave learns from the times of the children that it starts with.
    pub(crate) fn watch_children(&mut self, cx: &Context<P>, trees: &[Tree]) {
        if self.ask.waiting == Waiting::Learned && self.seat.children.is_empty() {
            let height = 1 + trees.iter().map(Tree::height).max().unwrap_or(0);
            let past = cx.loads.child_times.distribution(&self.ask.name, height);
            self.clock.stop.watch(trees.len(), height, past);
        }
    }

    /// Called before the wave is answered: remembers its children's times, and how long the others were
    /// silent.
    pub(crate) fn learn_from_wave(&self, cx: &mut Context<P>, now: Instant) {
        if let Some(watched) = &self.clock.stop.watched
            && let Some(times) = watched.arrivals.estimate(None)
        {
            cx.loads.child_times.observe_call(&self.ask.name, watched.height, times);
        }
        // A child that was given up took as long as that, which says nothing of the others.
        let is_at_work = |child: &&Child| child.is_leaf() && child.standing() != Standing::Hopeless;
        for child in self.seat.children.iter_open().filter(is_at_work) {
            cx.loads.child_times.observe_silence(&self.ask.name, child.asked_at.until(now));
        }
    }
}

/// The spare of a child: its share of this wave's spare, less the partitions that are lost already.
pub(crate) fn spare_of<P: Payload>(wave: &mut Wave<P>, tree: &Tree) -> u32 {
    if wave.clock.stop.spare == 0 {
        return 0;
    }
    let Progress { asked, lost, spare, .. } = wave.progress();
    share_of_spare(spare.saturating_sub(lost) as u32, tree.partitions().len(), asked)
}
