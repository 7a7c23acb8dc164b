//! The queue in front of a node's processors: a lane for each application, folds before locals, bounded.
//!
//! An application is a service. Whose turn it is, [`Fair`] says. Within a lane folds come first because each ends a wait
//! that is nearly over (shortest job first; DAC §4.3), and because they are what frees memory. Within a class it is first
//! come, first served. Each lane has its part of the queue's room, by its share: who floods it fills its own.
//!
//! Jobs whose wave has ended are dropped when their turn comes: taking each out of the middle would cost more than it
//! does. But a turn need not come. When every processor hangs, waves go on to come and expire, and each would leave
//! its folds in line, with two partials each. So folds that have become stale are counted, and swept out when they are
//! more than the others ([`STALE_FOLDS_MAX`]); that costs a constant for each. Locals are bounded by being refused.

use crate::effect::Work;
use crate::id::Tag;
use crate::limits::STALE_FOLDS_MAX;
use crate::partitions::PartitionSet;
use crate::schedule::fair::Fair;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A job that waits for a processor.
#[derive(Debug)]
pub(crate) struct Pending<P> {
    pub(crate) tag: Tag,
    pub(crate) kind: u32,
    pub(crate) work: Work<P>,
    /// Whose partials a fold joins; the partition of a local.
    pub(crate) contributors: PartitionSet,
    /// Its wave's epoch when it was queued; it is stale when the wave's is another by its turn.
    pub(crate) epoch: u64,
}

/// Two lines of one application.
#[derive(Debug)]
struct Lane<P> {
    folds: VecDeque<Pending<P>>,
    locals: VecDeque<Pending<P>>,
    jobs_max: usize,
}

/// The lanes before the processors.
#[derive(Debug)]
pub(crate) struct Queue<P> {
    lanes: Vec<Lane<P>>,
    /// The lane of each kind.
    lane_of: Vec<usize>,
    fair: Fair,
    jobs_max: usize,
    /// How many of the folds may be stale, at most.
    stale: usize,
}

impl<P> Queue<P> {
    /// A queue of up to `jobs_max` locals, for kinds whose lanes are these, and lanes with these shares.
    pub(crate) fn new(jobs_max: usize, lane_of: Vec<usize>, shares: &[f64]) -> Self {
        let fair = Fair::new(shares.iter().copied());
        let lane = |at: usize| {
            let part = jobs_max as f64 * fair.part(at);
            // Each has room for one, however small its share.
            Lane { folds: VecDeque::new(), locals: VecDeque::new(), jobs_max: (part as usize).max(1) }
        };
        Self { lanes: (0..shares.len()).map(lane).collect(), lane_of, fair, jobs_max, stale: 0 }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.folds() + self.locals()
    }

    /// How many folds wait, stale ones included.
    pub(crate) fn folds(&self) -> usize {
        self.lanes.iter().map(|lane| lane.folds.len()).sum()
    }

    /// How many locals wait.
    pub(crate) fn locals(&self) -> usize {
        self.lanes.iter().map(|lane| lane.locals.len()).sum()
    }

    /// A job of this kind begins that is expected to cost so much.
    pub(crate) fn begin(&mut self, kind: u32, expected_ms: f64) {
        self.fair.begin(self.lane_of[kind as usize], expected_ms);
    }

    /// A job of this kind is over.
    pub(crate) fn end(&mut self, kind: u32, expected_ms: f64, cost_ms: f64) {
        self.fair.end(self.lane_of[kind as usize], expected_ms, cost_ms);
    }

    fn lane(&mut self, kind: u32) -> &mut Lane<P> {
        &mut self.lanes[self.lane_of[kind as usize]]
    }

    /// Takes a local in.
    ///
    /// # Errors
    /// Gives the job back when its lane or the queue is at its limit. Folds are never refused: there is at most one for two
    /// partials that the node has already taken in.
    pub(crate) fn push_local(&mut self, job: Pending<P>) -> Result<(), Pending<P>> {
        let is_full = self.len() >= self.jobs_max;
        let lane = self.lane(job.kind);
        if is_full || lane.folds.len() + lane.locals.len() >= lane.jobs_max {
            return Err(job);
        }
        lane.locals.push_back(job);
        Ok(())
    }

    /// Takes a fold in.
    pub(crate) fn push_fold(&mut self, job: Pending<P>) {
        self.lane(job.kind).folds.push_back(job);
    }

    /// So many folds that were taken in are of no use any more.
    pub(crate) fn note_stale(&mut self, folds: usize) {
        self.stale += folds;
    }

