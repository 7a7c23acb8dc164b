//! The questions of a node to a seed before it joins: which members the seed knows, and whether their totals
//! agree with the node's.
//!
//! Members refuse the partitions of a node whose total differs anyway (`treefold_core::membership::service`).
//! With this check, a node with a wrong total also fails at its start with an error, and the cluster never
//! sees it. In addition, a node that starts with the other members' cards can immediately act as the front of
//! calls. If no seed answers in time, the node joins without the answer and learns the cards by gossip.

use crate::client::ClientBuilder;
use crate::discovery::lookup;
use crate::entropy;
use crate::error::StartError;
use crate::transport::{CONNECT_TIMEOUT, GREETING_TIMEOUT, dial};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::id::NodeId;
use treefold_core::membership::card::MemberCard;
use treefold_core::membership::service::first_difference;

/// How long a node waits for a seed's answer before it joins without one: as long as one connection may take.
const SEED_PATIENCE: Duration = CONNECT_TIMEOUT.saturating_add(GREETING_TIMEOUT);

/// The most seeds whose reasons the log gets. A name may have many addresses.
const REASONS_TOLD_MAX: usize = 8;

/// Returns the first seed that answers, and the cards of the members that it knows, including its own. If none answers,
/// the log says why.
///
/// # Errors
/// If these are processes of a network, or a service's total differs from the total on which these members agree. The error
/// contains both totals.
pub(crate) async fn ask_seeds(
    own: &MemberCard,
    seeds: &[String],
    client: &ClientBuilder,
) -> Result<Option<(NodeId, Vec<Arc<MemberCard>>)>, StartError> {
    let mut silent = Silent { node: own.node, reasons: BTreeMap::new() };
    let asking = async {
        let addrs = addrs_of(seeds, &mut silent.reasons).await;
        first_answer(own, &from_a_drawn_one(&addrs), client, &mut silent.reasons).await
    };
    let answer = tokio::time::timeout(SEED_PATIENCE, asking).await;
    let Ok(Some((seed, from, cards))) = answer else {
        silent.tell(seeds);
        return Ok(None);
    };
    if cards.iter().any(|card| card.parent.is_some()) && is_by_launcher(&seed, client).await {
        return Err(StartError::Network { seed });
    }
    match first_difference(own, cards.iter().map(|card| &**card)) {
        Some((service, claim, agreed)) => {
            let service = service.to_owned();
            Err(StartError::Total { service, claim, agreed, seed })
        }
        None => Ok(Some((from, cards))),
    }
}

/// True if a launcher keeps the process at this address. The card of a member of a cluster may name a parent, too.
async fn is_by_launcher(seed: &str, client: &ClientBuilder) -> bool {
    let Ok(addr) = seed.parse() else { return false };
    dial(addr, &client.identity()).await.is_ok_and(|greeted| greeted.by_launcher)
}

/// The reasons why seeds gave no answer, by the address that was asked, or the seed that has no address.
struct Silent {
    node: NodeId,
    reasons: BTreeMap<String, String>,
}

impl Silent {
    fn tell(&self, seeds: &[String]) {
        let node = self.node;
        for (seed, reason) in self.reasons.iter().take(REASONS_TOLD_MAX) {
            tracing::warn!(%node, %seed, %reason, "can't join by this seed yet; trying on");
        }
        if self.reasons.len() > REASONS_TOLD_MAX {
            let further = self.reasons.len() - REASONS_TOLD_MAX;
            tracing::warn!(%node, further, "further seeds can't be joined by either; trying on");
        }
        if self.reasons.is_empty() {
            tracing::info!(%node, ?seeds, "no other node has answered within {SEED_PATIENCE:?}; trying on");
        }
    }
}

/// The addresses of the seeds, and the reasons why some have none.
async fn addrs_of(seeds: &[String], reasons: &mut BTreeMap<String, String>) -> Vec<String> {
    let mut addrs = Vec::new();
    for seed in seeds {
        let found = lookup(seed).await;
        addrs.extend(found.addrs.iter().map(ToString::to_string));
        if let Some(problem) = found.problem {
            reasons.insert(seed.clone(), problem.to_string());
        }
    }
    addrs
}

/// The seeds in their order, from a drawn one on. So the nodes of a cluster that starts do not all ask the same seed first.
fn from_a_drawn_one(seeds: &[String]) -> Vec<String> {
    let (before, from) = seeds.split_at(entropy::draw() as usize % seeds.len().max(1));
    [from, before].concat()
}

/// Asks these addresses in turn. This node's own may be among them.
async fn first_answer(
    own: &MemberCard,
    addrs: &[String],
    client: &ClientBuilder,
    reasons: &mut BTreeMap<String, String>,
) -> Option<(String, NodeId, Vec<Arc<MemberCard>>)> {
    let own_addr = own.node.addr.to_string();
    for seed in addrs.iter().filter(|&addr| *addr != own_addr) {
        // It stays if time runs out before the answer.
        reasons.insert(seed.clone(), format!("no answer within {SEED_PATIENCE:?}"));
        let asked = async { client.clone().at([seed]).connect().await?.status().await };
        match asked.await {
            // Behind another address there may be this node too.
            Ok(status) if status.card.node == own.node => _ = reasons.remove(seed),
            Ok(status) => {
                let from = status.card.node;
                let others = status.members.into_iter().map(|member| member.card);
                return Some((seed.clone(), from, others.chain([status.card]).collect()));
            }
            Err(error) => _ = reasons.insert(seed.clone(), error.to_string()),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_seed_is_asked_first_at_times_and_none_is_left_out() {
        assert!(from_a_drawn_one(&[]).is_empty());
        let seeds = ["a", "b", "c"].map(str::to_owned);
        let orders: BTreeSet<String> = (0..200).map(|_| from_a_drawn_one(&seeds).concat()).collect();
        assert_eq!(orders, ["abc", "bca", "cab"].map(str::to_owned).into());
    }
}
