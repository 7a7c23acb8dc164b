//! The locals of sliced calls: one run computes a partition's partial for all slices.
//!
//! A node has a wave for each slice that it is asked for, and all of them need a slice of the same partial.
//! So the first wave queues the local, and waves that arrive in the meantime wait for its result. A slice
//! that no wave has asked for yet is kept until a wave asks, or until the call's deadline. Kept slices count
//! as held bytes. If there is no room, they are not kept, and the local runs again.
//!
//! ```text
//!   Call, slice 0 ──▶ want ──▶ Run(slices of 7) ─────────────▶ made ──▶ slice 0 of 7, a part of its wave
//!   Call, slice 1 ──▶ want (being made)                          ├────▶ slice 1 of 7, a part of its wave
//!   Call, slice 2 ─────────────────────────────── want (made) ◀──┘
//! ```

use crate::call::jobs::{OpenJob, What};
use crate::effect::Work;
use crate::error::{JobError, Reason};
use crate::id::{PartitionId, Tag, WaveId};
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::schedule::accounts::AccountId;
use crate::schedule::queue::Pending;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::wave::contributors::{Part, Taken};
use crate::wave::state::Wave;
use crate::wave::table::{Desk, Waves};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The call, named by its first slice's wave, and the partition.
pub(crate) type LocalKey = (WaveId, PartitionId);

/// A partial that is computed for several waves.
#[derive(Debug)]
pub(crate) struct SlicedLocal<P> {
    /// The slices that no wave has fetched; `None` while they are being computed.
    made: Option<Vec<Option<P>>>,
    of: u32,
    account_id: AccountId,
    armed: Option<Instant>,
}

impl<P: Payload> SlicedLocal<P> {
    fn bytes(&self) -> usize {
        self.made.iter().flatten().flatten().map(Payload::len).sum()
    }

    fn is_fetched(&self) -> bool {
        self.made.as_ref().is_some_and(|slices| slices.iter().all(Option::is_none))
    }
}

impl<P: Payload> Wave<P> {
    /// A wave needs its slice of a partition's partial. It takes the slice, waits for it, or queues the
    /// local.
    pub(crate) fn want_slice(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        kind: u32,
        partition: PartitionId,
    ) {
        let key = (self.ask.slice.first(self.tag.wave), partition);
        let is_being_made = desk.waves.sliced.get(&key).is_some_and(|local| local.made.is_none());
        if is_being_made {
            return;
        }
        if let Some(slice) = desk.waves.fetch_slice(desk.cx, key, self.ask.slice.index()) {
            return self.take_own(desk.cx, partition, slice);
        }
        desk.waves.forget_slices(desk.cx, key);
        let (of, params) = (self.ask.slice.of(), self.ask.params.of(partition).clone());
        let job = Pending {
            tag: self.tag,
            kind,
            work: Work::Slices { partition, of, params },
            what: What::Slices(partition),
            epoch: self.locals.epoch,
        };
        if desk.cx.queue.push_local(job).is_err() {
            return self.refuse_local(desk.cx, partition);
        }
        let mut local = SlicedLocal { made: None, of, account_id: self.ask.account_id, armed: None };
        let until = self.ask.deadline_at.max(now + Duration::from_micros(1));
        desk.cx.timers.rearm(&mut local.armed, Some(until), Wake::Slices(key.0, partition));
        desk.waves.sliced.insert(key, local);
    }

    /// Adds the partial of one of this node's partitions.
    pub(crate) fn take_own(&mut self, cx: &mut Context<P>, partition: PartitionId, payload: P) {
        let contributors = PartitionSet::alone(partition);
        self.close_locals(&contributors);
        self.losses.note_part(&contributors);
        if self.claim(Part { payload, contributors }) == Taken::Overlaps {
            cx.counters.waves.partials_overlapping += 1;
        }
    }
}

impl<P: Payload> Waves<P> {
    /// The call's deadline has passed.
    pub(crate) fn expire_slices(&mut self, cx: &mut Context<P>, key: LocalKey) {
        if let Some(local) = self.sliced.get_mut(&key) {
            local.armed = None;
        }
        self.forget_slices(cx, key);
    }

    fn forget_slices(&mut self, cx: &mut Context<P>, key: LocalKey) {
        let Some(mut local) = self.sliced.remove(&key) else { return };
        cx.credit.hold(local.account_id, local.bytes(), 0);
        cx.timers.rearm(&mut local.armed, None, Wake::Slices(key.0, key.1));
    }

    fn fetch_slice(&mut self, cx: &mut Context<P>, key: LocalKey, index: u32) -> Option<P> {
        let local = self.sliced.get_mut(&key)?;
        let slice = local.made.as_mut()?.get_mut(index as usize)?.take()?;
        cx.credit.hold(local.account_id, slice.len(), 0);
        if local.is_fetched() {
            self.forget_slices(cx, key);
        }
        Some(slice)
    }

