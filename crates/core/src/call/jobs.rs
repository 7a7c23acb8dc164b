//! Operator work: what is queued, what runs, and what comes of it.
//!
//! Folds and locals of pooled aggregations wait for one of the node's processors; inline ones are handed out at
//! once. A job's outcome finds its wave by tag, and is of no use when the wave has been answered meanwhile.
//! A local that outlives its deadline by `Tuning::stuck_after` is given up: the driver replaces its worker, up
//! to `Limits::stuck_jobs_max` times, so that a partition that hangs costs a thread and not the node.
//!
//! Two kinds of work are of sliced calls: a local that makes slices for several waves ([`crate::call::slices`]), and the
//! joining of slices, which belongs to no wave ([`crate::call::gather`]).

use crate::call::caller::CALLER_BRANCH;
use crate::call::slices::{LocalKey, reason_of};
use crate::config::Placement;
use crate::effect::{Effect, Job, Place, TracePoint, Work};
use crate::error::{JobError, Reason};
use crate::id::{JobId, PartitionId, Tag, WaveId};
use crate::message::Payload;
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::schedule::lanes::Charge;
use crate::schedule::queue::{Pending, Turn};
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::wave::contributors::Part;
use crate::wave::state::{Phase, Wave};
use alloc::vec::Vec;

/// What a job in the driver's hands does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Local,
    Slices,
    Fold,
    Join,
}

impl What {
    fn of<P>(work: &Work<P>) -> Self {
        match work {
            Work::Local { .. } => Self::Local,
            Work::Slices { .. } => Self::Slices,
            Work::Reduce { .. } => Self::Fold,
            Work::Join { .. } => Self::Join,
        }
    }

    fn is_local(self) -> bool {
        matches!(self, Self::Local | Self::Slices)
    }
}

/// A job in the driver's hands.
#[derive(Debug)]
pub(crate) struct OpenJob {
    tag: Tag,
    pub(crate) kind: u32,
    what: What,
    /// Which local it is, when it makes slices.
    pub(crate) local: Option<LocalKey>,
    /// Whose partials a fold joins; the partition of a local.
    pub(crate) contributors: PartitionSet,
    place: Place,
    /// [`Wave::jobs_epoch`] when it was handed out.
    epoch: u64,
    holds_processor: bool,
    /// What its application has been charged; `None` for one that only waits, or has no turn to wait for.
    charge: Option<Charge>,
    pub(crate) started_at: Instant,
    is_stuck: bool,
    armed: Option<Instant>,
}

impl<P: Payload> Node<P> {
    /// Queues the local of one partition, or hands it out at once when it takes microseconds.
    pub(crate) fn enqueue_local(
        &mut self,
        now: Instant,
        wave: &mut Wave<P>,
        kind: u32,
        partition: PartitionId,
    ) {
        let job = Pending {
            tag: wave.tag,
            kind,
            work: Work::Local { partition, params: wave.params.clone() },
            contributors: PartitionSet::from_range(partition..partition.saturating_add(1)),
            epoch: wave.jobs_epoch,
        };
        if self.place_of(&job) == Place::Inline {
            return self.hand_out(now, wave, job, Place::Inline);
        }
        if let Err(job) = self.queue.push_local(job) {
            self.refuse_local(wave, job);
        }
    }

    /// A local finds its application's line full.
    pub(crate) fn refuse_local(&mut self, wave: &mut Wave<P>, job: Pending<P>) {
        self.queue.lanes.note_refused(wave.lane, 1);
        let service = self.queue.lanes.name(wave.lane);
        let full = alloc::format!("jobs_queued_max, the part of {service}");
        self.lose_own(wave, job.contributors, Reason::Full(full.into()));
    }

    /// Pairs up parts at rest and queues their folds.
    pub(crate) fn fold_pairs(&mut self, now: Instant, wave: &mut Wave<P>) {
        let Some(kind) = wave.kind else { return };
        while let Some((a, b)) = wave.parts.take_pair() {
            let mut contributors = a.contributors;
            contributors.union_with(&b.contributors);
            if wave.push.is_some() && (a.payload.is_empty() || b.payload.is_empty()) {
                let payload = if a.payload.is_empty() { b.payload } else { a.payload };
                wave.parts.put_folded(Part { payload, contributors });
                continue;
            }
            let work = Work::Reduce { a: a.payload, b: b.payload, params: wave.params.clone() };
            let epoch = wave.jobs_epoch;
            self.queue_fold(now, wave, Pending { tag: wave.tag, kind, work, contributors, epoch });
        }
    }

