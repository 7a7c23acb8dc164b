//! Operator work: the queued and running jobs, and their results.
//!
//! Folds and locals of pooled aggregations wait for one of the node's processors; inline jobs are handed out
//! at once. A job's result finds its wave by tag, and is dropped if the wave has been answered in the
//! meantime. If a local runs past its deadline by `Tuning::stuck_after`, it is abandoned: the driver replaces
//! its worker, up to `Limits::stuck_jobs_max` times, so that a hanging partition costs a thread and not the
//! node.
//!
//! Two kinds of work belong to sliced calls: locals that make slices for several waves
//! ([`crate::call::slices`]), and the joining of slices, which belongs to no wave ([`crate::call::gather`]).

use crate::call::caller::CALLER_BRANCH;
use crate::call::slices::{LocalKey, reason_of};
use crate::config::Placement;
use crate::effect::{Effect, Job, Place, Work};
use crate::error::{JobError, Missing, Reason};
use crate::id::{JobId, PartitionId, Tag, WaveId};
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::schedule::accounts::Charge;
use crate::schedule::queue::Pending;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::wave::contributors::LotNumber;
use crate::wave::state::Wave;
use crate::wave::table::Desk;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The work of a job, and the owner of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Computes one partition's partial.
    Local(PartitionId),
    /// Computes the slices of one partition's partial, for several waves.
    Slices(PartitionId),
    /// Folds a lot of parts of a wave.
    Fold {
        /// The lot.
        lot: LotNumber,
        /// The number of folds: one less than the lot's parts.
        folds: u32,
    },
    /// Folds two results of one worker that pushes.
    Chain(PartitionId),
    /// Joins the slices of a call.
    Join,
}

impl What {
    pub(crate) fn is_local(self) -> bool {
        matches!(self, Self::Local(_) | Self::Slices(_))
    }

    /// The number of folds of a job that folds.
    pub(crate) fn folds(self) -> u32 {
        if let Self::Fold { folds, .. } = self { folds } else { 1 }
    }

    pub(crate) fn is_fold(self) -> bool {
        matches!(self, Self::Fold { .. } | Self::Chain(_))
    }
}

/// A job that the driver is running.
///
/// Eleven fields, because the end of a job needs all of them: its wave and partials, and the processor, time
/// and charge that it held.
#[derive(Debug)]
pub(crate) struct OpenJob {
    pub(crate) tag: Tag,
    pub(crate) kind: u32,
    pub(crate) what: What,
    /// The local, if the job makes slices.
    pub(crate) local: Option<LocalKey>,
    pub(crate) place: Place,
    /// The epoch of its wave (`Locals::epoch`) when the job was handed out.
    pub(crate) epoch: u64,
    pub(crate) holds_processor: bool,
    /// The charge to its application; `None` for a job that only waits, or that needs no turn.
    charge: Option<Charge>,
    pub(crate) started_at: Instant,
    pub(crate) is_stuck: bool,
    pub(crate) armed: Option<Instant>,
}

/// Operator work that was handed out: jobs of waves and runs of streams' filters.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) open: BTreeMap<JobId, OpenJob>,
    /// Jobs on the driver's loop, which come back before any other input; the next one is near the end.
    inline: Vec<(JobId, OpenJob)>,
    pub(crate) started: u64,
    pub(crate) epochs: u64,
    pub(crate) stuck: usize,
    /// Jobs of waves that have ended. The driver is told to end them before the next input, except for locals of which
    /// other waves still want slices.
    pub(crate) unwanted: Vec<JobId>,
    /// The number of filter runs started.
    pub(crate) runs_started: u64,
    /// Runs that were abandoned and have not ended.
    pub(crate) runs_abandoned: BTreeMap<u64, RunAbandoned>,
    pub(crate) processors_busy: u32,
    /// Processors held by locals, which may hang.
    pub(crate) locals_busy: u32,
}

/// A filter's run that was abandoned and has not ended.
#[derive(Debug)]
pub(crate) struct RunAbandoned {
    /// True if another worker was started in place of the run's worker.
    pub(crate) is_replaced: bool,
    /// The charge to its application.
    pub(crate) charge: Option<Charge>,
}

