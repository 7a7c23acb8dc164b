//! `treefold placement show`: the partitions of each service by node, from the cards that one node knows.

use super::node::text_of;
use crate::args::At;
use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use treefold::{NodeStatus, PartitionSet};
use treefold_core::membership::card::{self, MemberCard, ServiceCard};

/// Show which nodes hold which partitions of each service
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Show {
    /// Service to show [default: all]
    #[arg(value_name = "SERVICE")]
    service: Option<String>,

    #[command(flatten)]
    at: At,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Examples:
  treefold placement show --at 10.0.0.7:7700
  treefold placement show search --at 10.0.0.7:7700 -o json";

/// One service.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Placed {
    pub(crate) service: String,
    pub(crate) partitions: u32,
    /// Copies that the cluster shall hold; 0 if the service is placed by hand.
    pub(crate) replicas: u32,
    /// Partitions without any holder.
    pub(crate) missing: String,
    /// Partitions with fewer holders than replicas.
    pub(crate) under_replicated: String,
    nodes: Vec<Holder>,
}

/// A node of a service.
#[derive(Debug, PartialEq, Serialize)]
struct Holder {
    node: String,
    name: String,
    zone: String,
    draining: bool,
    held: usize,
    partitions: String,
    pinned: String,
    refused: String,
}

impl Show {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let client = connect(&self.at, false, &self.cluster).await?;
        let status = client.status().await.map_err(failure_of)?;
        let mut services = placed(&status);
        // Nodes fold for services that no node holds partitions of.
        services.retain(|placed| placed.partitions > 0 || self.service.is_some());
        if let Some(wanted) = &self.service {
            let known: Vec<String> = services.iter().map(|placed| placed.service.clone()).collect();
            services.retain(|placed| placed.service == *wanted);
            if services.is_empty() {
                let known = known.join(", ");
                return Err(Failure::usage(format!("no node has a service {wanted:?}; there are: {known}")));
            }
        }
        match format {
            Format::Json => print_json(&services),
            Format::Text if services.is_empty() => print("no node holds partitions"),
            Format::Text => print(text(&services)),
        }
        Ok(Verdict::Full)
    }
}

/// The placement of each service, by name.
pub(crate) fn placed(status: &NodeStatus) -> Vec<Placed> {
    let cards = std::iter::once(&status.card).chain(status.members.iter().map(|member| &member.card));
    let mut services: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for card in cards {
        for (name, service) in &card.services {
            services.entry(name).or_default().push((card, service));
        }
    }
    let of = |(name, mut nodes): (&str, Vec<(&Arc<MemberCard>, &ServiceCard)>)| {
        nodes.sort_by_key(|(card, _)| card.node);
        let total = nodes.iter().map(|(_, service)| service.total.max(service.end())).max().unwrap_or(0);
        let replicas = nodes.iter().filter_map(|(_, service)| Some(service.placed.as_ref()?.replicas)).max();
        let copies =
            |partition| nodes.iter().filter(|(_, service)| service.partitions.contains(partition)).count();
        let below = |least: usize| -> String {
            text_of(&(0..total).filter(|&partition| copies(partition) < least).collect())
        };
        let holders = nodes.iter().map(|(card, service)| {
            let set = |of: fn(&card::Placed) -> &PartitionSet| {
                service.placed.as_ref().map_or_else(String::new, |placed| text_of(of(placed)))
            };
            Holder {
                node: card.node.addr.to_string(),
                name: card.name.clone(),
                zone: card.zone.clone(),
                draining: card.roles.draining,
                held: service.partitions.len(),
                partitions: text_of(&service.partitions),
                pinned: set(|placed| &placed.pinned),
                refused: set(|placed| &placed.refused),
            }
        });
        Placed {
            service: name.to_owned(),
            partitions: total,
            replicas: replicas.unwrap_or(0),
            missing: below(1),
            under_replicated: below(replicas.unwrap_or(0) as usize),
            nodes: holders.collect(),
        }
    };
    services.into_iter().map(of).collect()
}

/// The services one below the other, with an empty line between them.
fn text(services: &[Placed]) -> String {
    services.iter().map(section).collect::<Vec<_>>().join("\n\n")
}

fn section(placed: &Placed) -> String {
    let how = match placed.replicas {
        0 => "placed by hand".to_owned(),
        1 => "placed automatically".to_owned(),
        replicas => format!("placed automatically, {replicas} replicas"),
    };
    let heading = format!("{}: {} partitions, {how}", placed.service, placed.partitions);
    let mut table = Table::new(&[
        ("node", Align::Left),
        ("zone", Align::Left),
        ("held", Align::Right),
        ("partitions", Align::Left),
        ("notes", Align::Left),
    ]);
    for holder in &placed.nodes {
        table.row(vec![
            if holder.name.is_empty() {
                holder.node.clone()
            } else {
                format!("{} ({})", holder.node, holder.name)
            },
            holder.zone.clone(),
            holder.held.to_string(),
            holder.partitions.clone(),
            notes(holder),
        ]);
    }
    let mut lines = vec![heading, table.render(Style::of_stdout())];
    if !placed.missing.is_empty() {
        lines.push(format!("no node holds: {}", placed.missing));
    }
    if !placed.under_replicated.is_empty() {
        lines.push(format!("fewer replicas than {}: {}", placed.replicas, placed.under_replicated));
    }
    lines.join("\n")
}

fn notes(holder: &Holder) -> String {
    let mut notes = Vec::new();
    if holder.draining {
        notes.push("draining".to_owned());
    }
    if !holder.pinned.is_empty() {
        notes.push(format!("pinned {}", holder.pinned));
    }
    if !holder.refused.is_empty() {
        notes.push(format!("refuses {}", holder.refused));
    }
    notes.join("; ")
}