    /// Queues a fold, or hands it out at once when it takes microseconds.
    pub(crate) fn queue_fold(&mut self, now: Instant, wave: &mut Wave<P>, job: Pending<P>) {
        match self.place_of(&job) {
            Place::Inline => self.hand_out(now, wave, job, Place::Inline),
            Place::Worker | Place::Async => self.queue.push_fold(job),
        }
    }

    /// Where a job runs.
    fn place_of(&self, job: &Pending<P>) -> Place {
        match self.config.kinds[job.kind as usize].placement {
            Placement::Inline => Place::Inline,
            Placement::Pool => Place::Worker,
            Placement::Async { .. } => Place::Async,
            Placement::Measured => {
                let is_cheap = self
                    .costs
                    .of(job.kind)
                    .reduce
                    .mean_ms()
                    .is_some_and(|ms| ms < self.config.tuning.inline_cost_max.as_millis_f64());
                let is_fold = matches!(job.work, Work::Reduce { .. });
                if is_fold && is_cheap { Place::Inline } else { Place::Worker }
            }
        }
    }

    /// Gives queued jobs to idle processors.
    pub(crate) fn dispatch(&mut self, now: Instant) {
        while let Some(turn) =
            self.queue.pop(self.processors_busy, self.locals_busy, self.config.card.processors)
        {
            let mut job = match turn {
                Turn::Job(job) => job,
                Turn::Filter { stream, run } => {
                    self.begin_run(now, stream, run);
                    continue;
                }
            };
            if self.claim_slices(&mut job).is_none() {
                continue;
            }
            let Some(mut wave) = self.waves.remove(&job.tag) else { continue };
            if is_wanted(&wave, &job) {
                let place = self.place_of(&job);
                let place = if place == Place::Inline { Place::Worker } else { place };
                self.hand_out(now, &mut wave, job, place);
            }
            self.waves.insert(wave.tag, wave);
        }
    }

    /// Keeps jobs of waves that have ended from piling up before processors that hang.
    pub(crate) fn sweep_queue(&mut self) {
        let Self { queue, waves, streams, .. } = self;
        queue.sweep(|turn| match turn {
            Turn::Job(job) => waves.get(&job.tag).is_some_and(|wave| is_wanted(wave, job)),
            Turn::Filter { stream, run } => streams.get(stream).is_some_and(|share| share.waits_for(*run)),
        });
    }

    fn hand_out(&mut self, now: Instant, wave: &mut Wave<P>, job: Pending<P>, place: Place) {
        self.jobs_started += 1;
        let id = JobId(self.jobs_started);
        let Pending { tag, kind, work, contributors, epoch } = job;
        let holds_processor = match self.config.kinds[kind as usize].placement {
            Placement::Async { holds_processor } => holds_processor,
            _ => place != Place::Inline,
        };
        wave.timing.first_job_at.get_or_insert(now);
        if place == Place::Async {
            wave.futures.push(id);
        }
        wave.jobs_inline += u32::from(place == Place::Inline);
        let what = What::of(&work);
        let cost = self.costs.of(kind);
        let expected_ms = if what == What::Fold { cost.reduce_ms() } else { cost.local_ms() };
        let charge = holds_processor.then(|| self.queue.lanes.begin(wave.lane, expected_ms));
        let mut open = OpenJob {
            tag,
            kind,
            what,
            local: (what == What::Slices)
                .then(|| (wave.slice.first(tag.wave), contributors.least().unwrap_or(0))),
            contributors,
            place,
            epoch,
            holds_processor,
            charge,
            started_at: now,
            is_stuck: false,
            armed: None,
        };
        self.occupy(&open);
        if place != Place::Inline {
            let patience_ends = wave.deadline_at + self.config.tuning.stuck_after;
            self.timers.rearm(&mut open.armed, Some(patience_ends), Wake::Job(id));
        }
        let is_inline_fold = what == What::Fold && place == Place::Inline;
        self.jobs.insert(id, open);
        let run = Effect::Run(Job { id, kind, work, place });
        if is_inline_fold {
            // Folds outrank locals: before the next inline local runs, what the last one gave is folded away.
            self.effects.push_front(run);
        } else {
            self.effects.push_back(run);
        }
    }

