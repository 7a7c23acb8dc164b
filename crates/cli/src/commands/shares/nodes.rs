//! The nodes whose shares are shown or set. Each is asked over a connection of its own: a node sets its own shares only,
//! and whoever is told says so itself.

use super::Where;
use crate::commands::{connect, failure_of};
use crate::exit::Failure;
use tokio::task::JoinSet;
use treefold::Client;
use treefold::shares::{ShareSetting, SharesReport};

/// A node, and what it says of its shares; or why it doesn't.
pub(super) struct Told {
    pub(super) node: String,
    pub(super) said: Result<SharesReport, Failure>,
}

/// A node that can be asked.
struct Reached {
    node: String,
    client: Result<Client, Failure>,
}

/// Those that are meant.
pub(super) struct Nodes(Vec<Reached>);

impl Nodes {
    /// Connects to all that are meant.
    ///
    /// # Errors
    /// When nobody answers at the address that was given.
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

    /// What each of them has.
    pub(super) async fn show(&self) -> Vec<Told> {
        self.set(|_| Vec::new()).await
    }

    /// Sets at each of them what is for it, at all of them at once.
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
