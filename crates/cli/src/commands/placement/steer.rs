//! `treefold placement move` and `release`: partitions that are placed automatically, moved by hand.

use super::waiting::{Patience, Wait};
use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use crate::parse;
use clap::Args;
use serde::Serialize;
use std::sync::Arc;
use treefold::PartitionSet;
use treefold::placement::{PlacementAsk, PlacementReport};

/// Move partitions of a service from one node to another
///
/// The service must be placed automatically. The receiving node loads the partitions, then the other gives
/// them up. Both keep to that until `treefold placement release`, or until they are restarted.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Move {
    /// Service
    #[arg(value_name = "SERVICE")]
    service: Arc<str>,

    /// Partitions, as in 0-3,7
    #[arg(value_name = "PARTITIONS", value_parser = parse::partitions)]
    partitions: PartitionSet,

    /// Node that gives the partitions up
    #[arg(long, value_name = "NODE", value_parser = parse::address)]
    from: String,

    /// Node that takes them
    #[arg(long, value_name = "NODE", value_parser = parse::address)]
    to: String,

    #[command(flatten)]
    patience: Patience,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

/// Let a node hold partitions by the rule again, after they were moved by hand
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Release {
    /// Service
    #[arg(value_name = "SERVICE")]
    service: Arc<str>,

    /// Partitions, as in 0-3,7
    #[arg(value_name = "PARTITIONS", value_parser = parse::partitions)]
    partitions: PartitionSet,

    /// Nodes that have taken the partitions or given them up
    #[arg(long, value_name = "NODE", required = true, value_delimiter = ',', value_parser = parse::address)]
    at: Vec<String>,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Examples:
  treefold placement move search 3,5 --from 10.0.0.7:7700 --to 10.0.0.8:7700
  treefold placement release search 3,5 --at 10.0.0.7:7700,10.0.0.8:7700";

#[derive(Serialize)]
struct Moved<'a> {
    service: &'a str,
    partitions: String,
    from: &'a str,
    to: &'a str,
}

impl Move {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        if self.from == self.to {
            return Err(Failure::usage(format!("--from and --to are both {}; give two nodes", self.from)));
        }
        let from = connect(std::slice::from_ref(&self.from), false, &self.cluster).await?;
        let to = connect(std::slice::from_ref(&self.to), false, &self.cluster).await?;
        let (service, partitions) = (&self.service, &self.partitions);
        let ask = PlacementAsk::Pin { service: Arc::clone(service), partitions: partitions.clone() };
        to.place(ask).await.map_err(failure_of)?;
        let ask = PlacementAsk::Refuse { service: Arc::clone(service), partitions: partitions.clone() };
        from.place(ask).await.map_err(failure_of)?;
        if !self.patience.no_wait {
            self.wait(&self.to, &to, &|report| partitions.difference(&self.held(report))).await?;
            self.wait(&self.from, &from, &|report| partitions.intersection(&self.held(report))).await?;
        }
        let partitions = partitions.to_string();
        match format {
            Format::Json => print_json(&Moved { service, partitions, from: &self.from, to: &self.to }),
            Format::Text if self.patience.no_wait => {
                print(format!("{} takes {service} {partitions}", self.to));
            }
            Format::Text => print(format!("{} holds {service} {partitions}", self.to)),
        }
        Ok(Verdict::Full)
    }

    fn held(&self, report: &PlacementReport) -> PartitionSet {
        let service = report.services.iter().find(|placed| placed.service == *self.service);
        service.map(|placed| placed.held.clone()).unwrap_or_default()
    }

    async fn wait(
        &self,
        node: &str,
        client: &treefold::Client,
        left: &dyn Fn(&PlacementReport) -> PartitionSet,
    ) -> Result<(), Failure> {
        let rest = |report: &PlacementReport| format!("{} {}", self.service, left(report));
        let left = |report: &PlacementReport| left(report).len();
        let wait = Wait { node, timeout: self.patience.timeout, left: &left, rest: &rest };
        wait.until_done(client).await.map(drop)
    }
}

impl Release {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        for node in &self.at {
            let client = connect(std::slice::from_ref(node), false, &self.cluster).await?;
            let (service, partitions) = (Arc::clone(&self.service), self.partitions.clone());
            client.place(PlacementAsk::Release { service, partitions }).await.map_err(failure_of)?;
        }
        if format == Format::Text {
            print(format!("{} {} are placed by the rule again", self.service, self.partitions));
        }
        Ok(Verdict::Full)
    }
}