impl Jobs {
    fn remove(&mut self, id: JobId) -> Option<OpenJob> {
        match self.inline.iter().rposition(|&(inline, _)| inline == id) {
            Some(at) => Some(self.inline.remove(at).1),
            None => self.open.remove(&id),
        }
    }
}

impl<P: Payload> Wave<P> {
    /// Queues the local of one partition, for the whole partial or one slice alone, or hands it out at once if it takes microseconds.
    pub(crate) fn enqueue_local(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        kind: u32,
        partition: PartitionId,
    ) {
        let (slice, params) = (self.ask.slice, self.ask.params.of(partition).clone());
        let reduce = self.ask.params.reduce().cloned();
        let work = match slice.is_whole() {
            true => Work::Local { partition, params, reduce },
            false => Work::Slice { partition, slice, params, reduce },
        };
        let job =
            Pending { tag: self.tag, kind, work, what: What::Local(partition), epoch: self.locals.epoch };
        if cx.place_of(&job) == Place::Inline {
            return self.hand_out(cx, now, job, Place::Inline);
        }
        if cx.queue.push_local(job).is_err() {
            self.refuse_local(cx, partition);
        }
    }

    /// Refuses a local because its application's queue is full.
    pub(crate) fn refuse_local(&mut self, cx: &mut Context<P>, partition: PartitionId) {
        cx.queue.accounts.note_refused(self.ask.account_id, 1);
        let service = cx.queue.accounts.name(self.ask.account_id);
        let full = alloc::format!("jobs_queued_max, the part of {service}");
        self.lose_own(cx, PartitionSet::alone(partition), Reason::Full(full.into()));
    }

    /// Queues a fold, or hands it out at once if it takes microseconds.
    pub(crate) fn queue_fold(&mut self, cx: &mut Context<P>, now: Instant, job: Pending<P>) {
        match cx.place_of(&job) {
            Place::Inline => self.hand_out(cx, now, job, Place::Inline),
            Place::Worker | Place::Async => cx.queue.push_fold(job),
        }
    }

    pub(crate) fn hand_out(&mut self, cx: &mut Context<P>, now: Instant, job: Pending<P>, place: Place) {
        cx.jobs.started += 1;
        let id = JobId(cx.jobs.started);
        let Pending { tag, kind, work, what, epoch } = job;
        let holds_processor = match cx.config.kinds[kind as usize].placement {
            Placement::Async { holds_processor } => holds_processor,
            _ => place != Place::Inline,
        };
        self.tale.timing.first_job_at.get_or_insert(now);
        if place != Place::Inline {
            self.locals.handed_out.push(id);
        }
        self.locals.inline += u32::from(place == Place::Inline);
        let charge = holds_processor.then(|| {
            let cost = cx.loads.costs.of(kind);
            let expected_ms =
                if what.is_fold() { cost.reduce_ms() * f64::from(what.folds()) } else { cost.local_ms() };
            cx.queue.accounts.begin(self.ask.account_id, expected_ms)
        });
        let mut open = OpenJob {
            tag,
            kind,
            what,
            local: match what {
                What::Slices(partition) => Some((self.ask.slice.first(tag.wave), partition)),
                _ => None,
            },
            place,
            epoch,
            holds_processor,
            charge,
            started_at: now,
            is_stuck: false,
            armed: None,
        };
        cx.occupy(&open);
        if place != Place::Inline {
            let patience_ends = self.ask.deadline_at + cx.config.tuning.stuck_after.into();
            cx.timers.rearm(&mut open.armed, Some(patience_ends), Wake::Job(id));
        }
        let is_inline_fold = what.is_fold() && place == Place::Inline;
        match place {
            Place::Inline => cx.jobs.inline.push((id, open)),
            Place::Worker | Place::Async => _ = cx.jobs.open.insert(id, open),
        }
        let run = Effect::Run(Job { id, kind, work, place });
        if is_inline_fold {
            // Folds go before locals: the result of an inline local is folded before the next inline local
            // runs.
            cx.effects.push_front(run);
        } else {
            cx.effects.push_back(run);
        }
    }

