//! For each service, how many partitions it has, and how many of them members hold.
//!
//! Calls show a missing partition only to its callers. These gauges show it before the first call, and show a partition
//! whose next loss will be seen.

use super::page::Page;
use treefold::{NodeStatus, PartitionSet};
use treefold_core::status::TotalStatus;

/// Most services with figures of their own: the first ones by name.
const SERVICES_SHOWN_MAX: usize = 64;

/// The partitions of one service.
struct Held<'a> {
    service: &'a str,
    total: u32,
    held: usize,
    replicated: usize,
}

impl<'a> Held<'a> {
    fn of(total: &'a TotalStatus, status: &NodeStatus) -> Self {
        let (mut once, mut twice) = (PartitionSet::new(), PartitionSet::new());
        let cards = std::iter::once(&status.card).chain(status.members.iter().map(|member| &member.card));
        for card in cards.filter(|card| total.refused.iter().all(|refused| refused.node != card.node)) {
            if let Some(service) = card.services.get(&total.service) {
                twice.union_with(&once.intersection(&service.partitions));
                once.union_with(&service.partitions);
            }
        }
        let (held, replicated) = (once.len(), twice.len());
        Self { service: &total.service, total: total.agreed.total, held, replicated }
    }
}

/// Shows the partitions of the services that members provide.
pub(super) fn show(page: &mut Page, status: &NodeStatus) {
    let services: Vec<Held<'_>> =
        status.totals.iter().take(SERVICES_SHOWN_MAX).map(|total| Held::of(total, status)).collect();
    let mut family = |name: &str, help: &str, figure: fn(&Held<'_>) -> usize| {
        let figures = services.iter().map(|service| (service.service, figure(service)));
        page.labelled(name, "gauge", help, "service", figures);
    };
    let help = "Partitions of the service, as the members agree.";
    family("treefold_service_partitions", help, |service| service.total as usize);
    let help = "Partitions of the service that at least one member in sight holds.";
    family("treefold_service_partitions_held", help, |service| service.held);
    let help = "Partitions of the service that at least two members in sight hold.";
    family("treefold_service_partitions_replicated", help, |service| service.replicated);
}
