//! Everyone is back after healing: a bounded time after the last fault, every endpoint whose node lives takes part in
//! its streams again and is in their waves.

use super::Finding;
use super::streams::Heard;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::Synchronisation;
use treefold_core::time::Duration;

/// How long it may take: members find each other again ([`super::converges::WITHIN`]), and endpoints that were missed
/// are given a place some seconds later.
pub const WITHIN: Duration = Duration::from_secs(45);
/// What comes so soon after healing may have been sent before it.
pub const RECOVERED_AFTER: Duration = Duration::from_secs(1);

/// Looks at what a front-end's user has heard since [`RECOVERED_AFTER`]; `living` are the endpoints that must be
/// there. If they `only_attend`, they need not be in a wave.
pub fn all_back(heard: &Heard, living: &PartitionSet, only_attend: bool) -> Finding {
    let wanted = heard.asked.intersection(living);
    let unsaid = wanted.difference(&heard.present);
    if !unsaid.is_empty() {
        return Err(format!("{unsaid} live, and are not said to take part: {}", heard.present));
    }
    if only_attend {
        return Ok(());
    }
    let is_waited_for = heard.synchronisation == Synchronisation::WaitForAll;
    let seen = if is_waited_for { &heard.recent_most } else { &heard.recent };
    let unseen = wanted.difference(seen);
    if unseen.is_empty() { Ok(()) } else { Err(format!("{unseen} live, and are in no wave; {seen} are")) }
}