    pub(crate) fn take_result(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        job: &OpenJob,
        result: Result<P, JobError>,
        cost: Duration,
    ) {
        let took = if job.place == Place::Inline { cost } else { job.started_at.until(now) };
        let is_fold = job.what.is_fold();
        self.lighten(desk.cx, job.kind, job.what);
        let time = if is_fold { &mut self.tale.timing.reduce } else { &mut self.tale.timing.local };
        *time += took;
        match (job.what, result) {
            (What::Chain(worker), Ok(payload)) => self.put_chained(desk, now, worker, payload),
            (What::Chain(worker), Err(error)) => {
                let reason = Reason::ReduceFailed(error.into_text());
                self.lose_own(desk.cx, PartitionSet::alone(worker), reason);
            }
            (What::Fold { lot, .. }, Ok(payload)) => {
                if self.parts.put_folded(lot, payload) {
                    self.free_folded(desk);
                }
            }
            (What::Fold { lot, .. }, Err(error)) => {
                let Some(partitions) = self.parts.forget_folded(lot, &error) else { return };
                self.losses.look_again(&partitions);
                let reason = Reason::ReduceFailed(error.into_text());
                let loss = Missing { partitions, node: Some(desk.cx.me), reason };
                self.losses.note(loss, desk.cx.config.limits.missing_max);
            }
            // It has come by another way.
            (What::Local(partition), _) if !self.locals.open.contains(partition) => {}
            (What::Local(partition) | What::Slices(partition), Ok(payload)) => {
                if self.ask.slice.is_whole() {
                    let timing = &mut self.tale.timing;
                    (timing.done, timing.done_time) = (timing.done + 1, timing.done_time + took);
                }
                self.take_own(desk.cx, partition, payload);
            }
            (What::Local(partition) | What::Slices(partition), Err(error)) => {
                desk.cx.counters.waves.locals_failed += 1;
                self.lose_own(desk.cx, PartitionSet::alone(partition), reason_of(error));
            }
            // The job belongs to no wave.
            (What::Join, _) => {}
        }
    }

    /// Abandons the wave's jobs: nothing waits for them any longer. Futures are dropped at once. Other jobs are told so
    /// ([`Jobs::unwanted`]).
    pub(crate) fn forget_jobs(&mut self, cx: &mut Context<P>) {
        self.locals.inline = 0;
        let chains = self.pushed.iter().flat_map(|pushed| pushed.chains.values());
        let chained = chains.filter(|chain| chain.is_folding()).count();
        let turns = core::mem::take(&mut self.locals.folds_queued) as usize;
        cx.queue.note_stale(self.parts.open_folds() + turns + chained);
        self.locals.epoch = cx.next_jobs_epoch();
        core::mem::take(&mut self.locals.handed_out).into_iter().for_each(|id| cx.forget_job(id));
    }

    /// Abandons the locals of partitions that have come by another way.
    pub(crate) fn forget_beaten_locals(&mut self, cx: &mut Context<P>, now: Instant) {
        let (open, trouble) = (&self.locals.open, self.losses.trouble());
        self.locals.handed_out.retain(|id| {
            let Some(job) = cx.jobs.open.get(id) else { return true };
            let is_beaten = matches!(job.what, What::Local(partition) if !open.contains(partition));
            if is_beaten {
                trouble.beaten_after = trouble.beaten_after.max(job.started_at.until(now));
                cx.forget_job(*id);
            }
            !is_beaten
        });
    }
}

impl<P: Payload> Context<P> {
    /// Abandons a job: a future is dropped, and the driver is told to end any other.
    fn forget_job(&mut self, id: JobId) {
        let Some(job) = self.jobs.open.get(&id) else { return };
        if job.place != Place::Async {
            return self.jobs.unwanted.push(id);
        }
        if let Some(mut job) = self.jobs.open.remove(&id) {
            self.timers.rearm(&mut job.armed, None, Wake::Job(id));
            self.vacate(&job);
            self.effects.push_back(Effect::Abandon { job: id, replace_worker: false });
        }
    }

    /// The place where a job runs.
    pub(crate) fn place_of(&self, job: &Pending<P>) -> Place {
        self.place_in(job.kind, matches!(job.work, Work::Reduce { .. }))
    }

    pub(crate) fn place_in(&self, kind: u32, is_fold: bool) -> Place {
        match self.config.kinds[kind as usize].placement {
            Placement::Inline => Place::Inline,
            Placement::Pool => Place::Worker,
            Placement::Async { .. } => Place::Async,
            Placement::Measured => {
                let is_cheap = self.loads.costs.of(kind).reduce.mean_ms().is_some_and(|ms| {
                    ms < Duration::from(self.config.tuning.inline_cost_max).as_millis_f64()
                });
                if is_fold && is_cheap { Place::Inline } else { Place::Worker }
            }
        }
    }

