//! The queue in front of a node's processors: a line for each application, folds before locals, bounded.
//!
//! An application is a service. Whose turn it is, [`Accounts`] say. Within a line folds come first because each ends a wait
//! that is nearly over (shortest job first; DAC §4.3), and because they are what frees memory; the run of a stream's filter
//! is a fold like any other. Within a kind of work it is first come, first served. Each line has its part of the queue's
//! room, by its share: who floods it fills its own.
//!
//! Jobs whose wave has ended are dropped when their turn comes: taking each out of the middle would cost more than it
//! does. But a turn need not come. When every processor hangs, waves go on to come and expire, and each would leave
//! its folds in line, with two partials each. So folds that have become stale are counted, and swept out when they are
//! more than the others ([`STALE_FOLDS_MAX`]); that costs a constant for each. Locals are bounded by being refused.

use crate::call::jobs::What;
use crate::effect::Work;
use crate::id::Tag;
use crate::limits::STALE_FOLDS_MAX;
use crate::schedule::accounts::{AccountId, Accounts};
use crate::stream::StreamId;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A job that waits for a processor.
#[derive(Debug)]
pub(crate) struct Pending<P> {
    pub(crate) tag: Tag,
    pub(crate) kind: u32,
    pub(crate) work: Work<P>,
    pub(crate) what: What,
    /// Its wave's epoch when it was queued; it is stale when the wave's is another by its turn.
    pub(crate) epoch: u64,
}

/// What has its turn.
#[derive(Debug)]
pub(crate) enum Turn<P> {
    /// A wave's job.
    Job(Pending<P>),
    /// The run of a stream's filter.
    Filter {
        /// The stream.
        stream: StreamId,
        /// Which run.
        run: u64,
    },
}

/// Two lines of one application.
#[derive(Debug)]
struct Line<P> {
    folds: VecDeque<Turn<P>>,
    locals: VecDeque<Pending<P>>,
    jobs_max: usize,
}

impl<P> Line<P> {
    fn len(&self) -> usize {
        self.folds.len() + self.locals.len()
    }
}

/// The lines before the processors.
#[derive(Debug)]
pub(crate) struct Queue<P> {
    pub(crate) accounts: Accounts,
    lines: Vec<Line<P>>,
    jobs_max: usize,
    /// How many of the folds may be stale, at most.
    stale: usize,
}

impl<P> Queue<P> {
    /// A queue of up to `jobs_max` locals, with a line for each account.
    pub(crate) fn new(jobs_max: usize, accounts: Accounts) -> Self {
        let line = || Line { folds: VecDeque::new(), locals: VecDeque::new(), jobs_max: 0 };
        let lines = core::iter::repeat_with(line).take(accounts.len()).collect();
        let mut queue = Self { accounts, lines, jobs_max, stale: 0 };
        queue.part_room();
        queue
    }

    /// Parts the room anew: shares have changed. What waits stays in line, whatever the room.
    pub(crate) fn part_room(&mut self) {
        for (account_id, line) in self.lines.iter_mut().enumerate() {
            let part = self.jobs_max as f64 * self.accounts.part_of_jobs(account_id);
            // Each has room for one, however small its share.
            line.jobs_max = (part as usize).max(1);
        }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.lines.iter().map(Line::len).sum()
    }

    /// How many wait in one line.
    pub(crate) fn len_of(&self, account_id: AccountId) -> usize {
        self.lines[account_id].len()
    }

    /// How many folds wait, stale ones included.
    pub(crate) fn folds(&self) -> usize {
        self.lines.iter().map(|line| line.folds.len()).sum()
    }

    /// How many locals wait.
    pub(crate) fn locals(&self) -> usize {
        self.lines.iter().map(|line| line.locals.len()).sum()
    }

    fn line(&mut self, kind: u32) -> &mut Line<P> {
        &mut self.lines[self.accounts.of_kind(kind)]
    }

