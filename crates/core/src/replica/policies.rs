//! All policies and their state, behind three questions.
//!
//! ```text
//!   a call comes ──▶ poll ──▶ (answers) ──▶ choose ──▶ launched ──▶ …  ended
//!                    polled:D,              all         prequal       errors, successes
//!                    prequal_inline                     probes
//! ```
//!
//! A front asks them only about calls that have a choice. If every partition has one replica, there is
//! nothing to poll, choose or remember. `random` and `round_robin` learn nothing. The other policies pass
//! over ejected nodes ([`super::ejection`]), both in polls and in choices.

use super::ReplicaPolicy;
use super::announced::{Announced, Reading};
use super::choice::{Choice, Wanted};
use super::ejection::Ejection;
use super::in_flight::{InFlight, PlacedCall};
use super::least_loaded::Pace;
use super::peak_ewma::PeakEwma;
use super::polled::Poll;
use super::prequal::{INLINE_POLLS, Prequal};
use super::round_robin::RoundRobin;
use crate::error::Missing;
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::load::speed::Excess;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The state that a front keeps of its calls to choose replicas.
#[derive(Clone, Debug)]
pub struct Replicas {
    round_robin: RoundRobin,
    peak_ewma: PeakEwma,
    prequal: Prequal,
    ejection: Ejection,
    in_flight: InFlight,
}

/// A call that chooses its replicas.
#[derive(Clone, Copy, Debug)]
pub struct Choosing<'a> {
    /// The policy.
    pub policy: ReplicaPolicy,
    /// The service.
    pub service: &'a str,
    /// The expected times of one partition's local.
    pub pace: Pace<'a>,
    /// The loads that are known without polling, and the present time.
    pub announced: Announced<'a>,
}

impl Replicas {
    /// No state, for up to `peers_max` nodes.
    pub fn new(peers_max: usize) -> Self {
        Self {
            round_robin: RoundRobin::new(),
            peak_ewma: PeakEwma::new(peers_max),
            prequal: Prequal::new(),
            ejection: Ejection::new(peers_max),
            in_flight: InFlight::new(),
        }
    }

    /// The number of nodes in the larger of the tables that keep one entry per node.
    pub fn remembered(&self) -> usize {
        self.peak_ewma.remembered().max(self.ejection.remembered())
    }

