//! The end of a sliced call: its slices arrive one by one, and the front joins them.
//!
//! Each slice is a wave that ends like any other. A partition counts as contributed if it is in every slice.
//! If it is missing from a single slice it is missing, although the value may contain the other slices of its
//! partial. The call fails as soon as too much is missing, and its other slices are abandoned. When all
//! slices have arrived, a job of the aggregation joins them, because core does not look into payloads. The
//! job has the rest of the deadline.

use crate::call::CallOptions;
use crate::call::caller::{CALLER_BRANCH, Gained, OpenCall};
use crate::call::table::Calls;
use crate::config::Kind;
use crate::effect::{Effect, Job, Place, Work};
use crate::error::{CallError, JobError, Missing, Reason};
use crate::id::{JobId, NodeId, Tag, WaveId};
use crate::message::{Payload, Report};
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::wave::losses::{list, note};
use crate::wave::state::Wave;
use crate::wave::table::Desk;
use alloc::vec::Vec;

/// Joining gets at most one part in this many of a call's time, for any expected cost.
const JOINING_PART: u64 = 4;

/// The results of a sliced call.
#[derive(Debug)]
pub(crate) struct Gathered<P> {
    /// By slice; `None` if the slice has not arrived, or has arrived without a value.
    values: Vec<Option<P>>,
    came: usize,
    /// The partitions that are in every slice so far.
    contributed: PartitionSet,
    missing: Vec<Missing>,
    reports: Vec<Report>,
    /// Everything that went wrong, repaired or not.
    losses: Vec<Missing>,
    given_up: Vec<NodeId>,
    joining: Option<JobId>,
}

impl<P> Gathered<P> {
    pub(crate) fn is_joining(&self) -> bool {
        self.joining.is_some()
    }
}

impl<P: Payload> Gathered<P> {
    pub(crate) fn new(asked: &PartitionSet, slices: u32) -> Self {
        Self {
            values: (0..slices).map(|_| None).collect(),
            came: 0,
            contributed: asked.clone(),
            missing: Vec::new(),
            reports: Vec::new(),
            losses: Vec::new(),
            given_up: Vec::new(),
            joining: None,
        }
    }

    /// Adds a slice.
    fn take(&mut self, wave: &mut Wave<P>, missing: Vec<Missing>, missing_max: usize) {
        self.came += 1;
        self.values[wave.ask.slice.index() as usize] =
            wave.parts.resting().first().map(|part| part.payload.clone());
        for Missing { partitions, node, reason } in missing {
            let fresh = partitions.intersection(&self.contributed);
            self.contributed = self.contributed.difference(&fresh);
            if !fresh.is_empty() {
                list(&mut self.missing, Missing { partitions: fresh, node, reason }, missing_max);
            }
        }
        self.reports.append(&mut wave.tale.reports);
        let mut trouble = wave.losses.take();
        self.given_up.append(&mut trouble.given_up);
        trouble.noted.into_iter().for_each(|loss| note(&mut self.losses, loss, missing_max));
    }

    /// The value of every slice; `None` if one has no value.
    fn take_values(&mut self) -> Option<Vec<P>> {
        core::mem::take(&mut self.values).into_iter().collect()
    }
}

impl<P: Payload> Context<P> {
    /// Rejects slices if the aggregation cannot be cut, or if this front cannot join them.
    pub(crate) fn check_slices(&self, name: &str, options: &CallOptions) -> Result<(), CallError> {
        let kind = self.kind_of(name).map(|kind| &self.config.kinds[kind as usize]);
        let limit = match (kind, options.only_slice) {
            _ if options.slices == 1 => return Ok(()),
            (Some(Kind { is_sliceable: true, .. }), None) => return Ok(()),
            (Some(Kind { gives_slices: true, .. }) | None, Some(_)) => return Ok(()),
            (Some(_), None) => "1, since the aggregation does not split its partials",
            (Some(_), Some(_)) => "1, since the aggregation does not make its partials in slices",
            (None, None) => "1, since this front lacks the aggregation and cannot join slices",
        };
        Err(CallError::bad_field("slices", options.slices, limit))
    }
}

impl<P: Payload> Calls<P> {
    /// A slice of a call has ended.
    pub(crate) fn gather(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        mut call: OpenCall<P>,
        wave: &mut Wave<P>,
        missing: Vec<Missing>,
    ) {
        let first = wave.ask.slice.first(wave.tag.wave);
        let Some(gathered) = call.gathered.as_deref_mut() else { return };
        gathered.take(wave, missing, desk.cx.config.limits.missing_max);
        let lost = call.asked.len() - gathered.contributed.len();
        let is_whole = gathered.came == wave.ask.slice.of() as usize;
        if lost > call.losses_max as usize {
            desk.drop_slices(first, &call.options);
            return self.end_sliced(desk.cx, now, call, None);
        }
        if !is_whole {
            self.open.insert(first, call);
            return;
        }
        match gathered.take_values().zip(wave.ask.kind) {
            Some((parts, kind)) => {
                let work = Work::Join { parts, params: wave.ask.params.of_reduce().clone() };
                self.join_slices(desk.cx, now, first, call, kind, work);
            }
            None => self.end_sliced(desk.cx, now, call, None),
        }
    }

