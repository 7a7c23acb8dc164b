//! `treefold shares set`: changes shares at running nodes.

use super::Where;
use super::nodes::Nodes;
use super::shown::tell;
use crate::exit::{Failure, Verdict};
use crate::output::Format;
use crate::parse;
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use treefold::CallError;
use treefold::shares::ShareSetting;

/// Set shares at running nodes, effective from the next job
///
/// A node that restarts has its configured shares again. With --all each node is given the settings of the
/// services that it has. If no node has one of the services, the command fails and sets nothing.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Set {
    /// New share of a service, as in search=3 or nightly=1:batch; without a class the service keeps its class
    #[arg(value_name = "SERVICE=SHARE[:CLASS]", required = true, value_parser = parse::share)]
    settings: Vec<ShareSetting>,

    #[command(flatten)]
    nodes: Where,
}

const EXAMPLES: &str = "\
Examples:
  treefold shares set search=3 nightly=1:batch --at 127.0.0.1:7700
  treefold shares set search=3 --at 127.0.0.1:7700 --all";

impl Set {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let nodes = Nodes::reach(&self.nodes).await?;
        if !self.nodes.all {
            return tell(&nodes.set(|_| self.settings.clone()).await, format);
        }
        let told = nodes.show().await;
        let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (node, report) in told.iter().filter_map(|told| Some((&*told.node, told.said.as_ref().ok()?))) {
            known.insert(node, report.services.iter().map(|account| &*account.service).collect());
        }
        let services: BTreeSet<&str> = known.values().flatten().copied().collect();
        if let Some(stranger) = self.settings.iter().find(|it| !services.contains(&*it.service)) {
            let list = services.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Failure::Rejected(CallError::bad_field("service", &stranger.service, list)));
        }
        let settings_for = |node: &str| {
            let has =
                |setting: &&ShareSetting| known.get(node).is_some_and(|has| has.contains(&*setting.service));
            self.settings.iter().filter(has).cloned().collect()
        };
        tell(&nodes.set(settings_for).await, format)
    }
}