    /// Work on the loop is over, which waited for no turn.
    pub(crate) fn charge_inline(&mut self, now: Instant, account_id: AccountId, cost: Duration) {
        let Self { accounts, lines, .. } = self;
        accounts.charge_inline(now, account_id, cost, |account_id| lines[account_id].len() > 0);
    }

    /// Takes a local in.
    ///
    /// # Errors
    /// Gives the job back when its line or the queue is at its limit. Folds are never refused: there is at most one for two
    /// partials that the node has already taken in.
    pub(crate) fn push_local(&mut self, job: Pending<P>) -> Result<(), Pending<P>> {
        let is_full = self.len() >= self.jobs_max;
        let line = self.line(job.kind);
        if is_full || line.len() >= line.jobs_max {
            return Err(job);
        }
        line.locals.push_back(job);
        Ok(())
    }

    /// Takes a fold in.
    pub(crate) fn push_fold(&mut self, job: Pending<P>) {
        self.line(job.kind).folds.push_back(Turn::Job(job));
    }

    /// Takes the run of a stream's filter in. It is not refused either: a stream has one at a time.
    pub(crate) fn push_filter(&mut self, account_id: AccountId, stream: StreamId, run: u64) {
        self.lines[account_id].folds.push_back(Turn::Filter { stream, run });
    }

    /// So many folds that were taken in are of no use any more.
    pub(crate) fn note_stale(&mut self, folds: usize) {
        self.stale += folds;
    }

    /// Takes out the folds that are not `wanted`, when they have become too many.
    pub(crate) fn sweep(&mut self, mut wanted: impl FnMut(&Turn<P>) -> bool) {
        if self.stale > STALE_FOLDS_MAX && self.stale > self.folds() / 2 {
            self.lines.iter_mut().for_each(|line| line.folds.retain(&mut wanted));
            self.stale = 0;
        }
    }

