//! Services: what a node can do, and the data it can do it on.
//!
//! A [`Service`] is written down once, with concrete types, and taken apart at a node's start: core is told the
//! names and where each aggregation runs, other nodes are told which partitions live here, and the operators and
//! the data go into a `Registry`, where a job finds them by number. Core names a job's aggregation by its place
//! in [`NodeConfig::kinds`](treefold_core::config::NodeConfig), so the registry's order *is* that order.

use crate::endpoint::EndpointKind;
use crate::error::StartError;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use treefold_core::config::{Kind, Placement as KindPlacement};
use treefold_core::id::PartitionId;
use treefold_core::limits::Limits;
use treefold_core::membership::card::ServiceCard;
use treefold_operators::FilterKind;
use treefold_operators::{Aggregation, AsyncAggregation, Operator, Partition, Placement, erase, erase_async};

/// A named service: its aggregations, and the partitions of it that live on this node.
///
/// ```
/// use treefold::operators::merge::Count;
/// use treefold::{Partition, Service, operators::merging};
///
/// let lines = merging("lines", |partition: &Partition, word: &String| {
///     let lines = partition.data_as::<Vec<String>>()?;
///     Ok(Count(lines.iter().filter(|line| line.contains(word)).count() as u64))
/// });
/// let service = Service::new("logs").aggregation("matching", lines).partition(0, vec!["an error".to_string()]);
/// ```
#[derive(Clone)]
pub struct Service {
    name: Arc<str>,
    operators: Vec<NamedOperator>,
    partitions: BTreeMap<PartitionId, Arc<dyn Any + Send + Sync>>,
    endpoints: BTreeMap<PartitionId, Arc<dyn EndpointKind>>,
    filters: Vec<(String, Arc<dyn FilterKind>)>,
    total: Option<u32>,
    pushed: bool,
}

#[derive(Clone)]
struct NamedOperator {
    name: String,
    operator: Arc<dyn Operator>,
    placement: KindPlacement,
}

