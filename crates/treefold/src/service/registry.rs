//! A node's operators and partitions by the numbers that core uses for them.

use super::modular;
use super::undeclared::Undeclared;
use super::{LoadPartition, NamedOperator, PartitionData, Placing, Service, placement_of};
use crate::endpoint::EndpointKind;
use crate::error::StartError;
use crate::foreign::{NAME_PREFIX, Sent};
use crate::isolated::Isolation;
use crate::wire::reduces;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use treefold_core::config::{Kind, Placement as KindPlacement};
use treefold_core::id::PartitionId;
use treefold_core::limits::Limits;
use treefold_core::membership::card::{Placed, ServiceCard};
use treefold_core::message::DeclaredReduce;
use treefold_core::partitions::PartitionSet;
use treefold_operators::ready::Ready;
use treefold_operators::{Declared, FilterKind, Operator, Partition, ReduceParams};

/// Every operator of a node by the number that core uses for it, and the partitions that it may run on.
#[derive(Default)]
pub(crate) struct Registry {
    /// The aggregations of the node's own services, in the order of their numbers. The numbers of those in `learned` follow.
    kinds: Vec<Kind>,
    entries: Vec<Entry>,
    services: Vec<Hosted>,
    pushed: BTreeSet<String>,
    filters: BTreeMap<String, Arc<dyn FilterKind>>,
    endpoints: BTreeMap<(Arc<str>, PartitionId), Arc<dyn EndpointKind>>,
    /// Makes reduces that other nodes declare; `None` if this node folds for its own services only.
    make_reduce: Option<MakeReduce>,
    /// Aggregations of other services, with the reduces that their nodes have declared.
    learned: RwLock<Vec<(String, Arc<dyn Operator>)>>,
}

/// Makes an operator that folds as a service's nodes declare it, by name: `KIND/AGGREGATION` of a [kind](Service::kind), or a
/// name that an [operator](Operator::declared) declares. Every node has [the ready reduces](treefold_operators::ready).
pub type MakeReduce = fn(&str) -> Option<Arc<dyn Operator>>;

/// The most aggregations of other services for which a node learns to fold.
pub(crate) const LEARNED_MAX: usize = 256;

struct Entry {
    /// `None` for the aggregation that stands for all reduces that are sent: each job names its operator.
    operator: Option<Arc<dyn Operator>>,
    service: usize,
}

struct Hosted {
    name: Arc<str>,
    kind: Option<&'static str>,
    total: u32,
    /// True if the service declares its total. For an application, the total is the number of workers that
    /// attach.
    declared: bool,
    placing: Option<Placing>,
    /// They change while the node runs. A lock is enough: jobs read it for an instant, and changes are rare.
    partitions: RwLock<BTreeMap<PartitionId, Partition>>,
}

impl Hosted {
    /// True if the node has partitions of it, or may get some.
    fn has_part(&self) -> bool {
        self.placing.is_some() || !self.partitions().is_empty()
    }

