//! A look as JSON. As in all of `output::json`, field names are part of the interface.

use super::slowest::Subtree;
use super::source::{Look, Nodes};
use super::streamed::Network;
use crate::output::json::{Coverage, Lost, one_each};
use crate::output::rounded;
use serde::Serialize;
use treefold_hosts::Hosts;
use treefold_hosts::bins::Scale;
use treefold_hosts::spread::{Extreme, Spread};

/// One look.
#[derive(Serialize)]
pub(crate) struct Record<'a> {
    /// `full`, `partial` or `insufficient`.
    status: &'static str,
    coverage: Coverage,
    missing: Vec<Lost>,
    elapsed_us: u64,
    /// Spread of each figure over the hosts; null if no host answered.
    spread: Option<Spreads<'a>>,
    /// The tree's slowest subtrees, slowest first.
    slowest: &'a [Subtree],
    nodes: Option<Sight<'a>>,
    /// The stream's tree; null if the look came from a call.
    stream: Option<Streaming>,
    /// The partial as printed by `treefold call hosts/now`; null if no host answered.
    value: Option<&'a Hosts>,
}

#[derive(Serialize)]
struct Spreads<'a> {
    cpu_permille: Quantiles<'a>,
    core_permille: Quantiles<'a>,
    memory_permille: Quantiles<'a>,
    net_bytes_s: Quantiles<'a>,
    disk_bytes_s: Quantiles<'a>,
}

/// Quantiles over hosts, and the hosts at either end.
#[derive(Serialize)]
struct Quantiles<'a> {
    mean: Option<u64>,
    p50: Option<u64>,
    p90: Option<u64>,
    p99: Option<u64>,
    least: Option<&'a Extreme>,
    greatest: Option<&'a Extreme>,
}

/// The nodes in sight.
#[derive(Serialize)]
struct Sight<'a> {
    in_sight: usize,
    #[serde(serialize_with = "rounded")]
    load_ms_mean: f64,
    #[serde(serialize_with = "rounded")]
    load_ms_max: f64,
    most_loaded: &'a str,
    /// Number of streams of the node that was asked, and the bytes that it holds of them.
    streams: usize,
    stream_bytes: usize,
}

/// The current tree of a stream.
#[derive(Serialize)]
struct Streaming {
    levels: usize,
    nodes: usize,
    endpoints: usize,
    /// Endpoints that take no part, with reasons.
    away: Vec<Lost>,
    /// Number of changes of the tree since the stream was opened.
    changes: u64,
}

impl Streaming {
    fn of(network: &Network) -> Self {
        let Network { levels, nodes, endpoints, changes, .. } = *network;
        Self { levels, nodes, endpoints, away: one_each(&network.away), changes }
    }
}

impl<'a> Record<'a> {
    pub(crate) fn of(look: &'a Look) -> Self {
        Self {
            status: look.verdict().name(),
            coverage: Coverage { asked: look.asked, contributed: look.contributed },
            missing: one_each(&look.missing),
            elapsed_us: u64::try_from(look.elapsed.as_micros()).unwrap_or(u64::MAX),
            spread: look.hosts.as_ref().map(Spreads::of),
            slowest: &look.slowest,
            nodes: look.nodes.as_ref().map(Sight::of),
            stream: look.network.as_ref().map(Streaming::of),
            value: look.hosts.as_ref(),
        }
    }
}

impl<'a> Spreads<'a> {
    fn of(hosts: &'a Hosts) -> Self {
        Self {
            cpu_permille: Quantiles::of(&hosts.cpu),
            core_permille: Quantiles::of(&hosts.cores),
            memory_permille: Quantiles::of(&hosts.memory),
            net_bytes_s: Quantiles::of(&hosts.net),
            disk_bytes_s: Quantiles::of(&hosts.disk),
        }
    }
}

impl<'a> Quantiles<'a> {
    fn of<S: Scale>(spread: &'a Spread<S>) -> Self {
        Self {
            mean: spread.mean(),
            p50: spread.quantile(0.5),
            p90: spread.quantile(0.9),
            p99: spread.quantile(0.99),
            least: spread.least(),
            greatest: spread.greatest(),
        }
    }
}

impl<'a> Sight<'a> {
    fn of(nodes: &'a Nodes) -> Self {
        Self {
            in_sight: nodes.in_sight,
            load_ms_mean: nodes.load_ms_mean,
            load_ms_max: nodes.load_ms_max,
            most_loaded: &nodes.most_loaded,
            streams: nodes.streams,
            stream_bytes: nodes.stream_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::top::model::tests::look;
    use serde_json::json;

    #[test]
    fn record_lists_missing_and_worst_hosts() {
        let record = serde_json::to_value(Record::of(&look())).unwrap();
        assert_eq!(record["status"], "partial");
        assert_eq!(record["coverage"], json!({"asked": 4, "contributed": 3}));
        assert_eq!(record["missing"], json!([{"partition": 3, "node": "10.0.0.7:7700", "reason": "late"}]));
        assert_eq!(record["spread"]["cpu_permille"]["greatest"]["host"]["name"], "web-1");
        assert_eq!(record["slowest"][1]["mostly"], "local");
        assert_eq!(record["nodes"]["in_sight"], 4);
        assert_eq!(
            (&record["nodes"]["streams"], &record["nodes"]["stream_bytes"]),
            (&json!(2), &json!(12_288))
        );
        assert_eq!(record["value"]["hosts_by_memory"]["items"][0]["host"]["name"], "db-1");
        assert_eq!(record["value"]["figures"]["cores"], 12);
    }

    #[test]
    fn record_without_hosts_has_nulls() {
        let record = serde_json::to_value(Record::of(&Look::default())).unwrap();
        assert_eq!((&record["status"], &record["value"]), (&json!("insufficient"), &json!(null)));
        assert_eq!(record["spread"], json!(null));
    }
}