    /// Finds a wave that still needs a queued sliced local, and assigns the job to it. Returns `None`, and
    /// forgets the local, if no wave needs it any longer.
    pub(crate) fn claim_slices(&mut self, cx: &mut Context<P>, job: &mut Pending<P>) -> Option<()> {
        let Work::Slices { partition, of, .. } = job.work else { return Some(()) };
        let WaveId { origin, sequence } = job.tag.wave;
        let earliest = WaveId { origin, sequence: sequence.saturating_sub(u64::from(of) - 1) };
        let of_call = self.sliced.range((earliest, 0)..=(job.tag.wave, PartitionId::MAX));
        let covers = |first: WaveId, local: &SlicedLocal<P>| sequence - first.sequence < u64::from(local.of);
        let (&key, _) =
            of_call.into_iter().find(|&(&(first, of), local)| of == partition && covers(first, local))?;
        let Some(&tag) = self.waves_wanting(key, of).first() else {
            self.forget_slices(cx, key);
            return None;
        };
        job.tag = tag;
        job.epoch = self.open.find(&tag)?.locals.epoch;
        Some(())
    }

    /// True if an open wave waits for the slices of a local.
    pub(crate) fn wants_slices(&self, key: LocalKey) -> bool {
        self.sliced.get(&key).is_some_and(|local| !self.waves_wanting(key, local.of).is_empty())
    }

    /// Open waves of the call that do not have their slice of the partition yet.
    fn waves_wanting(&self, (first, partition): LocalKey, of: u32) -> Vec<Tag> {
        let last = WaveId { sequence: first.sequence.wrapping_add(u64::from(of) - 1), ..first };
        let waves = Tag { wave: first, branch: 0 }..=Tag { wave: last, branch: u32::MAX };
        let wants = |wave: &Wave<P>| wave.locals.open.contains(partition);
        self.open.range(waves).filter(|&wave| wants(wave)).map(|wave| wave.tag).collect()
    }

    /// Keeps slices that no wave has asked for yet, if there is room.
    fn keep_unfetched(&mut self, cx: &mut Context<P>, key: LocalKey) {
        let are_many = self.sliced.len() > cx.config.limits.waves_open_max;
        let is_too_much = |local: &SlicedLocal<P>| {
            let is_full = cx.credit.held_of(local.account_id) > cx.credit.room_of(local.account_id);
            local.made.is_some() && (is_full || are_many)
        };
        if self.sliced.get(&key).is_some_and(is_too_much) {
            self.forget_slices(cx, key);
        }
    }
}

impl<P: Payload> Desk<'_, P> {
    /// A sliced local has ended: each waiting wave gets its slice, or the reason why there is none.
    pub(crate) fn take_slices(&mut self, now: Instant, job: &OpenJob, result: Result<Vec<P>, JobError>) {
        let Some(key) = job.local else { return };
        let Some(of) = self.waves.sliced.get(&key).filter(|local| local.made.is_none()).map(|local| local.of)
        else {
            return;
        };
        let result = result.and_then(|slices| match slices.len() {
            made if made == of as usize => Ok(slices),
            made => Err(JobError::Failed(Arc::from(alloc::format!("split made {made} slices of {of}")))),
        });
        let waiting = self.waves.waves_wanting(key, of);
        let error = match result {
            Ok(slices) => {
                let account_id = self.cx.queue.accounts.of_kind(job.kind);
                self.cx.credit.hold(account_id, 0, slices.iter().map(Payload::len).sum());
                self.cx.note_held(account_id);
                let made = Some(slices.into_iter().map(Some).collect());
                self.waves.sliced.entry(key).and_modify(|local| local.made = made);
                None
            }
            Err(error) => {
                self.waves.forget_slices(self.cx, key);
                self.cx.counters.waves.locals_failed += 1;
                Some(error)
            }
        };
        for tag in waiting {
            let Some(mut wave) = self.waves.open.remove(&tag) else { continue };
            wave.tale.timing.first_job_at.get_or_insert(job.started_at);
            wave.tale.timing.local += job.started_at.until(now);
            wave.lighten(self.cx, job.kind, job.what);
            match &error {
                Some(error) => wave.lose_own(self.cx, PartitionSet::alone(key.1), reason_of(error.clone())),
                None => match self.waves.fetch_slice(self.cx, key, wave.ask.slice.index()) {
                    Some(slice) => wave.take_own(self.cx, key.1, slice),
                    // Another branch of the same wave has taken the slice. This is rare, and the local runs
                    // again.
                    None => wave.want_slice(self, now, job.kind, key.1),
                },
            }
            wave.decide(self, now);
        }
        self.waves.keep_unfetched(self.cx, key);
    }
}

/// The reason for a local without a result.
pub(crate) fn reason_of(error: JobError) -> Reason {
    match error {
        // A local has no partials that it could refuse.
        JobError::Failed(text) | JobError::RefusedA(text) | JobError::RefusedB(text) => {
            Reason::LocalFailed(text)
        }
        JobError::Panicked(text) => Reason::LocalPanicked(text),
        JobError::InvalidParams(text) => Reason::InvalidParams(text),
    }
}