impl Service {
    /// A service without aggregations and partitions. The name must not be empty and has no `/`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into().into(),
            operators: Vec::new(),
            partitions: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            filters: Vec::new(),
            total: None,
            pushed: false,
        }
    }

    /// Adds an aggregation; callers name it `service/name`.
    #[must_use]
    pub fn aggregation(self, name: impl Into<String>, aggregation: impl Aggregation) -> Self {
        self.operator(name, erase(aggregation))
    }

    /// Adds an aggregation whose operators wait instead of computing; they run as futures on the node's loop.
    #[must_use]
    pub fn async_aggregation(mut self, name: impl Into<String>, aggregation: impl AsyncAggregation) -> Self {
        let holds_processor = aggregation.holds_processor();
        self.operators.push(NamedOperator {
            name: name.into(),
            operator: erase_async(aggregation),
            placement: KindPlacement::Async { holds_processor },
        });
        self
    }

    /// Adds an aggregation that knows its types itself.
    #[must_use]
    pub fn operator(mut self, name: impl Into<String>, operator: Arc<dyn Operator>) -> Self {
        let placement = if operator.holds_processor() {
            match operator.placement() {
                Placement::Pool => KindPlacement::Pool,
                Placement::Inline => KindPlacement::Inline,
                Placement::Measured => KindPlacement::Measured,
            }
        } else {
            KindPlacement::Async { holds_processor: false }
        };
        self.operators.push(NamedOperator { name: name.into(), operator, placement });
        self
    }

    /// Says that partition `id` lives here, with its data. A second one with the same number replaces the first.
    #[must_use]
    pub fn partition(self, id: PartitionId, data: impl Any + Send + Sync) -> Self {
        self.partition_arc(id, Arc::new(data))
    }

    /// As [`partition`](Self::partition), for data that others hold too.
    #[must_use]
    pub fn partition_arc(mut self, id: PartitionId, data: Arc<dyn Any + Send + Sync>) -> Self {
        self.partitions.insert(id, data);
        self
    }

    /// Says that these endpoints of the service live here: partitions that take part in streams. One that has no data
    /// yet has none.
    #[must_use]
    pub fn endpoints(mut self, ids: impl IntoIterator<Item = PartitionId>, kind: impl EndpointKind) -> Self {
        let kind: Arc<dyn EndpointKind> = Arc::new(kind);
        for id in ids {
            self.endpoints.insert(id, Arc::clone(&kind));
            self.partitions.entry(id).or_insert_with(|| Arc::new(()));
        }
        self
    }

    /// Adds a filter; streams name it `service/name`.
    #[must_use]
    pub fn filter(mut self, name: impl Into<String>, kind: impl FilterKind) -> Self {
        self.filters.push((name.into(), Arc::new(kind)));
        self
    }

    /// Declares how many partitions the service has in all, on whatever nodes. All nodes of a cluster must declare the
    /// same: a node that differs from the others is refused by name when it starts, and its partitions are not used.
    ///
    /// If no node declares a total, the cluster takes the highest partition that it has ever seen, plus one, for the
    /// total. That is a guess, and replies say so ([`Reply::total_is_guess`](crate::Reply::total_is_guess)): partitions
    /// that no node has announced yet are neither asked nor missing.
    #[must_use]
    pub fn total(mut self, partitions: u32) -> Self {
        self.total = Some(partitions);
        self
    }

    /// Takes back a declared total: the cluster guesses it from the partitions that live on its nodes.
    #[must_use]
    pub fn guess_total(mut self) -> Self {
        self.total = None;
        self
    }

    /// Says that the service is an application whose workers attach to this node and push ([`crate::push`]): each worker
    /// is a partition, its locals are never run, and there are no partitions but these.
    #[must_use]
    pub fn pushed(mut self) -> Self {
        self.pushed = true;
        self
    }

    /// The service's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn total_or_default(&self) -> u32 {
        self.total
            .unwrap_or_else(|| self.partitions.keys().next_back().map_or(0, |&last| last.saturating_add(1)))
    }

    fn check(&self, limits: &Limits) -> Result<(), StartError> {
        let refuse = |problem: String| Err(StartError::Service { service: self.name.to_string(), problem });
        if self.name.is_empty() || self.name.contains('/') {
            return refuse("a service's name is not empty and has no '/'".to_string());
        }
        for (at, named) in self.operators.iter().enumerate() {
            if named.name.is_empty() || named.name.contains('/') {
                return refuse(format!(
                    "{:?}: an aggregation's name is not empty and has no '/'",
                    named.name
                ));
            }
            if self.operators[..at].iter().any(|earlier| earlier.name == named.name) {
                return refuse(format!("the aggregation {:?} is there twice", named.name));
            }
        }
        if self.pushed && !self.partitions.is_empty() {
            return refuse(
                "its partitions are the workers that attach, and there can be no others".to_string(),
            );
        }
        let total = self.total_or_default();
        if total > limits.partitions_max {
            let max = limits.partitions_max;
            return refuse(format!("{total} partitions; allowed: at most {max} (partitions_max)"));
        }
        match self.partitions.keys().next_back() {
            Some(&last) if last >= total => {
                refuse(format!("partition {last} of {total}: numbers begin at 0"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("name", &self.name)
            .field("aggregations", &self.operators.iter().map(|named| &named.name).collect::<Vec<_>>())
            .field("partitions", &self.partitions.keys().collect::<Vec<_>>())
            .field("total", &self.total_or_default())
            .finish()
    }
}

/// Every operator of a node by the number core knows it by, and the partitions each may be run on.
#[derive(Default)]
pub(crate) struct Registry {
    kinds: Vec<Kind>,
    entries: Vec<Entry>,
    services: Vec<Hosted>,
    pushed: BTreeSet<String>,
    filters: BTreeMap<String, Arc<dyn FilterKind>>,
    endpoints: BTreeMap<(Arc<str>, PartitionId), Arc<dyn EndpointKind>>,
}

struct Entry {
    operator: Arc<dyn Operator>,
    service: usize,
}

struct Hosted {
    name: Arc<str>,
    total: u32,
    /// True when the service was given its total. That of an application is the workers that attach.
    declared: bool,
    partitions: BTreeMap<PartitionId, Partition>,
}

impl Registry {
    /// The registry of a node with these services.
    pub(crate) fn new(services: Vec<Service>, limits: &Limits) -> Result<Self, StartError> {
        let mut registry = Self::default();
        for service in services {
            service.check(limits)?;
            if registry.services.iter().any(|earlier| earlier.name == service.name) {
                let problem = "the service is there twice".to_string();
                return Err(StartError::Service { service: service.name.to_string(), problem });
            }
            registry.add(service);
        }
        Ok(registry)
    }

    fn add(&mut self, service: Service) {
        let (name, total) = (Arc::clone(&service.name), service.total_or_default());
        let declared = service.total.is_some() && !service.pushed;
        let at = self.services.len();
        if service.pushed {
            self.pushed.insert(name.to_string());
        }
        for named in service.operators {
            let is_sliceable = named.operator.is_sliceable();
            let name = format!("{name}/{}", named.name);
            self.kinds.push(Kind { name, placement: named.placement, is_sliceable });
            self.entries.push(Entry { operator: named.operator, service: at });
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
        self.services.push(Hosted { name, total, declared, partitions });
    }

    /// What core is told of the aggregations.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        self.kinds.clone()
    }

    /// The services that workers push for.
    pub(crate) fn pushed(&self) -> BTreeSet<String> {
        self.pushed.clone()
    }

    /// What the cluster is told of the services.
    pub(crate) fn cards(&self) -> BTreeMap<String, ServiceCard> {
        let card = |hosted: &Hosted| ServiceCard {
            partitions: hosted.partitions.keys().copied().collect(),
            total: hosted.total,
            declared: hosted.declared,
        };
        self.services.iter().map(|hosted| (hosted.name.to_string(), card(hosted))).collect()
    }

    /// The operator of a kind.
    pub(crate) fn operator(&self, kind: u32) -> Option<&Arc<dyn Operator>> {
        self.entries.get(kind as usize).map(|entry| &entry.operator)
    }

    /// A filter of one of the services.
    pub(crate) fn filter(&self, name: &str) -> Option<Arc<dyn FilterKind>> {
        self.filters.get(name).map(Arc::clone)
    }

    /// What makes the parts of an endpoint in streams.
    pub(crate) fn endpoint(&self, service: &Arc<str>, id: PartitionId) -> Option<&Arc<dyn EndpointKind>> {
        self.endpoints.get(&(Arc::clone(service), id))
    }

    /// A partition of the service that a kind belongs to.
    pub(crate) fn partition(&self, kind: u32, partition: PartitionId) -> Option<&Partition> {
        self.services[self.entries.get(kind as usize)?.service].partitions.get(&partition)
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
    fn a_kind_s_number_finds_its_operator_and_its_own_service_s_partitions() {
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
    fn what_makes_no_sense_is_refused_by_name() {
        let refused = |services| registry(services).err().unwrap().to_string();
        assert!(refused(vec![Service::new("a/b")]).contains("no '/'"));
        assert!(refused(vec![figures(), figures()]).contains("there twice"));
        assert!(refused(vec![figures().partition(4, ()).total(4)]).contains("partition 4 of 4"));
        assert!(refused(vec![figures().total(u32::MAX)]).contains("partitions_max"));
    }
}
