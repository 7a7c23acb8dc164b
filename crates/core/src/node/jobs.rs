//! Gives work to processors, and passes ended jobs on to their wave, call or stream.

use super::Node;
use crate::call::jobs::{What, is_wanted};
use crate::effect::{Effect, Place, TracePoint};
use crate::error::JobError;
use crate::id::JobId;
use crate::message::Payload;
use crate::schedule::queue::{FoldTurn, Turn};
use crate::time::{Duration, Instant};
use crate::timer::Wake;
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
                Turn::Fold(FoldTurn { tag, kind, epoch }) => {
                    if let Some(mut wave) = self.waves.open.remove(&tag) {
                        if wave.locals.epoch == epoch {
                            wave.take_fold_turn(&mut self.cx, now, kind);
                        }
                        self.waves.open.insert(tag, wave);
                    }
                    continue;
                }
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
            Turn::Job(job) => waves.open.find(&job.tag).is_some_and(|wave| is_wanted(wave, job)),
            Turn::Fold(FoldTurn { tag, epoch, .. }) => {
                waves.open.find(tag).is_some_and(|wave| wave.locals.epoch == *epoch)
            }
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
            wave.locals.handed_out.retain(|open| *open != id);
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

    /// Tells the driver to end the jobs of waves that have ended. A job that does not end soon counts as stuck.
    pub(crate) fn cancel_unwanted(&mut self, now: Instant) {
        let Self { cx, waves, .. } = self;
        let patience_ends = now + cx.config.tuning.stuck_after.into();
        let mut ids = core::mem::take(&mut cx.jobs.unwanted);
        ids.retain(|&id| {
            let Some(job) = cx.jobs.open.get_mut(&id).filter(|job| !job.is_stuck) else { return false };
            if job.local.is_some_and(|local| waves.wants_slices(local)) {
                return true;
            }
            let ends_at = job.armed.map_or(patience_ends, |at| at.min(patience_ends));
            cx.timers.rearm(&mut job.armed, Some(ends_at), Wake::Job(id));
            cx.effects.push_back(Effect::Cancel { job: id });
            false
        });
        cx.jobs.unwanted = ids;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::CallOptions;
    use crate::config::{Kind, NodeConfig, Placement, Tuning};
    use crate::id::NodeId;
    use crate::input::Input;
    use crate::limits::Limits;
    use crate::membership::card::{MemberCard, ServiceCard};
    use crate::message::{Message, Request};
    use crate::partitions::PartitionSet;
    use alloc::boxed::Box;
    use bytes::Bytes;

    const CLIENT: u64 = 7;

    fn client() -> NodeId {
        NodeId::new(([0, 0, 0, 0], 0).into(), CLIENT)
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    /// A node with one processor and two partitions, whose locals run on workers.
    fn node() -> Node<Bytes> {
        let mut card = MemberCard::new(NodeId::new(([127, 0, 0, 1], 7700).into(), 1));
        let service =
            ServiceCard { partitions: PartitionSet::first(2), total: 2, declared: true, placed: None };
        card.services.insert("s".into(), service);
        card.processors = 1;
        let config = NodeConfig {
            card,
            kinds: alloc::vec![Kind {
                name: "s/sum".into(),
                placement: Placement::Pool,
                is_sliceable: true,
                gives_slices: true,
                folds_in_pairs: false,
            }],
            tuning: Tuning::LAN,
            limits: Limits::DEFAULT,
            shares: Default::default(),
            pushed: Default::default(),
            placed: Default::default(),
            seed: 1,
        };
        Node::new(config, Instant::START)
    }

    fn request(node: &mut Node<Bytes>, id: u64, slices: u32) {
        let options = CallOptions { deadline: Duration::from_secs(600), slices, ..CallOptions::default() };
        let request = Request { id, name: "s/sum".into(), params: Bytes::new().into(), options };
        let message = Message::Request(Box::new(request));
        node.handle_input(at(0), Input::Message { from: client(), message });
    }

    /// The jobs that are handed out, and the jobs that are cancelled.
    fn effects(node: &mut Node<Bytes>) -> (Vec<u64>, Vec<u64>) {
        let (mut run, mut cancelled) = (Vec::new(), Vec::new());
        while let Some(effect) = node.poll_effect() {
            match effect {
                Effect::Run(job) => run.push(job.id.0),
                Effect::Cancel { job } => cancelled.push(job.0),
                _ => {}
            }
        }
        (run, cancelled)
    }

    fn end(node: &mut Node<Bytes>, id: u64) {
        let result = Err(JobError::Failed("cancelled".into()));
        node.handle_input(at(20), Input::JobDone { job: JobId(id), result, cost: Duration::ZERO });
    }

    #[test]
    fn cancelled_call_ends_its_jobs_and_the_next_call_runs() {
        let mut node = node();
        request(&mut node, 1, 1);
        assert_eq!(effects(&mut node), ([1].into(), [].into()), "one processor");
        request(&mut node, 2, 1);
        assert!(effects(&mut node).0.is_empty());
        node.handle_input(
            at(10),
            Input::Message { from: client(), message: Message::CancelRequest { id: 1 } },
        );
        assert_eq!(effects(&mut node), ([].into(), [1].into()), "it holds its processor until it ends");
        end(&mut node, 1);
        assert_eq!(effects(&mut node), ([2].into(), [].into()));
    }

    #[test]
    fn calls_of_a_vanished_client_end_their_jobs() {
        let mut node = node();
        request(&mut node, 1, 1);
        effects(&mut node);
        node.handle_input(at(10), Input::Lost { peer: client() });
        assert_eq!(effects(&mut node).1, [1]);
    }

    #[test]
    fn cancelled_job_that_goes_on_is_stuck_long_before_its_deadline() {
        let mut node = node();
        request(&mut node, 1, 1);
        request(&mut node, 2, 1);
        node.handle_input(
            at(10),
            Input::Message { from: client(), message: Message::CancelRequest { id: 1 } },
        );
        effects(&mut node);
        node.handle_timeout(at(11) + node.cx.config.tuning.stuck_after.into());
        assert_eq!(effects(&mut node).0, [2]);
        assert_eq!(node.open_work().jobs_stuck, 1);
    }

    #[test]
    fn sliced_local_is_cancelled_when_no_slice_is_wanted() {
        let mut node = node();
        request(&mut node, 1, 3);
        assert_eq!(effects(&mut node).0.len(), 1);
        node.handle_input(
            at(10),
            Input::Message { from: client(), message: Message::CancelRequest { id: 1 } },
        );
        assert_eq!(effects(&mut node).1, [1]);
    }
}