    /// Removes a job that has ended, and returns its processor and charge.
    pub(crate) fn end_job(
        &mut self,
        now: Instant,
        id: JobId,
        cost: Duration,
        is_ok: bool,
    ) -> Option<OpenJob> {
        let mut job = self.jobs.remove(id)?;
        self.timers.rearm(&mut job.armed, None, Wake::Job(id));
        if job.is_stuck {
            self.jobs.stuck -= 1;
        } else {
            self.vacate(&job);
        }
        if let Some(charge) = job.charge.take() {
            self.queue.accounts.end(now, charge, cost);
        } else if job.place == Place::Inline {
            let account_id = self.queue.accounts.of_kind(job.kind);
            self.queue.charge_inline(now, account_id, cost);
        }
        if is_ok {
            self.learn_cost(now, &job, cost);
        }
        Some(job)
    }

    fn learn_cost(&mut self, now: Instant, job: &OpenJob, cost: Duration) {
        match job.what {
            What::Fold { .. } | What::Chain(_) => {
                let folds = job.what.folds();
                self.counters.waves.reductions_run += u64::from(folds);
                self.loads.costs.observe_reduce(job.kind, cost.div(folds.into()));
            }
            What::Local(_) | What::Slices(_) => {
                self.counters.waves.locals_run += 1;
                let held = if job.holds_processor { job.started_at.until(now) } else { cost };
                self.loads.costs.observe_local(job.kind, cost, held);
            }
            What::Join => {}
        }
    }

    /// Registers the job that joins a call's slices. It begins at once, because the call waits only for it.
    pub(crate) fn begin_join(
        &mut self,
        now: Instant,
        first: WaveId,
        kind: u32,
        deadline_at: Instant,
    ) -> JobId {
        self.jobs.started += 1;
        let id = JobId(self.jobs.started);
        let expected_ms = self.loads.costs.of(kind).reduce_ms();
        let charge = self.queue.accounts.begin(self.queue.accounts.of_kind(kind), expected_ms);
        let mut open = OpenJob {
            tag: Tag { wave: first, branch: CALLER_BRANCH },
            kind,
            what: What::Join,
            local: None,
            place: Place::Worker,
            epoch: 0,
            holds_processor: true,
            charge: Some(charge),
            started_at: now,
            is_stuck: false,
            armed: None,
        };
        self.occupy(&open);
        let patience_ends = deadline_at + self.config.tuning.stuck_after.into();
        self.timers.rearm(&mut open.armed, Some(patience_ends), Wake::Job(id));
        self.jobs.open.insert(id, open);
        id
    }

    /// Threads held by abandoned locals and filter runs that were replaced by other threads.
    pub(crate) fn workers_lost(&self) -> usize {
        self.jobs.stuck + self.jobs.runs_abandoned.values().filter(|run| run.is_replaced).count()
    }

    /// A new epoch. It separates a wave's jobs from jobs that were handed out before the wave abandoned its
    /// jobs, or before it was dropped and began again under the same tag.
    pub(crate) fn next_jobs_epoch(&mut self) -> u64 {
        self.jobs.epochs += 1;
        self.jobs.epochs
    }

    fn occupy(&mut self, job: &OpenJob) {
        self.jobs.processors_busy += u32::from(job.holds_processor);
        self.jobs.locals_busy += u32::from(job.holds_processor && job.what.is_local());
    }

    pub(crate) fn vacate(&mut self, job: &OpenJob) {
        self.jobs.processors_busy -= u32::from(job.holds_processor);
        self.jobs.locals_busy -= u32::from(job.holds_processor && job.what.is_local());
    }
}

/// True if something waits for the result of the job.
pub(crate) fn is_wanted<P: Payload>(wave: &Wave<P>, job: &Pending<P>) -> bool {
    wave.locals.epoch == job.epoch
        && match job.what {
            What::Local(partition) | What::Slices(partition) => wave.locals.open.contains(partition),
            What::Fold { lot, .. } => wave.parts.is_folding(lot),
            What::Chain(worker) => wave.locals.open.contains(worker) || wave.absent().contains(worker),
            What::Join => false,
        }
}
