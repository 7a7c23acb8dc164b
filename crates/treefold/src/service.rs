//! Services: the operators of a node, and the data that they run on.
//!
//! A [`Service`] is declared once, with concrete types, and taken apart when its node starts. Core learns
//! the names and where each aggregation runs. Other nodes learn which partitions live here. The operators
//! and the data go into a `Registry`, where a job finds them by number. Core names a job's aggregation by
//! its index in [`NodeConfig::kinds`](treefold_core::config::NodeConfig), so the registry must keep that
//! order.

mod modular;
mod registry;
mod undeclared;

pub use registry::MakeReduce;
pub(crate) use registry::{LEARNED_MAX, Registry};

use crate::endpoint::EndpointKind;
use crate::error::StartError;
use crate::foreign::{Foreign, NAME_PREFIX, Sent};
use crate::isolated;
use bytes::Bytes;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use treefold_core::config::Placement as KindPlacement;
use treefold_core::id::PartitionId;
use treefold_core::limits::Limits;
use treefold_core::placement::{PLACED_PARTITIONS_MAX, REPLICAS_MAX};
use treefold_operators::{
    AsyncAggregation, FilterKind, Operator, Placement, SeparateAggregation, erase, erase_async,
};

/// The data of one partition.
pub type PartitionData = Arc<dyn Any + Send + Sync>;

/// Loads the data of a service's partitions, one at a time, on a thread of its own. It may block.
///
/// It is a trait for the loaders that have state. [`Service::placed`] also takes functions.
pub trait LoadPartition: Send + Sync + 'static {
    /// Loads one partition.
    ///
    /// # Errors
    /// A sentence for the operator. The node tries again later, and leaves the partition to other nodes after some failures.
    fn load(&self, partition: PartitionId) -> Result<PartitionData, String>;
}