    /// What runs next, when so many of `processors` are busy, and so many of these with locals. Folds have one more to
    /// themselves while there are locals, so that those which hang don't keep what is there from being folded; one fold
    /// more would only wait behind others, and keep another application's from its turn.
    pub(crate) fn pop(&mut self, busy: u32, locals_busy: u32, processors: u32) -> Option<Turn<P>> {
        let takes_locals = busy < processors;
        let takes_folds = takes_locals || (busy == processors && locals_busy > 0);
        let Self { accounts, lines, .. } = self;
        let has_turn = |account_id: AccountId| {
            let line = &lines[account_id];
            takes_folds && !line.folds.is_empty() || takes_locals && !line.locals.is_empty()
        };
        let chosen = accounts.choose(has_turn)?;
        let line = &mut lines[chosen];
        let fold = if takes_folds { line.folds.pop_front() } else { None };
        fold.or_else(|| line.locals.pop_front().map(Turn::Job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::WaveId;
    use alloc::collections::BTreeMap;

    /// A queue whose kinds are of these services, with equal shares.
    fn queue(jobs_max: usize, kinds: &[&str]) -> Queue<u8> {
        let accounts = Accounts::new(kinds.iter().copied(), core::iter::empty(), &BTreeMap::new());
        Queue::new(jobs_max, accounts)
    }

    fn next(queue: &mut Queue<u8>, busy: u32) -> Option<Pending<u8>> {
        queue.pop(busy, busy, 1).map(|turn| match turn {
            Turn::Job(job) => job,
            Turn::Filter { .. } => panic!("there are no filters"),
        })
    }

    fn job(work: Work<u8>) -> Pending<u8> {
        let tag = Tag { wave: WaveId { origin: 1, sequence: 1 }, branch: 0 };
        Pending { tag, kind: 0, work, what: What::Local(0), epoch: 0 }
    }

    fn fold(epoch: u64) -> Pending<u8> {
        Pending { epoch, what: What::Fold(0), ..job(Work::Reduce { a: 0, b: 0, params: 0 }) }
    }

    #[test]
    fn stale_folds_never_outnumber_the_others_but_for_a_few() {
        let mut queue = queue(0, &["a"]);
        for epoch in 0..1_000 {
            // One in four waves lives on.
            queue.push_fold(fold(epoch));
            queue.note_stale(usize::from(epoch % 4 > 0));
            queue.sweep(|turn| matches!(turn, Turn::Job(job) if job.epoch % 4 == 0));
            let live = epoch as usize / 4 + 1;
            assert!(
                queue.folds() <= live + live.max(STALE_FOLDS_MAX),
                "{} folds, {live} live",
                queue.folds()
            );
        }
        let live: Vec<u64> = core::iter::from_fn(|| next(&mut queue, 0)).map(|job| job.epoch).collect();
        assert!(live.is_sorted(), "the others keep their order");
        assert!((0..1_000).step_by(4).all(|epoch| live.contains(&epoch)), "and none is lost");
    }

    #[test]
    fn who_floods_fills_a_lane_and_waits_for_a_turn() {
        // Kinds 0 and 1 are one application's, 2 is another's with as large a share.
        let mut queue = queue(8, &["a", "a", "b"]);
        let of = |kind, partition| Pending { kind, ..job(Work::Local { partition, params: 0 }) };
        let taken = (0..10).filter(|&at| queue.push_local(of(at % 2, at)).is_ok()).count();
        assert_eq!(taken, 4, "half of the room");
        (0..3).for_each(|at| queue.push_local(of(2, at)).expect("the other half"));
        let mut order = Vec::new();
        while let Some(job) = next(&mut queue, 0) {
            let account_id = queue.accounts.of_kind(job.kind);
            let charge = queue.accounts.begin(account_id, 5.0);
            let cost = Duration::from_millis(if job.kind == 2 { 10 } else { 5 });
            queue.accounts.end(Instant::START, charge, cost);
            order.push(job.kind == 2);
        }
        assert_eq!(order, [false, true, false, false, true, false, true], "two short ones for a long one");
    }

    #[test]
    fn folds_go_first_and_locals_are_bounded() {
        let mut queue = queue(2, &["a"]);
        let local = |partition| job(Work::Local { partition, params: 0 });
        queue.push_local(local(0)).expect("room for two");
        queue.push_local(local(1)).expect("room for two");
        assert!(queue.push_local(local(2)).is_err());
        queue.push_fold(job(Work::Reduce { a: 0, b: 0, params: 0 }));
        queue.push_fold(job(Work::Reduce { a: 0, b: 0, params: 0 }));
        assert!(matches!(next(&mut queue, 0).map(|job| job.work), Some(Work::Reduce { .. })));
        assert!(
            matches!(next(&mut queue, 1).map(|job| job.work), Some(Work::Reduce { .. })),
            "one more for folds"
        );
        assert!(next(&mut queue, 1).is_none(), "locals have no more than there are");
        queue.push_fold(fold(0));
        assert!(queue.pop(1, 0, 1).is_none(), "nor have folds while there is no local to be feared");
        assert!(queue.pop(1, 1, 1).is_some());
        assert!(matches!(next(&mut queue, 0).map(|job| job.work), Some(Work::Local { partition: 0, .. })));
    }

    #[test]
    fn a_filter_waits_for_its_turn_like_a_fold() {
        let mut queue = queue(8, &["a"]);
        let stream = |sequence| StreamId { origin: 1, sequence };
        queue.push_local(job(Work::Local { partition: 0, params: 0 })).expect("room");
        queue.push_filter(0, stream(1), 7);
        queue.push_fold(fold(0));
        queue.push_filter(1, stream(2), 8);
        assert_eq!((queue.len(), queue.len_of(0), queue.folds()), (4, 3, 3));
        let turns: Vec<Option<u64>> = core::iter::from_fn(|| queue.pop(0, 0, 1))
            .map(|turn| match turn {
                Turn::Job(_) => None,
                Turn::Filter { run, .. } => Some(run),
            })
            .collect();
        // Nothing was charged, so the first account stays the one whose turn it is.
        assert_eq!(turns, [Some(7), None, None, Some(8)]);
    }
}