    /// A job is over.
    pub(crate) fn handle_job_done(
        &mut self,
        now: Instant,
        id: JobId,
        result: Result<P, JobError>,
        cost: Duration,
    ) {
        let Some(job) = self.end_job(now, id, cost, result.is_ok()) else { return };
        if job.what == What::Join {
            self.handle_joined(now, id, job.tag.wave, result);
        } else if let Some(mut wave) = self.waves.remove(&job.tag) {
            let is_awaited = wave.phase == Phase::Open && wave.jobs_epoch == job.epoch;
            wave.futures.retain(|open| *open != id);
            wave.jobs_inline -= u32::from(is_awaited && job.place == Place::Inline);
            if is_awaited {
                self.take_result(now, &mut wave, job, result, cost);
            }
            self.settle(now, wave);
        }
        self.dispatch(now);
    }

    /// A job that makes slices is over.
    pub(crate) fn handle_slices_done(
        &mut self,
        now: Instant,
        id: JobId,
        result: Result<Vec<P>, JobError>,
        cost: Duration,
    ) {
        let Some(job) = self.end_job(now, id, cost, result.is_ok()) else { return };
        self.take_slices(now, &job, result);
        self.dispatch(now);
    }

    /// Takes a job off the books.
    fn end_job(&mut self, now: Instant, id: JobId, cost: Duration, is_ok: bool) -> Option<OpenJob> {
        let mut job = self.jobs.remove(&id)?;
        self.timers.rearm(&mut job.armed, None, Wake::Job(id));
        if job.is_stuck {
            self.jobs_stuck -= 1;
        } else {
            self.vacate(&job);
        }
        if let Some(charge) = job.charge.take() {
            self.queue.lanes.end(now, charge, cost);
        } else if job.place == Place::Inline {
            let lane = self.queue.lanes.of_kind(job.kind);
            self.queue.charge_inline(now, lane, cost);
        }
        if is_ok {
            self.learn_cost(&job, cost);
        }
        Some(job)
    }

    fn learn_cost(&mut self, job: &OpenJob, cost: Duration) {
        match job.what {
            What::Fold => {
                self.counters.reductions_run += 1;
                self.costs.observe_reduce(job.kind, cost);
            }
            What::Local | What::Slices => {
                self.counters.locals_run += 1;
                self.costs.observe_local(job.kind, cost);
            }
            What::Join => {}
        }
    }

    /// Puts the joining of a call's slices on the books: it begins at once, since all else about the call is done.
    pub(crate) fn begin_join(
        &mut self,
        now: Instant,
        first: WaveId,
        kind: u32,
        deadline_at: Instant,
    ) -> JobId {
        self.jobs_started += 1;
        let id = JobId(self.jobs_started);
        let expected_ms = self.costs.of(kind).reduce_ms();
        let charge = self.queue.lanes.begin(self.queue.lanes.of_kind(kind), expected_ms);
        let mut open = OpenJob {
            tag: Tag { wave: first, branch: CALLER_BRANCH },
            kind,
            what: What::Join,
            local: None,
            contributors: PartitionSet::new(),
            place: Place::Worker,
            epoch: 0,
            holds_processor: true,
            charge: Some(charge),
            started_at: now,
            is_stuck: false,
            armed: None,
        };
        self.occupy(&open);
        let patience_ends = deadline_at + self.config.tuning.stuck_after;
        self.timers.rearm(&mut open.armed, Some(patience_ends), Wake::Job(id));
        self.jobs.insert(id, open);
        id
    }

    fn take_result(
        &mut self,
        now: Instant,
        wave: &mut Wave<P>,
        job: OpenJob,
        result: Result<P, JobError>,
        cost: Duration,
    ) {
        let took = if job.place == Place::Inline { cost } else { job.started_at.until(now) };
        let is_fold = job.what == What::Fold;
        self.lighten(wave, job.kind, is_fold);
        let time = if is_fold { &mut wave.timing.reduce } else { &mut wave.timing.local };
        *time += took;
        let chained = chained(wave, is_fold, &job.contributors);
        match (result, is_fold) {
            (Ok(payload), true) if let Some(worker) = chained => {
                self.put_chained(now, wave, worker, payload);
            }
            (Err(JobError::Failed(text) | JobError::Panicked(text)), true) if chained.is_some() => {
                self.lose_own(wave, job.contributors, Reason::ReduceFailed(text));
            }
            (Ok(payload), true) => {
                self.free_folded(wave, &job.contributors);
                wave.parts.put_folded(Part { payload, contributors: job.contributors });
            }
            (Ok(payload), false) => {
                self.take_own(wave, job.contributors, payload);
            }
            (Err(_), true) if !wave.parts.forget_folded(&job.contributors) => {}
            (Err(error), true) => {
                let (JobError::Failed(text) | JobError::Panicked(text)) = error;
                let reason = Reason::ReduceFailed(text);
                let loss =
                    crate::error::Missing { partitions: job.contributors, node: Some(self.me), reason };
                wave.note_loss(loss, self.config.limits.missing_max);
            }
            (Err(error), false) => {
                self.counters.locals_failed += 1;
                self.lose_own(wave, job.contributors, reason_of(error));
            }
        }
    }