impl<F, T, E> LoadPartition for F
where
    F: Fn(PartitionId) -> Result<T, E> + Send + Sync + 'static,
    T: Any + Send + Sync,
    E: fmt::Display,
{
    fn load(&self, partition: PartitionId) -> Result<PartitionData, String> {
        match self(partition) {
            Ok(data) => Ok(Arc::new(data)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// How a service's partitions are placed automatically.
#[derive(Clone)]
struct Placing {
    replicas: u32,
    loader: Arc<dyn LoadPartition>,
}

/// A named service: its aggregations, and its partitions on this node.
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
    partitions: BTreeMap<PartitionId, PartitionData>,
    endpoints: BTreeMap<PartitionId, Arc<dyn EndpointKind>>,
    filters: Vec<(String, Arc<dyn FilterKind>)>,
    total: Option<u32>,
    pushed: bool,
    placing: Option<Placing>,
    /// The name under which other nodes have its aggregations.
    kind: Option<&'static str>,
    /// The most processes for its locals, if these do not run in the node's process.
    isolated: Option<usize>,
}

#[derive(Clone)]
struct NamedOperator {
    name: String,
    operator: Arc<dyn Operator>,
    placement: KindPlacement,
    /// The bytes of the module that folds its partials, until the node starts.
    module: Option<Bytes>,
}

impl Service {
    /// A service without aggregations or partitions. The name must not be empty or contain `/`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into().into(),
            operators: Vec::new(),
            partitions: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            filters: Vec::new(),
            total: None,
            pushed: false,
            placing: None,
            kind: None,
            isolated: None,
        }
    }

    /// Tells nodes without the service that they have its aggregations as `kind/AGGREGATION`: as the
    /// [`MakeReduce`] of these nodes names them.
    #[must_use]
    pub fn kind(mut self, kind: &'static str) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Adds an aggregation; callers name it `service/name`. It is an [`Aggregation`](crate::Aggregation), or a
    /// [`SeparateAggregation`] if its reduce has parameters of another type.
    #[must_use]
    pub fn aggregation(self, name: impl Into<String>, aggregation: impl SeparateAggregation) -> Self {
        self.operator(name, erase(aggregation))
    }

    /// Adds an aggregation whose operators wait instead of computing. They run as futures on the node's
    /// loop.
    #[must_use]
    pub fn async_aggregation(mut self, name: impl Into<String>, aggregation: impl AsyncAggregation) -> Self {
        let holds_processor = aggregation.holds_processor();
        self.operators.push(NamedOperator {
            name: name.into(),
            operator: erase_async(aggregation),
            placement: KindPlacement::Async { holds_processor },
            module: None,
        });
        self
    }

    /// Adds an aggregation with its own encoding of parameters and partials.
    #[must_use]
    pub fn operator(mut self, name: impl Into<String>, operator: Arc<dyn Operator>) -> Self {
        let placement = placement_of(&*operator);
        self.operators.push(NamedOperator { name: name.into(), operator, placement, module: None });
        self
    }

    /// Folds the partials of the aggregation that was added last with this module, in place of its own reduce. The node needs a
    /// loader ([`NodeBuilder::foreign`](crate::NodeBuilder::foreign)).
    ///
    /// The module travels: relays and fronts that have such a loader, and nothing of the service, fetch it from a node of the service,
    /// and fold. It gets two partials as they are encoded, and the parameters of the call's reduce, and must be the same at
    /// all nodes of the service.
    #[must_use]
    pub fn reduce_module(mut self, module: impl Into<Bytes>) -> Self {
        if let Some(last) = self.operators.last_mut() {
            last.module = Some(module.into());
        }
        self
    }

    /// Makes the modules, and returns them. It takes as long as a compiler.
    pub(crate) fn load_modules(
        &mut self,
        foreign: Option<&Arc<dyn Foreign>>,
    ) -> Result<Vec<Arc<Sent>>, StartError> {
        let mut made = Vec::new();
        for named in &mut self.operators {
            let Some(bytes) = named.module.take() else { continue };
            let waits = matches!(named.placement, KindPlacement::Async { .. });
            let locals = Arc::clone(&named.operator);
            let loaded = modular::load(bytes, foreign)
                .and_then(|sent| Ok((modular::with_locals(Arc::clone(&sent), locals, waits)?, sent)));
            let (operator, sent) = loaded.map_err(|problem| StartError::Service {
                service: self.name.to_string(),
                problem: format!("the module of {:?}: {problem}", named.name),
            })?;
            named.operator = operator;
            made.push(sent);
        }
        Ok(made)
    }

    /// Adds partition `id` with its data to this node. A second partition with the same number replaces the
    /// first.
    #[must_use]
    pub fn partition(self, id: PartitionId, data: impl Any + Send + Sync) -> Self {
        self.partition_arc(id, Arc::new(data))
    }

    /// Adds a partition like [`partition`](Self::partition), with data that is shared with others.
    #[must_use]
    pub fn partition_arc(mut self, id: PartitionId, data: Arc<dyn Any + Send + Sync>) -> Self {
        self.partitions.insert(id, data);
        self
    }

    /// Adds endpoints of the service to this node: partitions that take part in streams. A number without a
    /// partition gets one with empty data.
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

    /// Declares how many partitions the service has in all, over all nodes.
    ///
    /// All nodes of a cluster must declare the same total. If a node's total differs, its start fails with
    /// an error that names the service, and its partitions are not used.
    ///
    /// If no node declares a total, the cluster guesses it: the highest partition that it has ever seen,
    /// plus one. Replies mark that guess ([`Reply::total_is_guess`](crate::Reply::total_is_guess)): a
    /// partition that no node has announced yet is neither asked nor missing.
    #[must_use]
    pub fn total(mut self, partitions: u32) -> Self {
        self.total = Some(partitions);
        self
    }

    /// Removes a declared total: the cluster then guesses it from the partitions on its nodes.
    #[must_use]
    pub fn guess_total(mut self) -> Self {
        self.total = None;
        self
    }

    /// Lets the nodes of the cluster share the service's partitions among themselves: each node loads its own with `loader`,
    /// and the cluster holds `replicas` copies of each, in different zones if there are enough.
    ///
    /// The service must declare its [`total`](Self::total), and every node must be able to load each partition, for example
    /// from a shared folder. Partitions move while nodes join, leave and fail; see [`crate::placement`].
    ///
    /// ```
    /// use treefold::Service;
    /// let service = Service::new("logs").total(64).placed(2, |partition| {
    ///     std::fs::read_to_string(format!("/shared/logs/{partition}.txt"))
    /// });
    /// ```
    #[must_use]
    pub fn placed(mut self, replicas: u32, loader: impl LoadPartition) -> Self {
        self.placing = Some(Placing { replicas, loader: Arc::new(loader) });
        self
    }

    /// Runs the locals in up to `processes` processes of their own, so that a crash (a segmentation fault, an abort, a kill for
    /// want of memory) or an endless loop costs one partition, and not the node.
    ///
    /// A process is this program, started again with the same arguments: where it would start its node, it serves locals. So
    /// everything before [`start`](crate::NodeBuilder::start) runs in each process too, and loads the partitions' data again; what
    /// must not run twice asks [`is_isolated`](crate::is_isolated). Its standard input belongs to the library. A process is
    /// started when a local needs one, and killed when nobody waits for its local any longer. The first locals wait until it has
    /// loaded its data. Filters, endpoints and reduces run in the node.
    ///
    /// Aggregations of such a service must not wait (be asynchronous), and its partitions are those that it declares: they can't be
    /// placed automatically.
    #[must_use]
    pub fn isolated(mut self, processes: usize) -> Self {
        self.isolated = Some(processes);
        self
    }

    /// The same service, with its locals in this process.
    pub(crate) fn in_process(mut self) -> Self {
        self.isolated = None;
        self
    }

    /// Makes the service an application whose workers attach to this node and push ([`crate::push`]).
    ///
    /// Each worker is a partition, and there are no other partitions. The aggregations' locals never run.
    #[must_use]
    pub fn pushed(mut self) -> Self {
        self.pushed = true;
        self
    }

    /// The aggregation's operator.
    pub(crate) fn operator_of(&self, aggregation: &str) -> Option<&dyn Operator> {
        let named = self.operators.iter().find(|named| named.name == aggregation)?;
        Some(&*named.operator)
    }

    /// Takes a partition's data out of the service.
    #[doc(hidden)]
    pub fn into_partition(mut self, id: PartitionId) -> Option<Arc<dyn Any + Send + Sync>> {
        self.partitions.remove(&id)
    }

    /// The names of the aggregations.
    pub fn aggregations(&self) -> impl Iterator<Item = &str> {
        self.operators.iter().map(|named| &*named.name)
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
        check_name(&self.name)?;
        for (at, named) in self.operators.iter().enumerate() {
            if named.name.is_empty() || named.name.contains('/') {
                return refuse(format!(
                    "{:?}: an aggregation's name must not be empty or contain '/'",
                    named.name
                ));
            }
            if named.name.starts_with(NAME_PREFIX) {
                return refuse(format!(
                    "{:?}: names that begin with {NAME_PREFIX:?} are those of operators that are sent",
                    named.name
                ));
            }
            if self.operators[..at].iter().any(|earlier| earlier.name == named.name) {
                return refuse(format!("the aggregation {:?} is declared twice", named.name));
            }
        }
        if self.pushed && !self.partitions.is_empty() {
            return refuse(
                "its partitions are the workers that attach; it must not have any others".to_string(),
            );
        }
        if let Some(problem) = self.placing.as_ref().and_then(|placing| self.misplaced(placing)) {
            return refuse(problem);
        }
        let waits = self.operators.iter().any(|named| matches!(named.placement, KindPlacement::Async { .. }));
        let isolated = self
            .isolated
            .and_then(|processes| isolated::refusal(processes, waits, self.placing.is_some(), self.pushed));
        if let Some(problem) = isolated {
            return refuse(problem);
        }
        let total = self.total_or_default();
        if total > limits.partitions_max {
            let max = limits.partitions_max;
            return refuse(format!("{total} partitions; allowed: at most {max} (partitions_max)"));
        }
        match self.partitions.keys().next_back() {
            Some(&last) if last >= total => {
                refuse(format!("partition {last} of {total}: partitions are numbered from 0"))
            }
            _ => Ok(()),
        }
    }
}

impl Service {
    /// Why the service's partitions can't be placed automatically.
    fn misplaced(&self, placing: &Placing) -> Option<String> {
        let Some(total) = self.total else {
            return Some("to place its partitions automatically, declare their total".to_string());
        };
        if total > PLACED_PARTITIONS_MAX {
            return Some(format!(
                "{total} partitions; allowed if they are placed automatically: {PLACED_PARTITIONS_MAX}"
            ));
        }
        if !(1..=REPLICAS_MAX).contains(&placing.replicas) {
            return Some(format!("{} replicas; allowed: 1 to {REPLICAS_MAX}", placing.replicas));
        }
        let by_hand = self.pushed || !self.endpoints.is_empty() || !self.partitions.is_empty();
        by_hand.then(|| {
            "its partitions are placed automatically, so none can be added by hand, also no endpoints"
                .to_string()
        })
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

/// Where core runs the jobs of an operator.
fn placement_of(operator: &dyn Operator) -> KindPlacement {
    if !operator.holds_processor() {
        return KindPlacement::Async { holds_processor: false };
    }
    match operator.placement() {
        Placement::Pool => KindPlacement::Pool,
        Placement::Inline => KindPlacement::Inline,
        Placement::Measured => KindPlacement::Measured,
    }
}

/// Refuses a text that can't be a service's name.
pub fn check_name(name: &str) -> Result<(), StartError> {
    if name.is_empty() || name.contains('/') {
        let problem = "a service's name must not be empty or contain '/'".to_string();
        return Err(StartError::Service { service: name.to_string(), problem });
    }
    Ok(())
}
