//! The nodes whose shares are shown or set.
//!
//! Each is asked over a connection of its own, because a node sets only its own shares and reports them
//! itself.

use super::Where;
use crate::commands::{connect, failure_of};
use crate::exit::Failure;
use tokio::task::JoinSet;
use treefold::Client;
use treefold::shares::{ShareSetting, SharesReport};

/// A node, with its report or the failure to get it.
pub(super) struct Told {
    pub(super) node: String,
    pub(super) said: Result<SharesReport, Failure>,
}

/// A node, with the connection to it or the failure to connect.
struct Reached {
    node: String,
    client: Result<Client, Failure>,
}

/// The selected nodes.
pub(super) struct Nodes(Vec<Reached>);

impl Nodes {
    /// Connects to all selected nodes.
    ///
    /// # Errors
    /// If no node answers at the given address.
    pub(super) async fn reach(them: &Where) -> Result<Self, Failure> {
        let first = connect(&them.at, false, &them.cluster).await?;
        let status = first.status().await.map_err(failure_of)?;
        let node = status.card.node.addr.to_string();
        let mut reached = vec![Reached { node, client: Ok(first) }];
        if them.all {
            let mut open = JoinSet::new();
            for member in &status.members {
                let (node, cluster) = (member.card.node.addr.to_string(), them.cluster.clone());
                open.spawn(async move {
                    let client = connect(std::slice::from_ref(&node), false, &cluster).await;
                    Reached { node, client }
                });
            }
            reached.extend(open.join_all().await);
        }
        reached.sort_by(|a, b| a.node.cmp(&b.node));
        Ok(Self(reached))
    }

    /// Returns the report of each node.
    pub(super) async fn show(&self) -> Vec<Told> {
        self.set(|_| Vec::new()).await
    }

    /// Sets at each node its settings, at all nodes at once.
    pub(super) async fn set(&self, settings_for: impl Fn(&str) -> Vec<ShareSetting>) -> Vec<Told> {
        let mut open = JoinSet::new();
        for Reached { node, client } in &self.0 {
            let (node, client, settings) = (node.clone(), client.clone(), settings_for(node));
            open.spawn(async move {
                let said = match client {
                    Ok(client) => client.set_shares(settings).await.map_err(failure_of),
                    Err(failure) => Err(failure),
                };
                Told { node, said }
            });
        }
        let mut told = open.join_all().await;
        told.sort_by(|a, b| a.node.cmp(&b.node));
        told
    }
}
