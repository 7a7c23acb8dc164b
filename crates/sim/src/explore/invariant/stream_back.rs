//! Within a bounded time after the last fault, every endpoint on a live node takes part in its streams again
//! and is in their waves.

use super::Finding;
use super::streams::Heard;
use treefold_core::error::Missing;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::Synchronisation;
use treefold_core::time::Duration;

/// Longest time until then. Members find each other again ([`super::converges::WITHIN`]), and some seconds
/// later missing endpoints get a place.
pub const WITHIN: Duration = Duration::from_secs(45);
/// Time after healing during which arriving packets may have been sent before it.
pub const RECOVERED_AFTER: Duration = Duration::from_secs(1);

/// Checks the waves since [`RECOVERED_AFTER`]. `living` are the endpoints that must take part. If `only_attend`
/// is true, they need not be in a wave.
pub fn all_back(heard: &Heard, living: &PartitionSet, only_attend: bool) -> Finding {
    let wanted = heard.asked.intersection(living);
    let unsaid = wanted.difference(&heard.present);
    if !unsaid.is_empty() {
        let reason = |loss: &Missing| format!("{} {}", loss.partitions, loss.reason);
        let away: Vec<String> = heard.away.iter().map(reason).collect();
        return Err(format!("endpoints {unsaid} run, but do not take part; away: {}", away.join(", ")));
    }
    if only_attend {
        return Ok(());
    }
    let is_waited_for = heard.synchronisation == Synchronisation::WaitForAll;
    let seen = if is_waited_for { &heard.recent_most } else { &heard.recent };
    let unseen = wanted.difference(seen);
    if unseen.is_empty() {
        Ok(())
    } else {
        Err(format!("endpoints {unseen} run, but no wave has them; these came: {seen}"))
    }
}
