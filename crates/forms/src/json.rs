//! The JSON of calls, members and trees.
//!
//! These formats are part of the interface: field names don't change, names of times end with their unit, and
//! a field is either always present or present exactly if its flag was given (`tree` with `--explain`).

use super::packet::payload_json;
use super::value::{Exact, to_json};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use treefold::{EachSlice, Missing, NodeStatus, PartitionSet, Raw, Reply};
use treefold_core::load::figure::LoadFigure;
use treefold_core::membership::card::MemberCard;
use treefold_core::message::Report;
use treefold_core::status::{RefusedTotal, SlowNode, StreamStatus, TotalStatus};

/// A call's answer.
#[derive(Serialize)]
pub struct Answer<V> {
    /// `full`, `partial` or `insufficient`.
    status: &'static str,
    /// Value of the aggregation; null below the minimum coverage.
    value: V,
    /// Number of partitions asked and number of contributors.
    coverage: Coverage,
    /// True if no node declares the number of partitions; then all partitions ever seen were asked.
    total_is_guess: bool,
    /// Partitions that did not contribute, one entry each, ascending.
    missing: Vec<Lost>,
    /// Time of the call, as measured by the caller.
    elapsed_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<TreeNode>,
}

/// An answer without value and status: the reasons why there is no answer, or the accounts of one that is sent apart.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// Number of partitions asked and number of contributors.
    pub coverage: Coverage,
    /// True if no node declares the number of partitions.
    pub total_is_guess: bool,
    /// Partitions that did not contribute, one entry each, ascending.
    pub missing: Vec<Lost>,
    /// Time of the call, as measured by the caller.
    pub elapsed_us: u64,
    /// The tree, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeNode>,
}

impl Account {
    /// The account of a call.
    pub fn of<T>(reply: &Reply<T>) -> Self {
        let Answer { coverage, total_is_guess, missing, elapsed_us, tree, .. } =
            Answer::with_value(reply, ());
        Self { coverage, total_is_guess, missing, elapsed_us, tree }
    }
}

/// One slice of a result that is read slice by slice.
#[derive(Debug, Serialize)]
pub struct SliceAnswer {
    /// Its number, from 0.
    slice: u32,
    value: Value,
}

impl SliceAnswer {
    /// The answer for a slice of a call made with raw bytes.
    pub fn of(slice: u32, value: &Raw) -> Self {
        Self { slice, value: to_json(&value.0) }
    }
}

/// The outcome of a result that is read slice by slice.
#[derive(Debug, Serialize)]
pub struct SlicesAnswer {
    /// `full`, `partial` or `insufficient`. With `insufficient`, the slices before are a part of the result only.
    status: &'static str,
    slices: Taken,
    #[serde(flatten)]
    account: Account,
}

/// Counts of slices.
#[derive(Debug, Serialize)]
struct Taken {
    asked: u32,
    taken: u32,
}

impl SlicesAnswer {
    /// The outcome of the slices that were taken.
    pub fn of(each: &EachSlice<Raw>) -> Self {
        let reply = each.so_far();
        let slices = Taken { asked: each.asked(), taken: each.taken() };
        Self { status: reply.status.name(), slices, account: Account::of(reply) }
    }
}

/// Counts of partitions.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Coverage {
    pub asked: usize,
    pub contributed: usize,
}

