//! What a node asks a seed before it joins: whom the seed knows, and whether they agree on its services' totals.
//!
//! Members refuse the partitions of a node whose total differs anyway (`treefold_core::membership::service`). But whoever
//! starts a node with the wrong total should hear of it at once, and the cluster should not see the node at all. And
//! a node that knows the cards of the others when it begins can be the front of calls at once. If no seed answers in
//! time, the node joins without, and learns all of this by gossip.

use crate::client::ClientBuilder;
use crate::error::StartError;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::id::NodeId;
use treefold_core::membership::card::MemberCard;
use treefold_core::membership::service::first_difference;

/// How long a node waits for a seed's answer before it joins without.
const SEED_PATIENCE: Duration = Duration::from_secs(1);

/// The first seed that answers, and the cards of the members that it knows, its own among them.
///
/// # Errors
/// The first service whose total differs from what these members agree on, with both totals.
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
        // Its own address may be among the seeds.
        if status.card.node != own.node {
            let from = status.card.node;
            let others = status.members.into_iter().map(|member| member.card);
            return Some((seed, from, others.chain([status.card]).collect()));
        }
    }
    None
}
