//! `treefold drain`: a node hands its partitions over to other nodes.

use super::waiting::{Patience, Wait};
use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use crate::parse;
use clap::Args;
use serde::Serialize;
use treefold::placement::{PlacementAsk, PlacementReport, ServicePlacement};

/// Let a node hand its partitions over to other nodes, before it is stopped
///
/// Other nodes load the partitions first, so no call misses one. The command returns when the node holds no
/// partitions of services that are placed automatically. It warns of partitions that were placed by hand and
/// that no other node holds. The node stays drained until it is stopped, or until --undo.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Drain {
    /// Address of the node
    #[arg(value_name = "NODE", value_parser = parse::address)]
    node: String,

    /// Take part in the placement again
    #[arg(long)]
    undo: bool,

    #[command(flatten)]
    patience: Patience,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Examples:
  treefold drain 10.0.0.7:7700 && ssh 10.0.0.7 systemctl stop treefold-node
  treefold drain 10.0.0.7:7700 --undo";

#[derive(Serialize)]
struct Drained<'a> {
    node: &'a str,
    draining: bool,
    /// Partitions that the node still holds, by service.
    held: Vec<Held>,
    /// Partitions that were placed by hand and that no other node holds, by service.
    alone: Vec<Held>,
}

#[derive(Serialize)]
struct Held {
    service: String,
    partitions: String,
}

impl Drain {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let client = connect(std::slice::from_ref(&self.node), false, &self.cluster).await?;
        let mut report = client.place(PlacementAsk::Drain(!self.undo)).await.map_err(failure_of)?;
        if !self.undo && !self.patience.no_wait {
            let wait = Wait {
                node: &self.node,
                timeout: self.patience.timeout,
                left: &left,
                rest: &|report| listed(&held(report)),
            };
            report = wait.until_done(&client).await?;
        }
        let alone = alone(&report);
        if !self.undo && !alone.is_empty() {
            let node = &self.node;
            crate::tell!(
                "treefold: only {node} holds {}, which are placed by hand: calls miss them when it stops",
                listed(&alone)
            );
        }
        match format {
            Format::Json => {
                let (node, draining, held) = (&self.node, report.draining, held(&report));
                print_json(&Drained { node, draining, held, alone });
            }
            Format::Text if self.undo => print(format!("{} takes part in the placement again", self.node)),
            Format::Text if self.patience.no_wait => {
                print(format!("{} hands its partitions over", self.node));
            }
            Format::Text => print(format!("{} is drained and can be stopped", self.node)),
        }
        Ok(Verdict::Full)
    }
}

fn is_automatic(service: &&ServicePlacement) -> bool {
    service.replicas > 0
}

/// Partitions that have not left yet.
fn left(report: &PlacementReport) -> usize {
    report
        .services
        .iter()
        .filter(is_automatic)
        .map(|service| service.held.len() + service.leaving.len())
        .sum()
}

fn held(report: &PlacementReport) -> Vec<Held> {
    let services = report.services.iter().filter(is_automatic).filter(|service| !service.held.is_empty());
    services
        .map(|service| Held { service: service.service.clone(), partitions: service.held.to_string() })
        .collect()
}

fn alone(report: &PlacementReport) -> Vec<Held> {
    let by_hand = report.services.iter().filter(|service| service.replicas == 0 && !service.alone.is_empty());
    by_hand
        .map(|service| Held { service: service.service.clone(), partitions: service.alone.to_string() })
        .collect()
}

fn listed(held: &[Held]) -> String {
    let one = |held: &Held| format!("{} {}", held.service, held.partitions);
    held.iter().map(one).collect::<Vec<_>>().join(", ")
}