/// One missing partition.
#[derive(Clone, Debug, Serialize)]
pub struct Lost {
    pub partition: u32,
    /// The node that was asked for it; null if no node had it.
    pub node: Option<String>,
    pub reason: &'static str,
    /// Message of the operator or of the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// One node of the tree, with its times and its children.
#[derive(Clone, Debug, Serialize)]
pub struct TreeNode {
    pub node: String,
    pub rack: String,
    pub partitions: Vec<u32>,
    pub queue_us: u64,
    pub local_us: u64,
    pub reduce_us: u64,
    pub wait_us: u64,
    pub total_us: u64,
    /// Nodes in whose place this one asked others.
    pub replaced: Vec<String>,
    pub children: Vec<Self>,
}

impl Answer<Value> {
    /// The answer to a call made with raw bytes.
    pub fn of_raw(reply: &Reply<Raw>) -> Self {
        Answer::with_value(reply, reply.value.as_ref().map_or(Value::Null, |raw| to_json(&raw.0)))
    }
}

impl<'a> Answer<Option<Exact<'a>>> {
    /// The answer to a call made with raw bytes, for a format that has bytes.
    pub fn of_raw_exactly(reply: &'a Reply<Raw>) -> Self {
        Answer::with_value(reply, reply.value.as_ref().map(|raw| Exact(&raw.0)))
    }
}

impl Answer<Value> {
    /// The answer to an announcement, whose value is in the application's own format.
    pub fn of_pushed(reply: &Reply<Raw>) -> Self {
        Answer::with_value(reply, reply.value.as_ref().map_or(Value::Null, |raw| payload_json(&raw.0)))
    }
}

impl<'a, T> Answer<&'a Option<T>> {
    /// The answer to a call whose value is known by type.
    pub fn of(reply: &'a Reply<T>) -> Self {
        Self::with_value(reply, &reply.value)
    }
}

impl<V> Answer<V> {
    fn with_value<T>(reply: &Reply<T>, value: V) -> Self {
        Self {
            status: reply.status.name(),
            value,
            coverage: Coverage { asked: reply.asked.len(), contributed: reply.contributed.len() },
            total_is_guess: reply.total_is_guess,
            missing: one_each(&reply.missing),
            elapsed_us: u64::try_from(reply.elapsed.as_micros()).unwrap_or(u64::MAX),
            tree: reply.explain().map(TreeNode::of),
        }
    }
}

/// Returns one entry for each partition, ascending.
pub fn one_each(missing: &[Missing]) -> Vec<Lost> {
    let mut lost: Vec<Lost> = missing
        .iter()
        .flat_map(|missing| {
            missing.partitions.iter().map(|partition| Lost {
                partition,
                node: missing.node.map(|node| node.to_string()),
                reason: missing.reason.name(),
                detail: missing.reason.detail().map(str::to_owned),
            })
        })
        .collect();
    lost.sort_by_key(|lost| lost.partition);
    lost
}

impl TreeNode {
    fn of(report: &Report) -> Self {
        Self {
            node: report.node.to_string(),
            rack: report.rack.clone(),
            partitions: report.partitions.iter().collect(),
            queue_us: report.queue.as_micros() as u64,
            local_us: report.local.as_micros() as u64,
            reduce_us: report.reduce.as_micros() as u64,
            wait_us: report.wait.as_micros() as u64,
            total_us: report.total.as_micros() as u64,
            replaced: report.replaced.iter().map(ToString::to_string).collect(),
            children: report.children.iter().map(Self::of).collect(),
        }
    }
}

/// A node's view of itself and the cluster.
#[derive(Serialize)]
pub struct StatusView {
    pub node: Member,
    pub members: Vec<Member>,
    /// Number of partitions of each service.
    pub totals: BTreeMap<String, Total>,
    pub counters: BTreeMap<&'static str, u64>,
    pub open: treefold_core::status::OpenWork,
    /// True if no member reaches the node by UDP, so that membership uses TCP.
    pub unreached_by_udp: bool,
    /// Streams that the node takes part in; at most 64.
    pub streams: Vec<Stream>,
    /// Nodes that this node passes over because they take longer than others; at most 64.
    pub slow: Vec<Slow>,
}

/// A node that takes longer than others, as a front sees it.
#[derive(Serialize)]
pub struct Slow {
    pub addr: String,
    /// The aggregation; empty for a relay that is slow beside the others of its place.
    pub aggregation: String,
    /// The mean of its recent times.
    pub time_us: u64,
    /// The usual time of the nodes that it is compared with.
    pub usual_us: u64,
    /// For how long it has been slow.
    pub lasts_ms: u64,
}

impl Slow {
    fn of(slow: &SlowNode) -> Self {
        Self {
            addr: slow.node.to_string(),
            aggregation: slow.aggregation.to_string(),
            time_us: slow.time.as_micros(),
            usual_us: slow.usual.as_micros(),
            lasts_ms: slow.lasts.as_millis(),
        }
    }
}

/// A stream, as one of its nodes sees it.
#[derive(Serialize)]
pub struct Stream {
    pub service: String,
    /// Name of the filter on the way up; empty if packets go up unchanged.
    pub up_filter: String,
    pub is_front: bool,
    pub children: u32,
    /// Endpoints on the node and below it.
    pub endpoints: u32,
    /// Endpoints among them that the node has given up.
    pub away: u32,
    pub held_bytes: u64,
    /// Packets, bytes, waves and filter runs since the node joined the stream, by name.
    pub traffic: BTreeMap<&'static str, u64>,
}

impl Stream {
    fn of(status: &StreamStatus) -> Self {
        let StreamStatus { service, up_filter, is_front, children, endpoints, away, held_bytes, traffic } =
            status;
        Self {
            service: service.to_string(),
            up_filter: up_filter.to_string(),
            is_front: *is_front,
            children: *children,
            endpoints: *endpoints,
            away: *away,
            held_bytes: *held_bytes,
            traffic: traffic.figures().into_iter().collect(),
        }
    }
}

/// The services that the members provide, as in a node's view.
#[derive(Serialize)]
pub struct ServicesView {
    pub services: BTreeMap<String, Total>,
}

/// The members, as in a node's view. The first one is the node itself.
#[derive(Serialize)]
pub struct NodesView {
    pub nodes: Vec<Member>,
}

/// Number of partitions of a service, as agreed by the members.
#[derive(Serialize)]
pub struct Total {
    pub total: u32,
    /// False if it is a guess: the highest partition ever seen, plus one.
    pub declared: bool,
    /// Members whose partitions of the service are not used, because their total differs.
    pub refused: Vec<Refused>,
}

/// A member whose total of a service differs from the agreed one.
#[derive(Serialize)]
pub struct Refused {
    pub node: String,
    pub total: u32,
    pub declared: bool,
}

impl Total {
    fn of(status: &TotalStatus) -> Self {
        let refused = |refused: &RefusedTotal| Refused {
            node: refused.node.to_string(),
            total: refused.claim.total,
            declared: refused.claim.declared,
        };
        Self {
            total: status.agreed.total,
            declared: status.agreed.declared,
            refused: status.refused.iter().map(refused).collect(),
        }
    }
}

/// One member of the cluster.
#[derive(Serialize)]
pub struct Member {
    pub addr: String,
    pub rack: String,
    pub zone: String,
    pub roles: Vec<&'static str>,
    pub processors: u32,
    /// Predicted milliseconds of queued work, per processor.
    #[serde(serialize_with = "crate::rounded")]
    pub load_ms: f64,
    pub in_flight: u32,
    /// Recent latency of requests that found the member equally busy; null if there were none.
    pub latency_us: Option<u64>,
    /// Age of the load figures; null if none was ever received, 0 for the node itself.
    pub load_age_ms: Option<u64>,
    pub services: BTreeMap<String, Hosted>,
}

/// A member's partitions of a service.
#[derive(Serialize)]
pub struct Hosted {
    pub partitions: Vec<u32>,
    pub total: u32,
    /// True if the member declares the total, false if it guesses it.
    pub declared: bool,
}

impl ServicesView {
    pub fn of(status: &NodeStatus) -> Self {
        Self { services: totals_of(status) }
    }
}

impl NodesView {
    pub fn of(status: &NodeStatus) -> Self {
        let StatusView { node, members, .. } = StatusView::of(status);
        Self { nodes: std::iter::once(node).chain(members).collect() }
    }
}

fn totals_of(status: &NodeStatus) -> BTreeMap<String, Total> {
    status.totals.iter().map(|total| (total.service.clone(), Total::of(total))).collect()
}

impl StatusView {
    pub fn of(status: &NodeStatus) -> Self {
        let members = status.members.iter().map(|m| Member::of(&m.card, m.load, m.load_age_ms)).collect();
        Self {
            node: Member::of(&status.card, status.load, Some(0)),
            members,
            totals: totals_of(status),
            counters: status.counters.iter().collect(),
            open: status.open,
            unreached_by_udp: status.unreached_by_udp,
            streams: status.streams.iter().map(Stream::of).collect(),
            slow: status.slow.iter().map(Slow::of).collect(),
        }
    }
}

impl Member {
    fn of(card: &MemberCard, load: LoadFigure, load_age_ms: Option<u64>) -> Self {
        let services = card.services.iter().map(|(name, service)| {
            let partitions = service.partitions.iter().collect();
            (name.clone(), Hosted { partitions, total: service.total, declared: service.declared })
        });
        Self {
            addr: card.node.to_string(),
            rack: card.rack.clone(),
            zone: card.zone.clone(),
            roles: role_names(card),
            processors: card.processors,
            load_ms: load_ms_per_processor(load),
            latency_us: (!load.latency.is_zero()).then(|| load.latency.as_micros()),
            in_flight: load.in_flight,
            load_age_ms,
            services: services.collect(),
        }
    }
}

/// Returns the roles that a card names.
pub fn role_names(card: &MemberCard) -> Vec<&'static str> {
    let roles = [(card.roles.provider, "provider"), (card.roles.relay, "relay")];
    roles.into_iter().filter_map(|(has, name)| has.then_some(name)).collect()
}