    /// The poll that the policy needs before it chooses; `None` if it needs none.
    pub fn poll<'w>(
        &self,
        policy: ReplicaPolicy,
        wanted: impl Wanted<'w>,
        (timeout, slow): (Duration, Option<Excess>),
        now: Instant,
        random: &mut Random,
    ) -> Option<Poll> {
        let (polls, is_inline) = match policy {
            ReplicaPolicy::Polled { polls } => (polls, false),
            ReplicaPolicy::PrequalInline => (INLINE_POLLS, true),
            _ => return None,
        };
        let poll = match self.ejection.spare(wanted.clone(), now) {
            Some(spared) => Poll::begin(spared.wanted(), polls, (timeout, slow), now, random),
            None => Poll::begin(wanted, polls, (timeout, slow), now, random),
        };
        let poll = if is_inline { poll.without_the_last(random) } else { poll };
        (!poll.is_complete()).then_some(poll)
    }

    /// Chooses, using the answers to the poll if there was one.
    pub fn choose<'w>(
        &mut self,
        call: Choosing<'_>,
        wanted: impl Wanted<'w>,
        poll: Option<&Poll>,
        random: &mut Random,
    ) -> Choice {
        match call.policy {
            ReplicaPolicy::Random => super::random::choose(wanted, random),
            ReplicaPolicy::RoundRobin => self.round_robin.choose(call.service, wanted, random),
            _ => match self.ejection.spare(wanted.clone(), call.announced.now) {
                Some(spared) => self.choose_by_merit(call, spared.wanted(), poll, random),
                None => self.choose_by_merit(call, wanted, poll, random),
            },
        }
    }

    fn choose_by_merit<'w>(
        &mut self,
        call: Choosing<'_>,
        wanted: impl Wanted<'w>,
        poll: Option<&Poll>,
        random: &mut Random,
    ) -> Choice {
        let Choosing { policy, pace, announced, .. } = call;
        let now = announced.now;
        match (policy, poll) {
            (ReplicaPolicy::Announced, _) => announced.choose(wanted, Reading::Corrected, pace, random),
            #[cfg(feature = "comparison")]
            (ReplicaPolicy::AnnouncedRaw, _) => announced.choose(wanted, Reading::Raw, pace, random),
            (ReplicaPolicy::PeakEwma, _) => {
                // A reported latency is used as it is, without a random correction.
                let reported = |node| announced.latency(node);
                self.peak_ewma.choose(wanted, &self.in_flight, reported, pace.local_ms, now, random)
            }
            (ReplicaPolicy::Prequal, _) => self.prequal.choose(wanted, pace.excess, now, random),
            (ReplicaPolicy::PrequalInline, Some(poll)) => {
                self.prequal.choose_inline(wanted, poll.answers(), pace.excess, now, random)
            }
            (ReplicaPolicy::Polled { .. }, Some(poll)) => {
                let figure = |node, random: &mut Random| announced.figure(node, Reading::Corrected, random);
                poll.choose(wanted, figure, pace.local_ms, random)
            }
            (_, _) => super::random::choose(wanted, random),
        }
    }

    /// A call that had a choice was launched. Returns its placement, which must be passed back when the call
    /// ends.
    pub fn launched(&mut self, choice: &Choice) -> PlacedCall {
        self.in_flight.enter(choice)
    }

    /// The nodes to probe after a call was launched. The call does not wait for their answers.
    pub fn probe<'w>(
        &mut self,
        policy: ReplicaPolicy,
        wanted: impl Wanted<'w>,
        now: Instant,
        random: &mut Random,
    ) -> Vec<NodeId> {
        if policy != ReplicaPolicy::Prequal {
            return Vec::new();
        }
        match self.ejection.spare(wanted.clone(), now) {
            Some(spared) => self.prequal.probe(spared.wanted(), random),
            None => self.prequal.probe(wanted, random),
        }
    }

    /// A probe was answered.
    pub fn handle_probe_answer(
        &mut self,
        node: NodeId,
        figure: LoadFigure,
        now: Instant,
        random: &mut Random,
    ) {
        self.prequal.handle_answer(node, figure, now, random);
    }

    /// `node` has answered a call directly, and only for itself.
    pub fn observe(&mut self, node: NodeId, took: Duration, now: Instant) {
        self.peak_ewma.observe(node, took, now);
    }

    /// A call has ended. `losses` are all failures during the call, repaired or not, and `missing` are the
    /// final ones. A node that is at fault in either has failed; a node that appears in neither has
    /// succeeded.
    pub fn ended<'m>(
        &mut self,
        placed: PlacedCall,
        losses: impl Iterator<Item = &'m Missing>,
        missing: &'m [Missing],
        now: Instant,
    ) {
        let (mut at_fault, mut unclear) = (BTreeSet::new(), BTreeSet::new());
        for loss in losses.chain(missing) {
            if let Some(node) = loss.node {
                if loss.reason.is_fault_of_node() { &mut at_fault } else { &mut unclear }.insert(node);
            }
        }
        for &node in &at_fault {
            self.prequal.drop_answers(node);
            self.ejection.note_error(node, now);
        }
        for node in placed.nodes().filter(|node| !at_fault.contains(node) && !unclear.contains(node)) {
            self.ejection.note_success(node, now);
        }
        self.in_flight.leave(placed);
    }

    /// A call was cancelled: no node is at fault.
    pub fn cancelled(&mut self, placed: PlacedCall) {
        self.in_flight.leave(placed);
    }

    /// Forgets a node that has left or died. Partitions in flight there are subtracted when their calls end.
    pub fn forget(&mut self, node: NodeId) {
        self.peak_ewma.forget(node);
        self.prequal.drop_answers(node);
        self.ejection.forget(node);
    }

    /// The ejected nodes.
    pub fn ejection(&self) -> &Ejection {
        &self.ejection
    }

    /// The partitions in flight.
    pub fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::tests::{Service, assert_honours, node, services, wanted};
    use super::*;
    use crate::error::Reason;
    use crate::load::table::LoadTable;
    use crate::partitions::PartitionSet;
    use crate::replica::ejection::ERRORS_MAX;
    use alloc::vec;
    use proptest::prelude::*;

    const POLICIES: [ReplicaPolicy; 8] = ReplicaPolicy::EXAMPLES;

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    /// Runs one call from poll to choice, in which every polled node answers that it is idle.
    fn choose(
        replicas: &mut Replicas,
        policy: ReplicaPolicy,
        service: &Service,
        random: &mut Random,
    ) -> Choice {
        let loads = LoadTable::new(9, 7);
        let mut poll =
            replicas.poll(policy, wanted(service), (Duration::from_millis(10), None), at(5), random);
        if let Some(poll) = &mut poll {
            let targets: Vec<NodeId> = poll.targets().collect();
            targets.into_iter().for_each(|node| {
                poll.handle_answer(node, LoadFigure::default(), at(6));
            });
        }
        let announced = Announced { loads: &loads, own: (node(99), LoadFigure::default()), now: at(6) };
        let call = Choosing { policy, service: "s", pace: Pace::alike(1.0), announced };
        replicas.choose(call, wanted(service), poll.as_ref(), random)
    }

    fn failed(number: u8, reason: Reason) -> Missing {
        Missing { partitions: PartitionSet::first(1), node: Some(node(number)), reason }
    }

    #[test]
    fn failing_nodes_are_passed_over_by_policies_that_learn() {
        let service: Service = (0..60).map(|p| (p, vec![node(1), node(2)])).collect();
        for policy in POLICIES {
            let (mut replicas, mut random) = (Replicas::new(8), Random::new(1));
            for _ in 0..ERRORS_MAX {
                let placed = replicas.launched(&choose(&mut replicas.clone(), policy, &service, &mut random));
                replicas.ended(placed, core::iter::empty(), &[failed(1, Reason::Lost)], at(1));
            }
            assert!(replicas.ejection().is_ejected(node(1), at(6)));
            assert!(replicas.in_flight().is_empty());
            let choice = choose(&mut replicas, policy, &service, &mut random);
            let learns = !matches!(policy, ReplicaPolicy::Random | ReplicaPolicy::RoundRobin);
            assert_eq!(!choice.by_node.contains_key(&node(1)), learns, "{policy}");
        }
    }

    #[test]
    fn a_success_resets_errors_and_a_cancelled_call_does_not() {
        let service: Service = vec![(0, vec![node(1), node(2)])];
        let mut replicas = Replicas::new(8);
        let launch = |replicas: &mut Replicas| {
            let by_node = [(node(1), PartitionSet::first(service.len() as u32))].into();
            replicas.launched(&Choice { by_node, ..Choice::default() })
        };
        for end in [None, Some(Reason::Cancelled)] {
            for round in 0..3 * ERRORS_MAX {
                let placed = launch(&mut replicas);
                let loss = failed(1, Reason::LocalPanicked("it broke".into()));
                let mended = core::slice::from_ref(&loss);
                replicas.ended(placed, mended.iter(), &[], at(1));
                if round % 3 == 0 {
                    let placed = launch(&mut replicas);
                    let missing = end.clone().map(|reason| failed(1, reason));
                    replicas.ended(placed, core::iter::empty(), missing.as_slice(), at(1));
                }
                let placed = launch(&mut replicas);
                replicas.cancelled(placed);
            }
            assert_eq!(replicas.ejection().is_ejected(node(1), at(2)), end.is_some());
        }
    }

    #[test]
    fn only_prequal_probes() {
        let service: Service = vec![(0, vec![node(1), node(2)])];
        for policy in POLICIES {
            let targets = Replicas::new(8).probe(policy, wanted(&service), at(0), &mut Random::new(1));
            assert_eq!(targets.len(), if policy == ReplicaPolicy::Prequal { 2 } else { 0 });
        }
    }

    proptest! {
        #[test]
        fn every_policy_honours_where_the_partitions_lie(
            service in services(),
            failing in prop::collection::vec(0_u8..12, 0..6),
            probed in prop::collection::vec((0_u8..12, 0_u32..9), 0..20),
            seed: u64,
        ) {
            for policy in POLICIES {
                let (mut replicas, mut random) = (Replicas::new(8), Random::new(seed));
                replicas.probe(policy, wanted(&service), at(0), &mut random);
                for &(number, in_flight) in &probed {
                    let figure = LoadFigure { in_flight, ..LoadFigure::default() };
                    replicas.handle_probe_answer(node(number), figure, at(1), &mut random);
                }
                for _ in 0..ERRORS_MAX {
                    let missing: Vec<Missing> = failing.iter().map(|&n| failed(n, Reason::Late)).collect();
                    replicas.ended(PlacedCall::default(), core::iter::empty(), &missing, at(1));
                }
                assert_honours(&choose(&mut replicas, policy, &service, &mut random), &service);
            }
        }
    }
}
