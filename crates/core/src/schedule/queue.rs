//! The queue in front of a node's processors: folds before locals, bounded.
//!
//! Folds come first because each ends a wait that is nearly over (shortest job first; DAC §4.3), and because
//! they are what frees memory. Within a class it is first come, first served.
//!
//! Jobs whose wave has ended are dropped when their turn comes: taking each out of the middle would cost more than it
//! does. But a turn need not come. When every processor hangs, waves go on to come and expire, and each would leave
//! its folds in line, with two partials each. So folds that have become stale are counted, and swept out when they are
//! more than the others ([`STALE_FOLDS_MAX`]); that costs a constant for each. Locals are bounded by being refused.

use crate::effect::Work;
use crate::id::Tag;
use crate::limits::STALE_FOLDS_MAX;
use crate::partitions::PartitionSet;
use alloc::collections::VecDeque;

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

/// Two lines before the processors.
#[derive(Debug)]
pub(crate) struct Queue<P> {
    folds: VecDeque<Pending<P>>,
    locals: VecDeque<Pending<P>>,
    jobs_max: usize,
    /// How many of the folds may be stale, at most.
    stale: usize,
}

impl<P> Queue<P> {
    pub(crate) const fn new(jobs_max: usize) -> Self {
        Self { folds: VecDeque::new(), locals: VecDeque::new(), jobs_max, stale: 0 }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.folds.len() + self.locals.len()
    }

    /// How many folds wait, stale ones included.
    pub(crate) fn folds(&self) -> usize {
        self.folds.len()
    }

    /// How many locals wait.
    pub(crate) fn locals(&self) -> usize {
        self.locals.len()
    }

    /// Takes a local in.
    ///
    /// # Errors
    /// Gives the job back when the queue is at its limit. Folds are never refused: there is at most one for two
    /// partials that the node has already taken in.
    pub(crate) fn push_local(&mut self, job: Pending<P>) -> Result<(), Pending<P>> {
        if self.len() >= self.jobs_max {
            return Err(job);
        }
        self.locals.push_back(job);
        Ok(())
    }

    /// Takes a fold in.
    pub(crate) fn push_fold(&mut self, job: Pending<P>) {
        self.folds.push_back(job);
    }

    /// So many folds that were taken in are of no use any more.
    pub(crate) fn note_stale(&mut self, folds: usize) {
        self.stale += folds;
    }

    /// Takes out the folds that are not `wanted`, when they have become too many.
    pub(crate) fn sweep(&mut self, wanted: impl FnMut(&Pending<P>) -> bool) {
        if self.stale > STALE_FOLDS_MAX && self.stale > self.folds.len() / 2 {
            self.folds.retain(wanted);
            self.stale = 0;
        }
    }

    /// The job that runs next, when so many of `processors` are busy. Folds have one more to themselves, so
    /// that locals which hang don't keep what is there from being folded.
    pub(crate) fn pop(&mut self, busy: u32, processors: u32) -> Option<Pending<P>> {
        let fold = if busy <= processors { self.folds.pop_front() } else { None };
        fold.or_else(|| if busy < processors { self.locals.pop_front() } else { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::WaveId;
    use alloc::vec::Vec;

    fn job(work: Work<u8>) -> Pending<u8> {
        let tag = Tag { wave: WaveId { origin: 1, sequence: 1 }, branch: 0 };
        Pending { tag, kind: 0, work, contributors: PartitionSet::new(), epoch: 0 }
    }

    fn fold(epoch: u64) -> Pending<u8> {
        Pending { epoch, ..job(Work::Reduce { a: 0, b: 0, params: 0 }) }
    }

    #[test]
    fn stale_folds_never_outnumber_the_others_but_for_a_few() {
        let mut queue = Queue::new(0);
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
    fn folds_go_first_and_locals_are_bounded() {
        let mut queue = Queue::new(2);
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