/// Returns the load index: predicted milliseconds of queued work, per processor.
pub fn load_ms_per_processor(load: LoadFigure) -> f64 {
    load.queued.as_millis_f64() / f64::from(load.processors.max(1))
}

/// Formats a service's partitions on one node: `search 0-3/12`.
pub fn hosted(name: &str, partitions: &PartitionSet, total: u32) -> String {
    if partitions.is_empty() { name.to_owned() } else { format!("{name} {partitions}/{total}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::Reason;
    use treefold_core::id::NodeId;
    use treefold_core::time::Duration;

    fn node(port: u16) -> NodeId {
        NodeId::new(([127, 0, 0, 1], port).into(), 1)
    }

    #[test]
    fn every_missing_partition_has_an_entry_of_its_own() {
        let missing = [
            Missing {
                partitions: [4, 5].into_iter().collect(),
                node: Some(node(7)),
                reason: Reason::LocalFailed("disk gone".into()),
            },
            Missing { partitions: [1].into_iter().collect(), node: None, reason: Reason::NoReplica },
        ];
        let shown = serde_json::to_value(one_each(&missing)).unwrap();
        assert_eq!(
            shown,
            serde_json::json!([
                {"partition": 1, "node": null, "reason": "no_replica"},
                {"partition": 4, "node": "127.0.0.1:7", "reason": "local_failed", "detail": "disk gone"},
                {"partition": 5, "node": "127.0.0.1:7", "reason": "local_failed", "detail": "disk gone"},
            ])
        );
    }

    #[test]
    fn the_load_index_is_per_processor() {
        let load = LoadFigure {
            queued: Duration::from_millis(30),
            in_flight: 2,
            processors: 4,
            latency: Duration::ZERO,
        };
        assert_eq!(load_ms_per_processor(load), 7.5);
    }
}
