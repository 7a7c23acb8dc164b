//! How a call chooses its replicas: the polls before, the choice, and the results that the front remembers.
//!
//! [`crate::replica`] has the policies. This module passes them their data and reports the results to them.
//! All of it applies only to calls that have a choice. If each partition of a call has one replica, the call
//! goes directly from the request to the tree.
//!
//! The sequence number of a call's poll is the call's number. The sequence number of a probe contains the
//! time at which it was sent. The number 0, which no call has, marks an announcement that answers no poll.

use crate::call::caller::OpenCall;
use crate::call::repair::service_of;
use crate::call::table::Calls;
use crate::call::trees::Formed;
use crate::error::Missing;
use crate::id::{NodeId, WaveId};
use crate::load::figure::LoadFigure;
use crate::load::launches::Launch;
use crate::membership::service::ServiceIndex;
use crate::message::{Partial, Payload};
use crate::node::context::Context;
use crate::replica::ReplicaPolicy;
use crate::replica::announced::Announced;
use crate::replica::choice::Choice;
use crate::replica::least_loaded::Pace;
use crate::replica::policies::Choosing;
use crate::replica::polled::{Poll, Verdict};
use crate::replica::prequal::{probe_sequence, probed_at};
use crate::seat::Parent;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::wave::state::Wave;
use crate::wave::table::Desk;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The least interval at which a front asks for the loads of a wave's nodes. In that time a figure ages by a
/// fraction of a job, and when thousands of waves run, most need not carry loads.
const NEWS_EVERY: Duration = Duration::from_millis(10);

/// The sequence number of a figure that answers no poll.
pub(crate) const UNASKED: u64 = 0;

/// The partitions that a call asks for, each with its replicas. It is a macro because it borrows some fields
/// of the node and leaves the others free, and because its type has no name.
macro_rules! wanted {
    ($sight:expr, $call:expr) => {{
        let mut walk = $sight.view().service(service_of(&$call.name)).map(ServiceIndex::walk);
        $call.asked.iter().map(move |partition| {
            (partition, walk.as_mut().map_or(&[] as &[NodeId], |walk| walk.to(partition)))
        })
    }};
}

impl<P: Payload> OpenCall<P> {
    /// True if some partition of the call has several replicas.
    pub(crate) fn has_choice(&self, cx: &Context<P>) -> bool {
        wanted!(cx.sight, self).any(|(_, replicas)| replicas.len() > 1)
    }

    /// The poll that the call's policy needs, if any.
    pub(crate) fn begin_poll(&self, cx: &mut Context<P>, now: Instant) -> Option<Poll> {
        if !self.has_choice {
            return None;
        }
        let policy = self.policy_of(cx);
        if !policy.polls() {
            return None;
        }
        let timeout = cx.config.tuning.poll_timeout;
        let Context { sight, random, loads, .. } = cx;
        let slow = loads.speeds.for_call(&self.name, now, random);
        loads.replicas.poll(policy, wanted!(sight, self), (timeout.into(), slow), now, random)
    }

    fn policy_of(&self, cx: &Context<P>) -> ReplicaPolicy {
        self.options.policy.unwrap_or(cx.config.tuning.replica_policy)
    }

    /// Chooses the call's replicas.
    pub(crate) fn choose(&self, cx: &mut Context<P>, now: Instant, poll: Option<&Poll>) -> Choice {
        if !self.has_choice {
            return crate::replica::random::choose(wanted!(cx.sight, self), &mut cx.random);
        }
        cx.settle_loads();
        let policy = self.policy_of(cx);
        let local_ms = cx.local_estimate(cx.kind_of(&self.name), &self.name).as_millis_f64();
        let own = (cx.me, cx.load_figure());
        let Context { sight, random, loads, .. } = cx;
        let wanted = wanted!(sight, self);
        let slow = match poll {
            Some(_) => None,
            None if policy.looks_at_times() => loads.speeds.for_call(&self.name, now, random),
            None => None,
        };
        let announced = Announced { loads: &loads.table, own, now };
        let pace = Pace { local_ms, excess: slow.as_ref().or(poll.and_then(Poll::excess)) };
        let choosing = Choosing { policy, service: service_of(&self.name), pace, announced };
        loads.replicas.choose(choosing, wanted, poll, random)
    }

    /// The call was launched: notes which partitions were placed where, and sends probes for later calls.
    pub(crate) fn note_choice(&mut self, cx: &mut Context<P>, now: Instant, choice: &Choice) {
        if !self.has_choice {
            return;
        }
        self.placed = cx.loads.replicas.launched(choice);
        let policy = self.policy_of(cx);
        let Context { sight, random, loads, .. } = cx;
        let targets = loads.replicas.probe(policy, wanted!(sight, self), now, random);
        for node in targets {
            cx.send_poll(node, probe_sequence(now));
        }
    }

    /// Adds the work given to the trees' nodes to their load figures.
    pub(crate) fn note_launch(&self, cx: &mut Context<P>, now: Instant, formed: &Formed) {
        if !cx.config.tuning.anticipate {
            return;
        }
        let kind = cx.kind_of(&self.name);
        let (local, reduce) = (cx.local_estimate(kind, &self.name), cx.reduce_estimate(kind, &self.name));
        let launch = Launch { at: now, local, reduce, shares: Arc::clone(&formed.shares) };
        if cx.loads.table.launched(launch) {
            cx.settle_loads();
        }
    }

