//! The queue in front of a node's processors: a bounded line for each application, with folds before locals.
//!
//! An application is a service. [`Accounts`] decides whose turn it is. Within a line folds come first, because
//! each ends a wait that is nearly over (shortest job first; DAC §4.3), and because folds free memory. A run
//! of a stream's filter counts as a fold. Within each kind of work, jobs run in order of arrival. Each line
//! has a part of the queue's room, by its share, so an application that floods the queue fills only its own
//! line.
//!
//! A job whose wave has ended is dropped when its turn comes; taking it out of the middle would cost more.
//! But a turn may never come. If every processor hangs, waves continue to arrive and expire, and each would
//! leave its folds in line, with two partials each. Stale folds are therefore counted, and swept out when
//! they outnumber the others ([`STALE_FOLDS_MAX`]), which costs a constant for each. Locals are bounded
//! because they can be refused.

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
    /// Its wave's epoch when it was queued. It is stale if the wave has another epoch at its turn.
    pub(crate) epoch: u64,
}

/// A fold of a wave that waits for a processor. It takes the wave's parts at rest when its turn comes.
#[derive(Debug)]
pub(crate) struct FoldTurn {
    pub(crate) tag: Tag,
    pub(crate) kind: u32,
    /// Its wave's epoch when it was queued, as in [`Pending`].
    pub(crate) epoch: u64,
}

/// Work whose turn has come.
#[derive(Debug)]
pub(crate) enum Turn<P> {
    /// A wave's job.
    Job(Pending<P>),
    /// A fold of a wave's parts.
    Fold(FoldTurn),
    /// The run of a stream's filter.
    Filter {
        /// The stream.
        stream: StreamId,
        /// The number of the run.
        run: u64,
    },
}

/// The folds and the locals of one application.
#[derive(Debug)]
struct Line<P> {
    folds: VecDeque<Turn<P>>,
    locals: VecDeque<Pending<P>>,
    jobs_max: usize,
}

impl<P> Line<P> {
    fn new() -> Self {
        Self { folds: VecDeque::new(), locals: VecDeque::new(), jobs_max: 0 }
    }

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
    /// Number of waiting jobs in all lines.
    waiting: usize,
    /// Upper bound of the number of stale folds.
    stale: usize,
}

impl<P> Queue<P> {
    /// A queue of up to `jobs_max` locals, with a line for each account.
    pub(crate) fn new(jobs_max: usize, accounts: Accounts) -> Self {
        let lines = core::iter::repeat_with(Line::new).take(accounts.len()).collect();
        let mut queue = Self { accounts, lines, jobs_max, waiting: 0, stale: 0 };
        queue.part_room();
        queue
    }

    /// Takes one more kind. Returns true if its service has had no account until now.
    pub(crate) fn add_kind(&mut self, service: &str) -> bool {
        let is_new = self.accounts.add_kind(service);
        if is_new {
            self.lines.push(Line::new());
        }
        is_new
    }

    /// Divides the room again after shares have changed. Jobs that wait stay in line, even beyond their room.
    pub(crate) fn part_room(&mut self) {
        for (account_id, line) in self.lines.iter_mut().enumerate() {
            let part = self.jobs_max as f64 * self.accounts.part_of_jobs(account_id);
            // Each line has room for one job, even with the smallest share.
            line.jobs_max = (part as usize).max(1);
        }
    }

    /// Number of waiting jobs.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Number of jobs that wait in one line.
    pub(crate) fn len_of(&self, account_id: AccountId) -> usize {
        self.lines[account_id].len()
    }

    /// Number of waiting folds, including stale ones.
    pub(crate) fn folds(&self) -> usize {
        self.lines.iter().map(|line| line.folds.len()).sum()
    }

    /// Number of waiting locals.
    pub(crate) fn locals(&self) -> usize {
        self.lines.iter().map(|line| line.locals.len()).sum()
    }

    fn line(&mut self, kind: u32) -> &mut Line<P> {
        &mut self.lines[self.accounts.of_kind(kind)]
    }

    /// Charges finished work on the loop, which waited for no turn.
    pub(crate) fn charge_inline(&mut self, now: Instant, account_id: AccountId, cost: Duration) {
        let Self { accounts, lines, .. } = self;
        accounts.charge_inline(now, account_id, cost, |account_id| lines[account_id].len() > 0);
    }

    /// Adds a local.
    ///
    /// # Errors
    /// Returns the job if its line or the queue is full. Folds are never refused: there is at most one for
    /// every two partials that the node has already accepted.
    pub(crate) fn push_local(&mut self, job: Pending<P>) -> Result<(), Pending<P>> {
        let is_full = self.len() >= self.jobs_max;
        let line = self.line(job.kind);
        if is_full || line.len() >= line.jobs_max {
            return Err(job);
        }
        line.locals.push_back(job);
        self.waiting += 1;
        Ok(())
    }

