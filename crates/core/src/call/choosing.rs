//! Which replicas a call asks: polls before, the choice, and what the front remembers after.
//!
//! The policies are [`crate::replica`]'s. Here they are given what they look at, and told what became of it.
//! All of it is for calls that have a choice: a call whose partitions have one replica each goes straight from
//! the request to the tree.
//!
//! A poll of a call bears the call's number as its sequence; a probe, when it was sent; and 0, which is no
//! call's number, an announcement that nobody asked for.

use crate::call::caller::OpenCall;
use crate::call::repair::service_of;
use crate::error::Missing;
use crate::id::{NodeId, WaveId};
use crate::load::figure::LoadFigure;
use crate::message::{Partial, Payload};
use crate::node::Node;
use crate::replica::ReplicaPolicy;
use crate::replica::announced::Announced;
use crate::replica::choice::Choice;
use crate::replica::policies::Choosing;
use crate::replica::polled::{Poll, Verdict};
use crate::replica::prequal::{probe_sequence, probed_at};
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use crate::tree::Tree;
use crate::wave::state::{Child, Parent, Wave};

/// A front asks for the loads of a wave's nodes no more often than this: a figure ages by a fraction of a job in
/// the meantime, and waves that come by the thousand bear no more than they must.
const NEWS_EVERY: Duration = Duration::from_millis(10);

/// The sequence number of a figure that answers no poll.
pub(crate) const UNASKED: u64 = 0;

/// The partitions that a call asks, each with its replicas. A macro, since it borrows some fields of the node and
/// leaves the others free, and its type has no name.
macro_rules! wanted {
    ($sight:expr, $call:expr) => {{
        let index = $sight.view().service(service_of(&$call.name));
        $call.asked.iter().map(move |partition| {
            (partition, index.map_or(&[] as &[NodeId], |index| index.providers(partition)))
        })
    }};
}

impl<P: Payload> Node<P> {
    /// True when some partition of the call has several replicas.
    pub(crate) fn has_choice(&self, call: &OpenCall<P>) -> bool {
        wanted!(self.sight, call).any(|(_, replicas)| replicas.len() > 1)
    }

    /// The poll that the call's policy asks for, if any.
    pub(crate) fn begin_poll(&mut self, now: Instant, call: &OpenCall<P>) -> Option<Poll> {
        if !call.has_choice {
            return None;
        }
        let policy = self.policy_of(call);
        let timeout = self.config.tuning.poll_timeout;
        let Self { sight, random, replicas, .. } = self;
        replicas.poll(policy, wanted!(sight, call), timeout, now, random)
    }

    fn policy_of(&self, call: &OpenCall<P>) -> ReplicaPolicy {
        call.options.policy.unwrap_or(self.config.tuning.replica_policy)
    }

    /// A replica says how busy it is.
    pub(crate) fn handle_poll_answer(
        &mut self,
        now: Instant,
        node: NodeId,
        sequence: u64,
        figure: LoadFigure,
    ) {
        self.loads.learn(node, figure, now);
        if sequence == UNASKED {
            return;
        }
        if let Some(sent_at) = probed_at(sequence) {
            if sent_at.until(now) <= self.config.tuning.poll_timeout {
                self.replicas.handle_probe_answer(node, figure, now, &mut self.random);
            } else {
                self.counters.polls_late += 1;
            }
            return;
        }
        let wave = WaveId { origin: self.me.generation, sequence };
        let Some(poll) = self.calls.get_mut(&wave).and_then(|call| call.polling.as_mut()) else {
            let is_waived = |call| self.policy_of(call) == ReplicaPolicy::PrequalInline;
            self.counters.polls_late += u64::from(!self.calls.get(&wave).is_some_and(is_waived));
            return;
        };
        if poll.0.handle_answer(node, figure, now) == Verdict::Late {
            self.counters.polls_late += 1;
        }
        if poll.0.is_complete() {
            self.handle_polls_over(now, wave);
        }
    }

    /// All answers are in, or no more are waited for.
    pub(crate) fn handle_polls_over(&mut self, now: Instant, wave: WaveId) {
        let Some(mut call) = self.calls.remove(&wave) else { return };
        self.timers.rearm(&mut call.armed, None, Wake::Polls(wave));
        match call.polling.take() {
            Some((poll, params)) => self.launch(now, wave, call, Some(&poll), &params),
            None if call.is_joining() => self.give_up_joining(now, call),
            None => drop(self.calls.insert(wave, call)),
        }
    }

