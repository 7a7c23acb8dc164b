//! A waiting rule at work in a wave: what it is told, and what is learned for the next.
//!
//! The rules themselves are plain values ([`crate::wave::wait`]). Here is what a node knows that they need: how
//! far the wave has come, the times by which it is bound, and what children's times have been.

use crate::message::Payload;
use crate::node::Node;
use crate::time::Instant;
use crate::tree::Tree;
use crate::wave::state::{Child, Parent, Wave};
use crate::wave::wait::Waiting;
use crate::wave::wait::stop::{Bounds, Progress, share_of_spare};

impl<P: Payload> Node<P> {
    /// True when the waiting rule gives up what is still open, and may.
    pub(crate) fn stops_early(&self, now: Instant, wave: &mut Wave<P>) -> bool {
        // A caller that can't fold has one child, and no use for half of what that gives.
        if wave.stop.spare == 0 || wave.kind.is_none() || wave.children.iter().all(|child| child.is_done) {
            return false;
        }
        let progress = wave.progress();
        wave.stop.handle_progress(now, wave.waiting, progress, self.bounds(wave));
        let is_over = wave.stop.at().is_some_and(|at| at <= now);
        is_over && progress.is_covered() && wave.parts.is_settled()
    }

    /// What the levels above need varies as the folds do that are measured here; above a caller there are none.
    fn bounds(&self, wave: &Wave<P>) -> Bounds {
        let reduce = wave.kind.map(|kind| self.costs.of(kind).reduce);
        let varies = |mean_ms: f64, deviation_ms: f64| (mean_ms > 0.0).then(|| deviation_ms / mean_ms);
        let variation = reduce.and_then(|cost| varies(cost.mean_ms()?, cost.deviation_ms()?));
        Bounds {
            started_at: wave.timing.arrived_at,
            answer_at: wave.answer_at,
            deadline_at: wave.deadline_at,
            variation: variation.filter(|_| wave.parent != Parent::Caller),
        }
    }

    /// The children that a *learned* wave starts with are those whose times it learns from.
    pub(crate) fn watch_children(&self, wave: &mut Wave<P>, trees: &[Tree]) {
        if wave.waiting == Waiting::Learned && wave.children.is_empty() {
            let height = 1 + trees.iter().map(Tree::height).max().unwrap_or(0);
            let past = self.child_times.distribution(&wave.name, height);
            wave.stop.watch(trees.len(), height, past);
        }
    }

    /// The wave is about to be answered: remembers its children's times, and how long the others were silent.
    pub(crate) fn learn_from_wave(&mut self, now: Instant, wave: &Wave<P>) {
        if let Some(watched) = &wave.stop.watched
            && let Some(times) = watched.arrivals.estimate(None)
        {
            self.child_times.observe_call(&wave.name, watched.height, times);
        }
        let is_silent_leaf = |child: &&Child| !child.is_done && child.tree.root().size == 1;
        for child in wave.children.iter().filter(is_silent_leaf) {
            self.child_times.observe_silence(&wave.name, child.asked_at.until(now));
        }
    }
}

/// What a child may give up: its share of what this wave may, less what is lost already.
pub(crate) fn spare_of<P: Payload>(wave: &Wave<P>, tree: &Tree) -> u32 {
    if wave.stop.spare == 0 {
        return 0;
    }
    let Progress { asked, lost, spare, .. } = wave.progress();
    share_of_spare(spare.saturating_sub(lost) as u32, tree.partitions().len(), asked)
}
