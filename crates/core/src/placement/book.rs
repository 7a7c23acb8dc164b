//! The book of placement: one entry for each service whose partitions are loaded while the node runs.

use super::candidates::Memory;
use super::service::{Decisions, ServicePlaces, Sights};
use super::{PlacementAsk, PlacementError, PlacementReport};
use crate::config::NodeConfig;
use crate::effect::{Effect, Event};
use crate::id::{NodeId, PartitionId, RequestId};
use crate::message::{Message, Payload};
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use crate::timer::Wake;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

/// Least time between two reviews. Each review looks at all partitions of the services that are placed.
const REVIEW_EVERY: Duration = Duration::from_millis(200);
/// Candidates that never stop changing are acted upon after this many times `settle`.
const UNSETTLED_MAX: u64 = 10;

/// The services of this node whose partitions are placed while it runs.
#[derive(Default)]
pub(crate) struct Placements {
    services: BTreeMap<String, ServicePlaces>,
    memory: Memory,
    /// The newest version of the view for which a review is armed, and that of the last review.
    seen: u64,
    reviewed: u64,
    /// When candidates changed last, and when the present series of changes began.
    changed_at: Option<Instant>,
    unsettled_since: Option<Instant>,
    reviewed_at: Option<Instant>,
    armed: Option<Instant>,
}

impl Placements {
    pub(crate) fn new(config: &NodeConfig) -> Self {
        let places = |(name, &replicas): (&String, &u32)| {
            let card = config.card.services.get(name)?;
            Some((name.clone(), ServicePlaces::new(card.total, replicas, card.partitions.clone())))
        };
        Self { services: config.placed.iter().filter_map(places).collect(), ..Self::default() }
    }

    /// Arms the next review if the view has changed since the last one.
    pub(crate) fn note_view<P: Payload>(&mut self, cx: &mut Context<P>, now: Instant) {
        if !self.services.is_empty() && cx.view().version() != self.seen {
            self.seen = cx.view().version();
            let due = self.reviewed_at.map_or(now, |at| now.max(at + REVIEW_EVERY));
            self.arm(cx, due);
        }
    }

    fn arm<P: Payload>(&mut self, cx: &mut Context<P>, at: Instant) {
        let at = self.armed.map_or(at, |armed| armed.min(at));
        cx.timers.rearm(&mut self.armed, Some(at), Wake::Placement);
    }

    /// Compares what is here with what is assigned to this node, and takes the next steps.
    pub(crate) fn review<P: Payload>(&mut self, cx: &mut Context<P>, now: Instant) {
        cx.timers.rearm(&mut self.armed, None, Wake::Placement);
        self.reviewed_at = Some(now);
        self.reviewed = cx.view().version();
        let tuning = cx.config.tuning.placement.clone();
        let is_settled = self.look(cx, now, tuning.settle.into(), tuning.replace_after.into());
        let mut is_changed = false;
        for (name, places) in &mut self.services {
            let sights = Sights {
                me: cx.me,
                name,
                view: cx.sight.view(),
                tuning: &tuning,
                candidates: self.memory.of(name),
                is_settled: is_settled && !cx.is_leaving(),
            };
            let Decisions { load, drop, card_changed } = places.review(now, sights);
            is_changed |= card_changed;
            let service: Arc<str> = name.as_str().into();
            for partition in load {
                cx.effects.push_back(Effect::Load { service: Arc::clone(&service), partition });
            }
            for partition in drop {
                is_changed = true;
                cx.effects.push_back(Effect::Unload { service: Arc::clone(&service), partition });
            }
        }
        if is_changed {
            self.announce(cx, now);
        }
        let settled_at = self.changed_at.map(|at| at + tuning.settle.into());
        let next = self.services.values().filter_map(|places| places.next_at(now, &tuning));
        let next = next.chain(self.memory.next_at(tuning.replace_after.into())).chain(settled_at).min();
        if let Some(at) = next {
            self.arm(cx, at.max(now + REVIEW_EVERY));
        }
    }

    /// Looks at the candidates of all services. Returns true if they have settled.
    fn look<P: Payload>(
        &mut self,
        cx: &Context<P>,
        now: Instant,
        settle: Duration,
        replace_after: Duration,
    ) -> bool {
        let mut is_changed = self.memory.expire(now, replace_after);
        for (name, _) in self.services.iter().filter(|(_, places)| places.replicas > 0) {
            is_changed |= self.memory.look(now, name, cx.view());
        }
        if is_changed {
            self.changed_at = Some(now);
            self.unsettled_since.get_or_insert(now);
        }
        let is_settled = self.changed_at.is_none_or(|at| at.until(now) >= settle)
            || self.unsettled_since.is_some_and(|at| at.until(now) >= settle.mul_f64(UNSETTLED_MAX as f64));
        if is_settled {
            self.changed_at = None;
            self.unsettled_since = None;
        }
        is_settled
    }

    /// The driver has loaded a partition, or failed to.
    pub(crate) fn handle_loaded<P: Payload>(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        service: &str,
        partition: PartitionId,
        result: Result<(), Arc<str>>,
    ) {
        let Some(places) = self.services.get_mut(service) else { return };
        if places.loaded(now, partition, result) {
            self.announce(cx, now);
        }
        self.arm(cx, now);
    }

    /// The driver's user has added a partition's data, or wants it dropped.
    pub(crate) fn hold_by_hand<P: Payload>(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        request: RequestId,
        (service, partition, holds): (&str, PartitionId, bool),
    ) {
        let held = self.try_hold(cx, now, service, partition, holds);
        if held.is_ok() {
            self.announce(cx, now);
            self.arm(cx, now);
        }
        let result = held.map(|()| Box::new(self.report(cx))).map_err(|error| error.to_string().into());
        cx.effects.push_back(Effect::Deliver(Event::Placement { request, result }));
    }