    /// Chooses the call's replicas.
    pub(crate) fn choose(&mut self, now: Instant, call: &OpenCall<P>, poll: Option<&Poll>) -> Choice {
        let policy = self.policy_of(call);
        let local_ms = self.local_estimate(self.kind_of(&call.name), &call.name).as_millis_f64();
        let own = (self.me, self.load_figure());
        let Self { sight, random, replicas, loads, .. } = self;
        let wanted = wanted!(sight, call);
        if !call.has_choice {
            return crate::replica::random::choose(wanted, random);
        }
        let announced = Announced { loads, own, now };
        let choosing = Choosing { policy, service: service_of(&call.name), local_ms, announced };
        replicas.choose(choosing, wanted, poll, random)
    }

    /// The call is on its way by `trees`: notes what was placed where, and probes for the calls to come.
    pub(crate) fn note_launch(
        &mut self,
        now: Instant,
        call: &mut OpenCall<P>,
        choice: &Choice,
        trees: &[Tree],
    ) {
        if self.config.tuning.anticipate {
            self.anticipate(now, call, trees);
        }
        if !call.has_choice {
            return;
        }
        call.placed = self.replicas.launched(choice);
        let policy = self.policy_of(call);
        let Self { sight, random, replicas, .. } = self;
        let targets = replicas.probe(policy, wanted!(sight, call), now, random);
        for node in targets {
            self.send_poll(node, probe_sequence(now));
        }
    }

    /// True when this call's wave shall bring the loads of all who answer: those that are known are not quite
    /// fresh, and it is long enough since they were last asked for.
    pub(crate) fn asks_for_news(&mut self, now: Instant) -> bool {
        let is_due = self.news_asked_at.is_none_or(|at| at.until(now) >= NEWS_EVERY);
        let asks = self.config.tuning.waves_bear_loads && is_due;
        if asks {
            self.news_asked_at = Some(now);
        }
        asks
    }

    /// Adds what the trees' nodes were given to what they are known to have. This node's own load index has it as
    /// soon as the call comes round.
    fn anticipate(&mut self, now: Instant, call: &OpenCall<P>, trees: &[Tree]) {
        let kind = self.kind_of(&call.name);
        let (local, reduce) = (self.local_estimate(kind, &call.name), self.reduce_estimate(kind, &call.name));
        for tree in trees {
            let seats = tree.seats();
            for (at, seat) in seats.iter().enumerate().filter(|(_, seat)| seat.node != self.me) {
                let folded = seat.partitions.len() + children_of(&seats[at..at + seat.size as usize]);
                let work = local.mul_f64(seat.partitions.len() as f64)
                    + reduce.mul_f64(folded.saturating_sub(1) as f64);
                let processors = self.sight.view().card(&seat.node).map_or(1, |card| card.processors);
                self.loads.anticipate(seat.node, work, processors, now);
            }
        }
    }

    /// A child's partial has come. If it answers the caller itself, all it was asked, and for itself alone, that is
    /// how long it takes.
    pub(crate) fn note_answer(&mut self, now: Instant, wave: &Wave<P>, from: NodeId, partial: &Partial<P>) {
        let is_whole = partial.last && partial.missing.is_empty() && wave.tried.is_empty();
        if wave.parent != Parent::Caller || !is_whole {
            return;
        }
        let is_alone = |child: &Child| {
            child.node == from && child.branch == partial.tag.branch && child.tree.root().size == 1
        };
        if wave.children.iter().any(is_alone)
            && self.calls.get(&wave.tag.wave).is_some_and(|call| call.has_choice)
        {
            self.replicas.observe(from, wave.timing.arrived_at.until(now), now);
        }
    }

    /// The call is over: the policies learn how its nodes have done.
    pub(crate) fn note_end(
        &mut self,
        now: Instant,
        call: &mut OpenCall<P>,
        losses: &[Missing],
        missing: &[Missing],
    ) {
        if !call.has_choice {
            return;
        }
        let placed = core::mem::take(&mut call.placed);
        if call.options.push.is_some() {
            // That a worker does not push is no fault of the node that it is attached to.
            self.replicas.cancelled(placed);
        } else {
            self.replicas.ended(placed, losses.iter(), missing, now);
        }
    }
}

/// How many children the head of a row of seats has.
fn children_of(seats: &[crate::tree::Seat]) -> usize {
    let (mut at, mut children) = (1, 0);
    while at < seats.len() {
        at += seats[at].size as usize;
        children += 1;
    }
    children
}
