//! `treefold placement node`: the placement as one node reports it, with loads that fail.

use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json};
use crate::parse;
use clap::Args;
use treefold::PartitionSet;
use treefold::placement::PlacementReport;

/// Show the partitions that one node holds, loads and gives up, and loads that fail
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Node {
    /// Address of the node
    #[arg(value_name = "NODE", value_parser = parse::address)]
    node: String,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Examples:
  treefold placement node 10.0.0.7:7700
  treefold placement node 10.0.0.7:7700 -o json";

impl Node {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let client = connect(std::slice::from_ref(&self.node), false, &self.cluster).await?;
        let report = client.placement().await.map_err(failure_of)?;
        match format {
            Format::Json => print_json(&json(&self.node, &report)),
            Format::Text => print(text(&report)),
        }
        Ok(Verdict::Full)
    }
}

fn json(node: &str, report: &PlacementReport) -> serde_json::Value {
    let services = report.services.iter().map(|service| {
        let failures = service.failures.iter().map(|failure| {
            serde_json::json!({
                "partition": failure.partition, "tries": failure.tries, "reason": &*failure.reason
            })
        });
        serde_json::json!({
            "service": service.service,
            "partitions": service.total,
            "replicas": service.replicas,
            "held": text_of(&service.held),
            "assigned": text_of(&service.assigned),
            "loading": text_of(&service.loading),
            "leaving": text_of(&service.leaving),
            "pinned": text_of(&service.pinned),
            "refused": text_of(&service.refused),
            "alone": text_of(&service.alone),
            "failures": failures.collect::<Vec<_>>(),
        })
    });
    serde_json::json!({
        "node": node,
        "draining": report.draining,
        "calm": report.is_calm,
        "services": services.collect::<Vec<_>>(),
    })
}

fn text(report: &PlacementReport) -> String {
    let state = if report.draining { "drained" } else { "takes part" };
    let rest = if report.is_calm { "nothing is under way" } else { "partitions are on their way" };
    let mut table =
        Table::new(&[("service", Align::Left), ("partitions", Align::Left), ("numbers", Align::Left)]);
    for service in &report.services {
        let sets = [
            ("held", &service.held),
            ("held here alone", &service.alone),
            ("assigned", &service.assigned),
            ("loading", &service.loading),
            ("leaving", &service.leaving),
            ("pinned", &service.pinned),
            ("refused", &service.refused),
        ];
        for (name, set) in sets.into_iter().filter(|(_, set)| !set.is_empty()) {
            table.row(vec![service.service.clone(), name.to_owned(), set.to_string()]);
        }
    }
    let mut lines = vec![format!("{state}; {rest}"), table.render(Style::of_stdout())];
    for service in &report.services {
        for failure in &service.failures {
            let (name, partition, tries) = (&service.service, failure.partition, failure.tries);
            lines.push(format!("{name} {partition} can't be loaded, {tries} times: {}", failure.reason));
        }
    }
    lines.join("\n")
}

/// The set as in `0-3,7`; empty if it has no partitions.
pub(super) fn text_of(set: &PartitionSet) -> String {
    if set.is_empty() { String::new() } else { set.to_string() }
}