    fn try_hold<P: Payload>(
        &mut self,
        cx: &Context<P>,
        now: Instant,
        service: &str,
        partition: PartitionId,
        holds: bool,
    ) -> Result<(), PlacementError> {
        let Some(card) = cx.config.card.services.get(service) else {
            let known = cx.config.card.services.keys().cloned().collect();
            return Err(PlacementError::NoService { service: service.into(), known });
        };
        let total = cx.view().partitions_total(service).max(card.total);
        let is_within =
            if card.declared { partition < total } else { partition < cx.config.limits.partitions_max };
        if !is_within {
            return Err(PlacementError::Beyond { service: service.into(), partition, total });
        }
        if cx.config.pushed.contains(service) || self.services.get(service).is_some_and(|of| of.replicas > 0)
        {
            return Err(PlacementError::NotByHand { service: service.into() });
        }
        if holds {
            let mut card = cx.config.card.clone();
            let service = card.services.entry(service.into()).or_default();
            service.partitions.insert(partition);
            service.total = service.total.max(partition + 1);
            card.check().map_err(PlacementError::Card)?;
        }
        let places = (self.services.entry(service.into()))
            .or_insert_with(|| ServicePlaces::new(total, 0, card.partitions.clone()));
        if holds {
            places.hold(partition);
            places.total = places.total.max(partition + 1);
            Ok(())
        } else if places.let_go(now, partition) {
            Ok(())
        } else {
            Err(PlacementError::NotHeld { service: service.into(), partition })
        }
    }

    /// An operator's request, by a user of the driver.
    pub(crate) fn answer_user<P: Payload>(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        request: RequestId,
        ask: &PlacementAsk,
    ) {
        let result = self.obey(cx, now, ask).map_err(|error| error.to_string().into());
        cx.effects.push_back(Effect::Deliver(Event::Placement { request, result }));
    }

    /// An operator's request, by a peer.
    pub(crate) fn answer_peer<P: Payload>(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        (from, id): (NodeId, u64),
        ask: &PlacementAsk,
    ) {
        let result = self.obey(cx, now, ask).map_err(|error| error.to_string().into());
        cx.send(from, Message::PlacementReply { id, result });
    }

    fn obey<P: Payload>(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        ask: &PlacementAsk,
    ) -> Result<Box<PlacementReport>, PlacementError> {
        match ask {
            PlacementAsk::Show => return Ok(Box::new(self.report(cx))),
            PlacementAsk::Drain(drains) => cx.config.card.roles.draining = *drains,
            PlacementAsk::Pin { service, partitions } => {
                let places = self.placed(service, partitions)?;
                places.pinned.union_with(partitions);
                places.refused.subtract(partitions);
            }
            PlacementAsk::Refuse { service, partitions } => {
                let places = self.placed(service, partitions)?;
                places.refused.union_with(partitions);
                places.pinned.subtract(partitions);
            }
            PlacementAsk::Release { service, partitions } => {
                let places = self.placed(service, partitions)?;
                places.refused.subtract(partitions);
                places.pinned.subtract(partitions);
            }
        }
        self.announce(cx, now);
        self.arm(cx, now);
        Ok(Box::new(self.report(cx)))
    }

    /// A service whose partitions are placed automatically, and which has these partitions.
    fn placed(
        &mut self,
        service: &str,
        partitions: &PartitionSet,
    ) -> Result<&mut ServicePlaces, PlacementError> {
        let automatic = self.services.iter().filter(|(_, places)| places.replicas > 0);
        let known = automatic.map(|(name, _)| name.clone()).collect();
        let places = self.services.get_mut(service).filter(|places| places.replicas > 0);
        let places = places.ok_or(PlacementError::NotPlaced { service: service.into(), known })?;
        let total = places.total;
        match partitions.iter().find(|&partition| partition >= total) {
            Some(partition) => Err(PlacementError::Beyond { service: service.into(), partition, total }),
            None => Ok(places),
        }
    }

    /// Writes what is here onto the card, and announces it.
    fn announce<P: Payload>(&self, cx: &mut Context<P>, now: Instant) {
        for (name, places) in &self.services {
            let Some(card) = cx.config.card.services.get_mut(name) else { continue };
            card.partitions = places.announced();
            card.placed = places.on_card();
            if !card.declared {
                card.total = card.total.max(card.end());
            }
            let leaving = places.leaving();
            if leaving.is_empty() {
                cx.leaving_partitions.remove(name);
            } else {
                cx.leaving_partitions.insert(name.clone(), leaving);
            }
        }
        cx.announce_card(now);
    }

    /// The placement at this node.
    pub(crate) fn report<P: Payload>(&self, cx: &Context<P>) -> PlacementReport {
        let draining = cx.config.card.roles.draining;
        let services = cx.config.card.services.iter().filter(|(name, _)| !cx.config.pushed.contains(*name));
        let by_hand = |card: &crate::membership::card::ServiceCard| {
            ServicePlaces::new(card.total, 0, card.partitions.clone())
        };
        let shown = services.map(|(name, card)| match self.services.get(name) {
            Some(places) => places.report(name, cx.me, cx.view()),
            None => by_hand(card).report(name, cx.me, cx.view()),
        });
        let is_reviewed = self.services.is_empty() || self.reviewed == cx.view().version();
        let is_calm =
            is_reviewed && self.changed_at.is_none() && self.services.values().all(ServicePlaces::is_calm);
        PlacementReport { draining, is_calm, services: shown.collect() }
    }
}