    /// The call has ended: reports to the policies how its nodes have done.
    pub(crate) fn note_end(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        losses: &[Missing],
        missing: &[Missing],
    ) {
        if !self.has_choice {
            return;
        }
        let placed = core::mem::take(&mut self.placed);
        if self.options.push.is_some() {
            // If a worker does not push, the node that it is attached to is not at fault.
            cx.loads.replicas.cancelled(placed);
        } else {
            cx.loads.replicas.ended(placed, losses.iter(), missing, now);
        }
    }
}

impl<P: Payload> Calls<P> {
    /// A replica reports how busy it is. Answers from nodes outside the cluster, or with a number that was
    /// never sent, leave no row in the load table.
    ///
    /// # Errors
    /// The problem with the answer. Nothing has changed.
    pub(crate) fn handle_poll_answer(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        node: NodeId,
        sequence: u64,
        figure: LoadFigure,
    ) -> Result<(), &'static str> {
        let was_sent = match probed_at(sequence) {
            Some(sent_at) => sent_at <= now,
            None => sequence <= self.started,
        };
        if !was_sent {
            return Err("it answers a poll that this node never sent");
        }
        if !desk.cx.view().contains(&node) {
            // The node may have left since it was polled.
            desk.cx.counters.polls_late += u64::from(sequence != UNASKED);
            return Ok(());
        }
        desk.cx.loads.table.learn(node, figure, now);
        if sequence == UNASKED {
            return Ok(());
        }
        if let Some(sent_at) = probed_at(sequence) {
            desk.cx.loads.delays.learn(node, sent_at.until(now));
            if sent_at.until(now) <= desk.cx.config.tuning.poll_timeout.into() {
                desk.cx.loads.replicas.handle_probe_answer(node, figure, now, &mut desk.cx.random);
            } else {
                desk.cx.counters.polls_late += 1;
            }
            return Ok(());
        }
        let wave = WaveId { origin: desk.cx.me.generation, sequence };
        let Some(poll) = self.open.get_mut(&wave).and_then(|call| call.polling.as_mut()) else {
            let is_waived = |call: &OpenCall<P>| call.policy_of(desk.cx) == ReplicaPolicy::PrequalInline;
            desk.cx.counters.polls_late += u64::from(!self.open.get(&wave).is_some_and(is_waived));
            return Ok(());
        };
        if poll.0.handle_answer(node, figure, now) == Verdict::Late {
            desk.cx.counters.polls_late += 1;
        }
        if poll.0.is_complete() {
            self.handle_polls_over(desk, now, wave);
        }
        Ok(())
    }

    /// A peer is gone: calls no longer wait for its answer to a poll.
    pub(crate) fn give_up_polls(&mut self, desk: &mut Desk<'_, P>, now: Instant, peer: NodeId) {
        let mut complete = Vec::new();
        for (wave, call) in &mut self.open {
            let Some((poll, _)) = &mut call.polling else { continue };
            poll.handle_lost(peer);
            if poll.is_complete() {
                complete.push(*wave);
            }
        }
        complete.into_iter().for_each(|wave| self.handle_polls_over(desk, now, wave));
    }

    /// All answers have arrived, or the call waits for no more.
    pub(crate) fn handle_polls_over(&mut self, desk: &mut Desk<'_, P>, now: Instant, wave: WaveId) {
        let Some(mut call) = self.open.remove(&wave) else { return };
        desk.cx.timers.rearm(&mut call.armed, None, Wake::Polls(wave));
        match call.polling.take() {
            Some((poll, params)) => self.launch(desk, now, wave, call, Some(&poll), &params),
            None if call.is_joining() => self.give_up_joining(desk.cx, now, call),
            None => drop(self.open.insert(wave, call)),
        }
    }

    /// True if this call's wave must collect the loads of all nodes that answer, because enough time has
    /// passed since a wave last did.
    pub(crate) fn asks_for_news(&mut self, cx: &mut Context<P>, now: Instant) -> bool {
        let is_due = self.news_asked_at.is_none_or(|at| at.until(now) >= NEWS_EVERY);
        let asks = cx.config.tuning.waves_bear_loads && is_due;
        if asks {
            self.news_asked_at = Some(now);
        }
        asks
    }

    /// Records the latency of a node whose partial has arrived, if the node answered the caller directly,
    /// completely, and only for itself.
    pub(crate) fn note_answer(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        wave: &Wave<P>,
        from: NodeId,
        partial: &Partial<P>,
    ) {
        let is_whole =
            partial.last && partial.missing.is_empty() && wave.losses.tries.partitions().is_empty();
        if wave.seat.parent != Parent::Top || !is_whole {
            return;
        }
        let is_alone = |at: usize| wave.seat.children[at].is_leaf();
        if wave.seat.children.find(from, partial.tag.branch).is_some_and(is_alone)
            && self.open.get(&wave.tag.wave).is_some_and(|call| call.has_choice)
        {
            cx.loads.replicas.observe(from, wave.tale.timing.arrived_at.until(now), now);
        }
    }
}
