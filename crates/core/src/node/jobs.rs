//! Gives work to processors, and passes ended jobs on to their wave, call or stream.

use super::Node;
use crate::call::jobs::{What, is_wanted};
use crate::effect::{Effect, Place, TracePoint};
use crate::error::JobError;
use crate::id::JobId;
use crate::message::Payload;
use crate::schedule::queue::Turn;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;

impl<P: Payload> Node<P> {
    /// Gives queued jobs to idle processors.
    pub(crate) fn dispatch(&mut self, now: Instant) {
        while let Some(turn) = self.cx.queue.pop(
            self.cx.jobs.processors_busy,
            self.cx.jobs.locals_busy,
            self.cx.config.card.processors,
        ) {
            let mut job = match turn {
                Turn::Job(job) => job,
                Turn::Filter { stream, run } => {
                    self.streams.begin_run(&mut self.cx, now, stream, run);
                    continue;
                }
            };
            if self.waves.claim_slices(&mut self.cx, &mut job).is_none() {
                continue;
            }
            let Some(mut wave) = self.waves.open.remove(&job.tag) else { continue };
            if is_wanted(&wave, &job) {
                let place = self.cx.place_of(&job);
                let place = if place == Place::Inline { Place::Worker } else { place };
                wave.hand_out(&mut self.cx, now, job, place);
            }
            self.waves.open.insert(wave.tag, wave);
        }
    }

    /// Removes jobs of ended waves, which would otherwise pile up while processors hang.
    pub(crate) fn sweep_queue(&mut self) {
        let Self { cx, waves, streams, .. } = self;
        cx.queue.sweep(|turn| match turn {
            Turn::Job(job) => waves.open.get(&job.tag).is_some_and(|wave| is_wanted(wave, job)),
            Turn::Filter { stream, run } => {
                streams.states.get(stream).is_some_and(|state| state.waits_for(*run))
            }
        });
    }

    /// A job has ended.
    pub(crate) fn handle_job_done(
        &mut self,
        now: Instant,
        id: JobId,
        result: Result<P, JobError>,
        cost: Duration,
    ) {
        let Some(job) = self.cx.end_job(now, id, cost, result.is_ok()) else { return };
        if job.what == What::Join {
            self.calls.handle_joined(&mut self.cx, now, id, job.tag.wave, result);
        } else if let Some(mut wave) = self.waves.open.remove(&job.tag) {
            let is_awaited = wave.locals.epoch == job.epoch;
            wave.locals.futures.retain(|open| *open != id);
            wave.locals.inline -= u32::from(is_awaited && job.place == Place::Inline);
            if is_awaited {
                wave.take_result(&mut desk!(self), now, &job, result, cost);
            }
            wave.decide(&mut desk!(self), now);
        }
        self.finish_ended(now);
        self.dispatch(now);
    }

    /// A job that makes slices has ended.
    pub(crate) fn handle_slices_done(
        &mut self,
        now: Instant,
        id: JobId,
        result: Result<Vec<P>, JobError>,
        cost: Duration,
    ) {
        let Some(job) = self.cx.end_job(now, id, cost, result.is_ok()) else { return };
        desk!(self).take_slices(now, &job, result);
        self.finish_ended(now);
        self.dispatch(now);
    }

    /// A job has run far past its deadline. Its processor is given to other jobs, as long as the node can
    /// afford to lose a thread.
    pub(crate) fn handle_stuck(&mut self, now: Instant, id: JobId) {
        let affords_one = self.cx.workers_lost() < self.cx.config.limits.stuck_jobs_max;
        let Some(job) = self.cx.jobs.open.get_mut(&id) else { return };
        job.armed = None;
        if job.place == Place::Async {
            // A future can be dropped; it leaves nothing behind.
            if let Some(job) = self.cx.jobs.open.remove(&id) {
                self.cx.vacate(&job);
            }
            self.cx.effects.push_back(Effect::Abandon { job: id, replace_worker: false });
        } else if affords_one {
            job.is_stuck = true;
            self.cx.jobs.stuck += 1;
            let (holds_processor, is_local) = (job.holds_processor, job.what.is_local());
            self.cx.jobs.processors_busy -= u32::from(holds_processor);
            self.cx.jobs.locals_busy -= u32::from(holds_processor && is_local);
            self.cx.effects.push_back(Effect::Abandon { job: id, replace_worker: true });
        } else {
            return;
        }
        self.cx.effects.push_back(Effect::Trace(TracePoint::Stuck { job: id }));
        self.dispatch(now);
    }
}
