//! Whether a node that starts agrees with its cluster on how many partitions its services have.
//!
//! Members refuse the partitions of one that differs anyway (`treefold_core::membership::service`). But whoever starts
//! a node with the wrong total should hear of it at once, and the cluster should not see the node at all. So a node
//! asks one of its seeds before it joins. If no seed answers in time, the node joins, and the members decide.

use crate::client::ClientBuilder;
use crate::error::StartError;
use std::time::Duration;
use treefold_core::membership::card::MemberCard;
use treefold_core::membership::service::first_difference;

/// How long a node waits for a seed's answer before it joins without.
const SEED_PATIENCE: Duration = Duration::from_secs(1);

/// Refuses a node whose totals differ from what the members know.
///
/// # Errors
/// The first service whose total differs, with both totals.
pub(crate) async fn check(
    own: &MemberCard,
    seeds: &[String],
    client: &ClientBuilder,
) -> Result<(), StartError> {
    if own.services.is_empty() {
        return Ok(());
    }
    let Ok(verdict) = tokio::time::timeout(SEED_PATIENCE, ask_seeds(own, seeds, client)).await else {
        return Ok(());
    };
    verdict
}

async fn ask_seeds(own: &MemberCard, seeds: &[String], client: &ClientBuilder) -> Result<(), StartError> {
    for seed in seeds {
        let Ok(client) = client.clone().at([seed]).connect().await else { continue };
        let Ok(status) = client.status().await else { continue };
        if status.card.node == own.node {
            continue;
        }
        let members = status.members.iter().map(|member| &*member.card).chain([&*status.card]);
        return match first_difference(own, members) {
            Some((service, claim, agreed)) => {
                let (service, seed) = (service.to_owned(), seed.clone());
                Err(StartError::Total { service, claim, agreed, seed })
            }
            None => Ok(()),
        };
    }
    Ok(())
}
