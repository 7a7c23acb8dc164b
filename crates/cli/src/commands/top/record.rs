//! A look as JSON. As with all of `output::json`, names of fields are part of the interface.

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
    /// How each figure is spread over the hosts; null when nobody answered.
    spread: Option<Spreads<'a>>,
    /// The tree's slowest subtrees, slowest first.
    slowest: &'a [Subtree],
    nodes: Option<Sight<'a>>,
    /// The stream's tree; null when a call was answered.
    stream: Option<Streaming>,
    /// The partial as `treefold call hosts/now` gives it; null when nobody answered.
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

/// Quantiles over hosts, and who is at either end.
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
    /// Streams that the node that was asked takes part in, and the bytes that it holds of them.
    streams: usize,
    stream_bytes: usize,
}

/// A stream's tree, as it is now.
#[derive(Serialize)]
struct Streaming {
    levels: usize,
    nodes: usize,
    endpoints: usize,
    /// Endpoints that take no part, and why.
    away: Vec<Lost>,
    /// How often the tree has changed since it was opened.
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
    fn a_record_says_who_is_missing_and_who_is_worst() {
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
    fn nobody_is_null_and_not_zero() {
        let record = serde_json::to_value(Record::of(&Look::default())).unwrap();
        assert_eq!((&record["status"], &record["value"]), (&json!("insufficient"), &json!(null)));
        assert_eq!(record["spread"], json!(null));
    }
}