    /// A job has run far past its deadline. Its processor is given to others as long as the node can afford
    /// to lose a thread.
    pub(crate) fn handle_stuck(&mut self, now: Instant, id: JobId) {
        let affords_one = self.workers_lost() < self.config.limits.stuck_jobs_max;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.armed = None;
        if job.place == Place::Async {
            // A future can be dropped: nothing of it stays behind.
            if let Some(job) = self.jobs.remove(&id) {
                self.vacate(&job);
            }
            self.effects.push_back(Effect::Abandon { job: id, replace_worker: false });
        } else if affords_one {
            job.is_stuck = true;
            self.jobs_stuck += 1;
            let (holds_processor, is_local) = (job.holds_processor, job.what.is_local());
            self.processors_busy -= u32::from(holds_processor);
            self.locals_busy -= u32::from(holds_processor && is_local);
            self.effects.push_back(Effect::Abandon { job: id, replace_worker: true });
        } else {
            return;
        }
        self.effects.push_back(Effect::Trace(TracePoint::Stuck { job: id }));
        self.dispatch(now);
    }

    /// Threads that locals and filters hold which were given up, and in whose place others were started.
    pub(crate) fn workers_lost(&self) -> usize {
        self.jobs_stuck + self.runs_abandoned.values().filter(|run| run.is_replaced).count()
    }

    /// Tells jobs of a wave from those that were handed out before it gave up its jobs, or before it was dropped
    /// and began anew under the same tag.
    pub(crate) fn next_jobs_epoch(&mut self) -> u64 {
        self.jobs_epochs += 1;
        self.jobs_epochs
    }

    /// Nothing waits for the wave's jobs any more.
    pub(crate) fn forget_jobs(&mut self, wave: &mut Wave<P>) {
        wave.jobs_inline = 0;
        let chained = wave.chains.values().filter(|chain| chain.is_folding()).count();
        self.queue.note_stale(wave.parts.open_folds() + chained);
        wave.jobs_epoch = self.next_jobs_epoch();
        for id in core::mem::take(&mut wave.futures) {
            if let Some(mut job) = self.jobs.remove(&id) {
                self.timers.rearm(&mut job.armed, None, Wake::Job(id));
                self.vacate(&job);
                self.effects.push_back(Effect::Abandon { job: id, replace_worker: false });
            }
        }
    }

    fn occupy(&mut self, job: &OpenJob) {
        self.processors_busy += u32::from(job.holds_processor);
        self.locals_busy += u32::from(job.holds_processor && job.what.is_local());
    }

    fn vacate(&mut self, job: &OpenJob) {
        self.processors_busy -= u32::from(job.holds_processor);
        self.locals_busy -= u32::from(job.holds_processor && job.what.is_local());
    }
}

/// True when something waits for what comes of the job.
fn is_wanted<P: Payload>(wave: &Wave<P>, job: &Pending<P>) -> bool {
    wave.phase == Phase::Open
        && wave.jobs_epoch == job.epoch
        && match &job.work {
            Work::Local { partition, .. } | Work::Slices { partition, .. } => {
                wave.own_open.contains(*partition)
            }
            Work::Reduce { .. } | Work::Join { .. } => match chained(wave, true, &job.contributors) {
                Some(worker) => wave.own_open.contains(worker) || wave.absent.contains(worker),
                None => wave.parts.has_open_fold(),
            },
        }
}

/// The worker whose own pushes a fold joins; the parts of a wave that a fold joins have two contributors at least.
fn chained<P: Payload>(wave: &Wave<P>, is_fold: bool, contributors: &PartitionSet) -> Option<PartitionId> {
    contributors.least().filter(|_| is_fold && wave.push.is_some() && contributors.len() == 1)
}