    /// Adds a fold whose parts are known.
    pub(crate) fn push_fold(&mut self, job: Pending<P>) {
        self.line(job.kind).folds.push_back(Turn::Job(job));
        self.waiting += 1;
    }

    /// Adds a fold that takes its parts when its turn comes. It is never refused: a wave has at most one for every two parts
    /// that have rested at once.
    pub(crate) fn push_fold_turn(&mut self, turn: FoldTurn) {
        self.line(turn.kind).folds.push_back(Turn::Fold(turn));
        self.waiting += 1;
    }

    /// Adds the run of a stream's filter. It is never refused: a stream has at most one at a time.
    pub(crate) fn push_filter(&mut self, account_id: AccountId, stream: StreamId, run: u64) {
        self.lines[account_id].folds.push_back(Turn::Filter { stream, run });
        self.waiting += 1;
    }

    /// Counts folds in line that are not needed any more.
    pub(crate) fn note_stale(&mut self, folds: usize) {
        self.stale += folds;
    }

    /// Removes the folds that are not `wanted`, if there are too many.
    pub(crate) fn sweep(&mut self, mut wanted: impl FnMut(&Turn<P>) -> bool) {
        if self.stale > STALE_FOLDS_MAX && self.stale > self.folds() / 2 {
            self.lines.iter_mut().for_each(|line| line.folds.retain(&mut wanted));
            self.waiting = self.lines.iter().map(Line::len).sum();
            self.stale = 0;
        }
    }

    /// The next job, if so many of `processors` are busy, and so many of these with locals.
    ///
    /// While locals run, folds have one extra processor, so that hanging locals do not keep partials from
    /// being folded. A second extra fold would only wait behind others, and delay another application's.
    pub(crate) fn pop(&mut self, busy: u32, locals_busy: u32, processors: u32) -> Option<Turn<P>> {
        if self.waiting == 0 {
            return None;
        }
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
        self.waiting -= 1;
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
            Turn::Fold(_) | Turn::Filter { .. } => panic!("there are only jobs"),
        })
    }

    fn job(work: Work<u8>) -> Pending<u8> {
        let tag = Tag { wave: WaveId { origin: 1, sequence: 1 }, branch: 0 };
        Pending { tag, kind: 0, work, what: What::Local(0), epoch: 0 }
    }

    fn fold(epoch: u64) -> Pending<u8> {
        let work = Work::Reduce { parts: [0, 0].into(), params: 0 };
        Pending { epoch, what: What::Fold { lot: 0, folds: 1 }, ..job(work) }
    }

    #[test]
    fn stale_folds_never_outnumber_the_others_but_for_a_few() {
        let mut queue = queue(0, &["a"]);
        for epoch in 0..1_000 {
            // One of four waves stays alive.
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
    fn a_flooding_application_fills_only_its_own_lane() {
        // Kinds 0 and 1 belong to one application, kind 2 to another with an equal share.
        let mut queue = queue(8, &["a", "a", "b"]);
        let of =
            |kind, partition| Pending { kind, ..job(Work::Local { partition, params: 0, reduce: None }) };
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
        let local = |partition| job(Work::Local { partition, params: 0, reduce: None });
        queue.push_local(local(0)).expect("room for two");
        queue.push_local(local(1)).expect("room for two");
        assert!(queue.push_local(local(2)).is_err());
        queue.push_fold(fold(0));
        queue.push_fold(fold(0));
        assert!(matches!(next(&mut queue, 0).map(|job| job.work), Some(Work::Reduce { .. })));
        assert!(
            matches!(next(&mut queue, 1).map(|job| job.work), Some(Work::Reduce { .. })),
            "one more for folds"
        );
        assert!(next(&mut queue, 1).is_none(), "locals use only the processors that exist");
        queue.push_fold(fold(0));
        assert!(queue.pop(1, 0, 1).is_none(), "folds have no extra processor while no local runs");
        assert!(queue.pop(1, 1, 1).is_some());
        assert!(matches!(next(&mut queue, 0).map(|job| job.work), Some(Work::Local { partition: 0, .. })));
    }

    #[test]
    fn a_filter_waits_for_its_turn_like_a_fold() {
        let mut queue = queue(8, &["a"]);
        let stream = |sequence| StreamId { origin: 1, sequence };
        queue.push_local(job(Work::Local { partition: 0, params: 0, reduce: None })).expect("room");
        queue.push_filter(0, stream(1), 7);
        queue.push_fold(fold(0));
        queue.push_filter(1, stream(2), 8);
        assert_eq!((queue.len(), queue.len_of(0), queue.folds()), (4, 3, 3));
        let turns: Vec<Option<u64>> = core::iter::from_fn(|| queue.pop(0, 0, 1))
            .map(|turn| match turn {
                Turn::Job(_) | Turn::Fold(_) => None,
                Turn::Filter { run, .. } => Some(run),
            })
            .collect();
        // Nothing was charged, so it stays the first account's turn.
        assert_eq!(turns, [Some(7), None, None, Some(8)]);
    }
}