    fn partitions(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<PartitionId, Partition>> {
        self.partitions.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Makes the registry of a node with these services.
    pub(crate) fn new(services: Vec<Service>, limits: &Limits) -> Result<Self, StartError> {
        let mut registry = Self::default();
        for service in services {
            service.check(limits)?;
            if registry.services.iter().any(|earlier| earlier.name == service.name) {
                let problem = "the service is declared twice".to_string();
                return Err(StartError::Service { service: service.name.to_string(), problem });
            }
            registry.add(service, limits);
        }
        Ok(registry)
    }

    fn add(&mut self, service: Service, limits: &Limits) {
        let (name, total) = (Arc::clone(&service.name), service.total_or_default());
        let declared = service.total.is_some() && !service.pushed;
        let at = self.services.len();
        if service.pushed {
            self.pushed.insert(name.to_string());
        }
        let isolation =
            service.isolated.map(|processes| Isolation::new(&name, processes, limits.payload_bytes_max));
        for NamedOperator { name: aggregation, mut operator, mut placement, .. } in service.operators {
            if let Some(isolation) = &isolation {
                operator = isolation.wrap(&aggregation, operator);
                placement = placement_of(&*operator);
            }
            self.kinds.push(kind_of(format!("{name}/{aggregation}"), placement, &*operator));
            self.entries.push(Entry { operator: Some(operator), service: at });
        }
        if service.pushed {
            let name = format!("{name}/{NAME_PREFIX}");
            let placement = KindPlacement::Pool;
            let (is_sliceable, gives_slices, folds_in_pairs) = (false, false, false);
            self.kinds.push(Kind { name, placement, is_sliceable, gives_slices, folds_in_pairs });
            self.entries.push(Entry { operator: None, service: at });
        }
        for (filter, kind) in service.filters {
            self.filters.insert(format!("{name}/{filter}"), kind);
        }
        for (id, kind) in service.endpoints {
            self.endpoints.insert((Arc::clone(&name), id), kind);
        }
        let partitions = service
            .partitions
            .into_iter()
            .map(|(id, data)| (id, Partition::new(Arc::clone(&name), id, total, data)))
            .collect();
        let partitions = RwLock::new(partitions);
        let (placing, kind) = (service.placing, service.kind);
        self.services.push(Hosted { name, kind, total, declared, placing, partitions });
    }

    /// The aggregations, as core needs them.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        self.kinds.clone()
    }

    /// The services that workers push for.
    pub(crate) fn pushed(&self) -> BTreeSet<String> {
        self.pushed.clone()
    }

    /// The services, as the cluster sees them on the node's card.
    pub(crate) fn cards(&self) -> BTreeMap<String, ServiceCard> {
        let card = |hosted: &Hosted| ServiceCard {
            partitions: hosted.partitions().keys().copied().collect(),
            total: hosted.total,
            declared: hosted.declared,
            placed: hosted.placing.as_ref().map(|of| Placed { replicas: of.replicas, ..Placed::default() }),
        };
        self.services.iter().map(|hosted| (hosted.name.to_string(), card(hosted))).collect()
    }

    /// The operator of a kind.
    pub(crate) fn operator(&self, kind: u32) -> Option<Arc<dyn Operator>> {
        let kind = kind as usize;
        match self.entries.get(kind) {
            Some(entry) => entry.operator.clone(),
            None => self.learned().get(kind - self.entries.len()).map(|(_, operator)| Arc::clone(operator)),
        }
    }

    fn learned(&self) -> std::sync::RwLockReadGuard<'_, Vec<(String, Arc<dyn Operator>)>> {
        self.learned.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the node learn the reduces of services that it does not have.
    pub(crate) fn learning(self, make_reduce: Option<MakeReduce>) -> Self {
        Self { make_reduce, ..self }
    }

    /// True if the node learns the reduces of this service: it has nothing of it itself.
    pub(crate) fn learns(&self, service: &str) -> bool {
        let has_part = |hosted: &Hosted| hosted.has_part() || self.pushed.contains(service);
        self.make_reduce.is_some() && !self.service(service).is_some_and(has_part)
    }

    /// The number of aggregations that the node may have.
    pub(crate) fn kinds_max(&self) -> usize {
        self.kinds.len() + if self.make_reduce.is_some() { LEARNED_MAX } else { 0 }
    }

    /// The ready-made reduces of the services that have partitions here.
    pub(crate) fn declared(&self) -> Vec<DeclaredReduce> {
        let declared = |(kind, entry): (&Kind, &Entry)| {
            let hosted = &self.services[entry.service];
            let of_kind = || {
                let (_, aggregation) = kind.name.split_once('/')?;
                let reduce = format!("{}/{aggregation}", hosted.kind?);
                Some(Declared { reduce, params: ReduceParams::Fixed(Bytes::new()) })
            };
            let declared = entry.operator.as_ref().and_then(|operator| operator.declared());
            let Declared { reduce, params } = declared.or_else(of_kind)?;
            let (params, field) = match params {
                ReduceParams::Fixed(params) => (params.to_vec(), String::new()),
                ReduceParams::Field(field) => (Vec::new(), field),
                ReduceParams::OfReduce => (Vec::new(), String::new()),
            };
            let declared = DeclaredReduce { name: kind.name.clone(), reduce, params, field };
            (hosted.has_part() && reduces::check(&declared).is_ok()).then_some(declared)
        };
        self.kinds.iter().zip(&self.entries).filter_map(declared).take(reduces::REDUCES_MAX).collect()
    }

    /// Refuses further folds for aggregations of these services that were learned, and that a member declares no more.
    pub(crate) fn unlearn(&self, services: &BTreeSet<String>, declared: &BTreeSet<String>) {
        let mut learned = self.learned.write().unwrap_or_else(PoisonError::into_inner);
        for (name, operator) in learned.iter_mut() {
            let is_of_member = name.split_once('/').is_some_and(|(service, _)| services.contains(service));
            if is_of_member && !declared.contains(name) {
                *operator = Arc::new(Undeclared);
            }
        }
    }

    /// Takes the reduce that a member has declared, in place of what it learned before. Returns the kind if it is new.
    ///
    /// # Errors
    /// A sentence for the log.
    pub(crate) fn learn(&self, declared: DeclaredReduce) -> Result<Option<Kind>, String> {
        let DeclaredReduce { name, reduce, params, field } = declared;
        let made = self.make_reduce.and_then(|make_reduce| make_reduce(&reduce));
        let operator = match Ready::of(&reduce) {
            Ok(ready) => {
                let params = match field.is_empty() {
                    true => ReduceParams::Fixed(params.into()),
                    false => ReduceParams::Field(field),
                };
                let operator = ready.given(params);
                Some(operator.map_err(|error| format!("{name}: {reduce}: {error}"))?)
            }
            Err(_) => made,
        };
        let operator = operator.ok_or_else(|| format!("{name}: this build has no reduce {reduce:?}"))?;
        self.take_up(name, operator)
    }

    /// Takes a module that a member has declared as the reduce of an aggregation, as [`learn`](Self::learn) does.
    ///
    /// # Errors
    /// A sentence for the log.
    pub(crate) fn learn_module(&self, name: String, sent: Arc<Sent>) -> Result<Option<Kind>, String> {
        let operator = modular::fold_only(sent).map_err(|problem| format!("{name}: {problem}"))?;
        self.take_up(name, operator)
    }

    fn take_up(&self, name: String, operator: Arc<dyn Operator>) -> Result<Option<Kind>, String> {
        if self.kinds.iter().any(|kind| kind.name == name) {
            return Ok(None);
        }
        let mut learned = self.learned.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = learned.iter_mut().find(|(known, _)| *known == name) {
            *known = operator;
            return Ok(None);
        }
        if learned.len() == LEARNED_MAX {
            return Err(format!("{name}: the node folds for {LEARNED_MAX} aggregations of others already"));
        }
        // Locals run elsewhere, and only there it is known whether they make slices alone.
        let kind = Kind { gives_slices: true, ..kind_of(name.clone(), placement_of(&*operator), &*operator) };
        learned.push((name, operator));
        Ok(Some(kind))
    }

    /// True if each job of the kind names an operator that was sent.
    pub(crate) fn is_sent(&self, kind: u32) -> bool {
        self.entries.get(kind as usize).is_some_and(|entry| entry.operator.is_none())
    }

    /// A filter of one of the services.
    pub(crate) fn filter(&self, name: &str) -> Option<Arc<dyn FilterKind>> {
        self.filters.get(name).map(Arc::clone)
    }

    /// The kind that makes an endpoint's part in streams.
    pub(crate) fn endpoint(&self, service: &Arc<str>, id: PartitionId) -> Option<&Arc<dyn EndpointKind>> {
        self.endpoints.get(&(Arc::clone(service), id))
    }

    /// A partition of the service that a kind belongs to.
    pub(crate) fn partition(&self, kind: u32, partition: PartitionId) -> Option<Partition> {
        self.services[self.entries.get(kind as usize)?.service].partitions().get(&partition).cloned()
    }

    fn service(&self, name: &str) -> Option<&Hosted> {
        self.services.iter().find(|hosted| *hosted.name == *name)
    }

    /// The services whose partitions are placed automatically, with their replicas.
    pub(crate) fn placed(&self) -> BTreeMap<String, u32> {
        let placed = |hosted: &Hosted| Some((hosted.name.to_string(), hosted.placing.as_ref()?.replicas));
        self.services.iter().filter_map(placed).collect()
    }

    /// The services as on a card that holds every partition which placement may assign to the node.
    pub(crate) fn fullest_cards(&self) -> BTreeMap<String, ServiceCard> {
        let mut cards = self.cards();
        for card in cards.values_mut().filter(|card| card.placed.is_some()) {
            card.partitions = PartitionSet::first(card.total);
        }
        cards
    }

    /// The loader of a service whose partitions are placed automatically.
    pub(crate) fn loader(&self, service: &str) -> Option<Arc<dyn LoadPartition>> {
        self.service(service)?.placing.as_ref().map(|placing| Arc::clone(&placing.loader))
    }

    /// Adds a partition's data, in place of earlier data.
    pub(crate) fn insert(&self, service: &str, partition: PartitionId, data: PartitionData) {
        let Some(hosted) = self.service(service) else { return };
        let added = Partition::new(Arc::clone(&hosted.name), partition, hosted.total, data);
        let earlier =
            hosted.partitions.write().unwrap_or_else(PoisonError::into_inner).insert(partition, added);
        drop_aside(earlier);
    }

    /// Drops a partition's data. Jobs that run on it keep it until they end.
    pub(crate) fn remove(&self, service: &str, partition: PartitionId) {
        let Some(hosted) = self.service(service) else { return };
        let removed = hosted.partitions.write().unwrap_or_else(PoisonError::into_inner).remove(&partition);
        drop_aside(removed);
    }
}

fn kind_of(name: String, placement: KindPlacement, operator: &dyn Operator) -> Kind {
    let (is_sliceable, gives_slices) = (operator.is_sliceable(), operator.gives_slices());
    Kind { name, placement, is_sliceable, gives_slices, folds_in_pairs: operator.reduces_in_pairs() }
}

/// Drops a partition on a thread of its own. If no thread can be started, the closure that holds it is dropped here.
fn drop_aside(partition: Option<Partition>) {
    if let Some(partition) = partition {
        let _ = std::thread::Builder::new().name("tf-drop".to_owned()).spawn(move || drop(partition));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold_operators::merge::Sum;
    use treefold_operators::merging;

    fn figures() -> Service {
        let total = merging("total", |partition: &Partition, (): &()| Ok(Sum(*partition.data_as::<i64>()?)));
        Service::new("figures").aggregation("total", total)
    }

    fn registry(services: Vec<Service>) -> Result<Registry, StartError> {
        Registry::new(services, &Limits::DEFAULT)
    }

    #[test]
    fn kind_finds_its_operator_and_partitions() {
        let other = Service::new("other").partition(0, 7i64);
        let registry = registry(vec![other, figures().partition(2, 40i64).partition(5, 2i64)]).unwrap();
        assert_eq!(registry.kinds()[0].name, "figures/total");
        assert!(registry.operator(0).is_some() && registry.operator(1).is_none());
        assert_eq!(registry.partition(0, 2).unwrap().data::<i64>(), Some(&40));
        assert!(registry.partition(0, 0).is_none(), "partition 0 belongs to the other service");
        let card = &registry.cards()["figures"];
        assert_eq!((card.total, card.partitions.to_string().as_str()), (6, "2,5"));
    }

    #[test]
    fn applications_have_an_aggregation_for_reduces_that_are_sent() {
        let registry = registry(vec![figures(), Service::new("words").pushed()]).unwrap();
        let names: Vec<String> = registry.kinds().into_iter().map(|kind| kind.name).collect();
        assert_eq!(names, ["figures/total", "words/wasm:"]);
        assert!(registry.is_sent(1) && !registry.is_sent(0) && !registry.is_sent(2));
        assert!(registry.operator(1).is_none());
    }

    #[test]
    fn invalid_service_is_refused_by_name() {
        let refused = |services| registry(services).err().unwrap().to_string();
        assert!(refused(vec![Service::new("a/b")]).contains("'/'"));
        assert!(refused(vec![figures(), figures()]).contains("declared twice"));
        let reserved = Service::new("figures")
            .aggregation("wasm:own", merging("own", |_: &Partition, (): &()| Ok(Sum(1))));
        assert!(refused(vec![reserved]).contains("operators that are sent"));
        assert!(refused(vec![figures().partition(4, ()).total(4)]).contains("partition 4 of 4"));
        assert!(refused(vec![figures().total(u32::MAX)]).contains("partitions_max"));
    }
}