    fn join_slices(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        first: WaveId,
        mut call: OpenCall<P>,
        kind: u32,
        work: Work<P>,
    ) {
        let deadline_at = call.deadline_at();
        let id = cx.begin_join(now, first, kind, deadline_at);
        if let Some(gathered) = call.gathered.as_deref_mut() {
            gathered.joining = Some(id);
        }
        cx.timers.rearm(&mut call.armed, Some(deadline_at.max(now)), Wake::Polls(first));
        self.open.insert(first, call);
        cx.effects.push_back(Effect::Run(Job { id, kind, work, place: Place::Worker }));
    }

    /// The slices have been joined, or could not be.
    pub(crate) fn handle_joined(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        id: JobId,
        first: WaveId,
        result: Result<P, JobError>,
    ) {
        let is_awaited =
            |call: &OpenCall<P>| call.gathered.as_ref().is_some_and(|gathered| gathered.joining == Some(id));
        if !self.open.get(&first).is_some_and(is_awaited) {
            return;
        }
        let Some(mut call) = self.open.remove(&first) else { return };
        cx.timers.rearm(&mut call.armed, None, Wake::Polls(first));
        match result {
            Ok(value) => self.end_sliced(cx, now, call, Some(value)),
            Err(error) => {
                self.end_unjoined(cx, now, call, Reason::ReduceFailed(error.into_text()));
            }
        }
    }

    /// The deadline has passed while a call's slices were being joined.
    pub(crate) fn give_up_joining(&mut self, cx: &mut Context<P>, now: Instant, call: OpenCall<P>) {
        self.end_unjoined(cx, now, call, Reason::Late);
    }

    /// Ends a call whose slices have all arrived but could not be joined.
    fn end_unjoined(&mut self, cx: &mut Context<P>, now: Instant, mut call: OpenCall<P>, reason: Reason) {
        if let Some(gathered) = call.gathered.as_deref_mut() {
            let partitions = core::mem::take(&mut gathered.contributed);
            let loss = Missing { partitions, node: Some(cx.me), reason };
            list(&mut gathered.missing, loss, cx.config.limits.missing_max);
        }
        self.end_sliced(cx, now, call, None);
    }

    fn end_sliced(&mut self, cx: &mut Context<P>, now: Instant, mut call: OpenCall<P>, value: Option<P>) {
        let Some(mut gathered) = call.gathered.take() else { return };
        call.note_end(cx, now, &gathered.losses, &gathered.missing);
        cx.judge_relays(now, &call.relays, &gathered.given_up, gathered.missing.is_empty());
        let explain = call.options.explain;
        let elapsed = call.started_at.until(now);
        let report = explain.then(|| {
            let rack = cx.config.card.rack.clone();
            let (queue, local, reduce) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
            let (wait, total) = (elapsed, elapsed);
            let (node, partitions) = (cx.me, PartitionSet::new());
            let children = core::mem::take(&mut gathered.reports);
            alloc::boxed::Box::new(Report {
                node,
                rack,
                partitions,
                queue: queue.into(),
                local: local.into(),
                reduce: reduce.into(),
                wait: wait.into(),
                total: total.into(),
                replaced: Vec::new(),
                children,
            })
        });
        let Gathered { contributed, missing, .. } = *gathered;
        self.conclude(cx, now, call, Gained { contributed, missing, value, report });
    }
}

impl<P: Payload> Desk<'_, P> {
    /// Abandons the slices of a call that are still open.
    pub(crate) fn drop_slices(&mut self, first: WaveId, options: &CallOptions) {
        for slice in options.asked_slices() {
            let tag = Tag { wave: slice.wave(first), branch: CALLER_BRANCH };
            if let Some(mut own) = self.waves.open.remove(&tag) {
                own.drop_wave(self);
            }
        }
    }
}

impl<P: Payload> OpenCall<P> {
    /// The part of a call's time that its slices must leave for joining.
    pub(crate) fn joining_time(&self, cx: &Context<P>) -> Duration {
        let slices = self.options.slices;
        let fold = cx.reduce_estimate(cx.kind_of(&self.name), &self.name);
        fold.mul_f64(f64::from(slices - 1)).min(self.options.deadline.div(JOINING_PART))
    }
}
