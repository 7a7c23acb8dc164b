//! The questions of a node to a seed before it joins: which members the seed knows, and whether their totals
//! agree with the node's.
//!
//! Members refuse the partitions of a node whose total differs anyway (`treefold_core::membership::service`).
//! With this check, a node with a wrong total also fails at its start with an error, and the cluster never
//! sees it. In addition, a node that starts with the other members' cards can immediately act as the front of
//! calls. If no seed answers in time, the node joins without the answer and learns the cards by gossip.

use crate::client::ClientBuilder;
use crate::entropy;
use crate::error::StartError;
use crate::transport::{CONNECT_TIMEOUT, GREETING_TIMEOUT};
use std::sync::Arc;
use std::time::Duration;
use treefold_core::id::NodeId;
use treefold_core::membership::card::MemberCard;
use treefold_core::membership::service::first_difference;

/// How long a node waits for a seed's answer before it joins without one: as long as one connection may take.
const SEED_PATIENCE: Duration = CONNECT_TIMEOUT.saturating_add(GREETING_TIMEOUT);

/// Returns the first seed that answers, and the cards of the members that it knows, including its own. If none answers,
/// the log says why.
///
/// # Errors
/// If a service's total differs from the total on which these members agree. The error contains both totals.
pub(crate) async fn ask_seeds(
    own: &MemberCard,
    seeds: &[String],
    client: &ClientBuilder,
) -> Result<Option<(NodeId, Vec<Arc<MemberCard>>)>, StartError> {
    let seeds = &from_a_drawn_one(seeds);
    let mut silent = Silent { node: own.node, reasons: Vec::new() };
    let asking = first_answer(own, seeds, client, &mut silent.reasons);
    let answer = tokio::time::timeout(SEED_PATIENCE, asking).await;
    let Ok(Some((seed, from, cards))) = answer else {
        silent.tell(seeds);
        return Ok(None);
    };
    match first_difference(own, cards.iter().map(|card| &**card)) {
        Some((service, claim, agreed)) => {
            let (service, seed) = (service.to_owned(), seed.clone());
            Err(StartError::Total { service, claim, agreed, seed })
        }
        None => Ok(Some((from, cards))),
    }
}

/// The reasons why seeds gave no answer, in their order.
struct Silent {
    node: NodeId,
    reasons: Vec<String>,
}

impl Silent {
    fn tell(&self, seeds: &[String]) {
        let node = self.node;
        let within = format!("no answer within {SEED_PATIENCE:?}");
        let reasons = self.reasons.iter().chain(std::iter::repeat(&within));
        for (seed, reason) in seeds.iter().zip(reasons).filter(|(_, reason)| !reason.is_empty()) {
            tracing::warn!(%node, %seed, %reason, "can't join by this seed yet; trying on");
        }
    }
}

/// The seeds in their order, from a drawn one on. So the nodes of a cluster that starts do not all ask the same seed first.
fn from_a_drawn_one(seeds: &[String]) -> Vec<String> {
    let (before, from) = seeds.split_at(entropy::draw() as usize % seeds.len().max(1));
    [from, before].concat()
}

/// Asks the seeds in turn. The reason of one that is this node itself is empty.
async fn first_answer<'a>(
    own: &MemberCard,
    seeds: &'a [String],
    client: &ClientBuilder,
    reasons: &mut Vec<String>,
) -> Option<(&'a String, NodeId, Vec<Arc<MemberCard>>)> {
    for seed in seeds {
        let asked = async { client.clone().at([seed]).connect().await?.status().await };
        match asked.await {
            // The node's own address may be among the seeds.
            Ok(status) if status.card.node == own.node => reasons.push(String::new()),
            Ok(status) => {
                let from = status.card.node;
                let others = status.members.into_iter().map(|member| member.card);
                return Some((seed, from, others.chain([status.card]).collect()));
            }
            Err(error) => reasons.push(error.to_string()),
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