    /// Takes out the folds that are not `wanted`, when they have become too many.
    pub(crate) fn sweep(&mut self, mut wanted: impl FnMut(&Pending<P>) -> bool) {
        if self.stale > STALE_FOLDS_MAX && self.stale > self.folds() / 2 {
            self.lanes.iter_mut().for_each(|lane| lane.folds.retain(&mut wanted));
            self.stale = 0;
        }
    }

    /// The job that runs next, when so many of `processors` are busy. Folds have one more to themselves, so
    /// that locals which hang don't keep what is there from being folded.
    pub(crate) fn pop(&mut self, busy: u32, processors: u32) -> Option<Pending<P>> {
        let (takes_folds, takes_locals) = (busy <= processors, busy < processors);
        let has_turn =
            |lane: &Lane<P>| takes_folds && !lane.folds.is_empty() || takes_locals && !lane.locals.is_empty();
        let ready = self.lanes.iter().enumerate().filter_map(|(at, lane)| has_turn(lane).then_some(at));
        let chosen = self.fair.choose(ready)?;
        let lane = &mut self.lanes[chosen];
        let fold = if takes_folds { lane.folds.pop_front() } else { None };
        fold.or_else(|| lane.locals.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::WaveId;

    fn job(work: Work<u8>) -> Pending<u8> {
        let tag = Tag { wave: WaveId { origin: 1, sequence: 1 }, branch: 0 };
        Pending { tag, kind: 0, work, contributors: PartitionSet::new(), epoch: 0 }
    }

    fn fold(epoch: u64) -> Pending<u8> {
        Pending { epoch, ..job(Work::Reduce { a: 0, b: 0, params: 0 }) }
    }

    #[test]
    fn stale_folds_never_outnumber_the_others_but_for_a_few() {
        let mut queue = Queue::new(0, alloc::vec![0], &[1.0]);
        for epoch in 0..1_000 {
            // One in four waves lives on.
            queue.push_fold(fold(epoch));
            queue.note_stale(usize::from(epoch % 4 > 0));
            queue.sweep(|job| job.epoch % 4 == 0);
            let live = epoch as usize / 4 + 1;
            assert!(
                queue.folds() <= live + live.max(STALE_FOLDS_MAX),
                "{} folds, {live} live",
                queue.folds()
            );
        }
        let live: Vec<u64> = core::iter::from_fn(|| queue.pop(0, 1)).map(|job| job.epoch).collect();
        assert!(live.is_sorted(), "the others keep their order");
        assert!((0..1_000).step_by(4).all(|epoch| live.contains(&epoch)), "and none is lost");
    }

    #[test]
    fn who_floods_fills_a_lane_and_waits_for_a_turn() {
        // Kinds 0 and 1 are one application's, 2 is another's with as large a share.
        let mut queue = Queue::new(8, alloc::vec![0, 0, 1], &[1.0, 1.0]);
        let of = |kind, partition| Pending { kind, ..job(Work::Local { partition, params: 0 }) };
        let taken = (0..10).filter(|&at| queue.push_local(of(at % 2, at)).is_ok()).count();
        assert_eq!(taken, 4, "half of the room");
        (0..3).for_each(|at| queue.push_local(of(2, at)).expect("the other half"));
        let mut order = Vec::new();
        while let Some(job) = queue.pop(0, 1) {
            queue.begin(job.kind, 5.0);
            queue.end(job.kind, 5.0, if job.kind == 2 { 10.0 } else { 5.0 });
            order.push(job.kind == 2);
        }
        assert_eq!(order, [false, true, false, false, true, false, true], "two short ones for a long one");
    }

    #[test]
    fn folds_go_first_and_locals_are_bounded() {
        let mut queue = Queue::new(2, alloc::vec![0], &[1.0]);
        let local = |partition| job(Work::Local { partition, params: 0 });
        queue.push_local(local(0)).expect("room for two");
        queue.push_local(local(1)).expect("room for two");
        assert!(queue.push_local(local(2)).is_err());
        queue.push_fold(job(Work::Reduce { a: 0, b: 0, params: 0 }));
        queue.push_fold(job(Work::Reduce { a: 0, b: 0, params: 0 }));
        assert!(matches!(queue.pop(0, 1).map(|job| job.work), Some(Work::Reduce { .. })));
        assert!(
            matches!(queue.pop(1, 1).map(|job| job.work), Some(Work::Reduce { .. })),
            "one more for folds"
        );
        assert!(queue.pop(1, 1).is_none(), "locals have no more than there are");
        assert!(matches!(queue.pop(0, 1).map(|job| job.work), Some(Work::Local { partition: 0, .. })));
    }
}
