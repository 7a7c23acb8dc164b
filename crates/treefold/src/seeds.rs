//! The questions of a node to a seed before it joins: which members the seed knows, and whether their totals
//! agree with the node's.
//!
//! Members refuse the partitions of a node whose total differs anyway (`treefold_core::membership::service`).
//! With this check, a node with a wrong total also fails at its start with an error, and the cluster never
//! sees it. In addition, a node that starts with the other members' cards can immediately act as the front of
//! calls. If no seed answers in time, the node joins without the answer and learns the cards by gossip.

use crate::client::ClientBuilder;
use crate::error::StartError;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::id::NodeId;
use treefold_core::membership::card::MemberCard;
use treefold_core::membership::service::first_difference;

/// How long a node waits for a seed's answer before it joins without one.
const SEED_PATIENCE: Duration = Duration::from_secs(1);

/// Returns the first seed that answers, and the cards of the members that it knows, including its own.
///
/// # Errors
/// If a service's total differs from the total on which these members agree. The error contains both totals.
pub(crate) async fn ask_seeds(
    own: &MemberCard,
    seeds: &[String],
    client: &ClientBuilder,
) -> Result<Option<(NodeId, Vec<Arc<MemberCard>>)>, StartError> {
    let Ok(answer) = tokio::time::timeout(SEED_PATIENCE, first_answer(own, seeds, client)).await else {
        return Ok(None);
    };
    let Some((seed, from, cards)) = answer else { return Ok(None) };
    match first_difference(own, cards.iter().map(|card| &**card)) {
        Some((service, claim, agreed)) => {
            let (service, seed) = (service.to_owned(), seed.clone());
            Err(StartError::Total { service, claim, agreed, seed })
        }
        None => Ok(Some((from, cards))),
    }
}

async fn first_answer<'a>(
    own: &MemberCard,
    seeds: &'a [String],
    client: &ClientBuilder,
) -> Option<(&'a String, NodeId, Vec<Arc<MemberCard>>)> {
    for seed in seeds {
        let Ok(client) = client.clone().at([seed]).connect().await else { continue };
        let Ok(status) = client.status().await else { continue };
        // The node's own address may be among the seeds.
        if status.card.node != own.node {
            let from = status.card.node;
            let others = status.members.into_iter().map(|member| member.card);
            return Some((seed, from, others.chain([status.card]).collect()));
        }
    }
    None
}
