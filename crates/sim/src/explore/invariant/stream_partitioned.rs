//! Contributors and missing endpoints of a stream's wave together are the asked endpoints. Each endpoint is
//! either in the wave or reported missing from it with a reason, and not both.
//!
//! In do-not-wait mode, a wave has one endpoint.

use super::Finding;
use super::streams::Heard;
use crate::world::ink::Ink;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::StreamWave;

/// Checks a wave.
pub fn of_wave(heard: &Heard, wave: &StreamWave<Ink>) -> Finding {
    let mut seen = wave.contributors.clone();
    for loss in &wave.missing {
        if loss.partitions.is_empty() {
            return Err(format!(
                "wave {}: a loss for the reason {} lists no endpoints",
                wave.tag, loss.reason
            ));
        }
        if seen.intersects(&loss.partitions) {
            let twice = loss.partitions.intersection(&seen);
            return Err(format!(
                "wave {}: {twice} is missing, and also in it or missing for another reason",
                wave.tag
            ));
        }
        seen.union_with(&loss.partitions);
    }
    if !heard.gathers() {
        return if seen.len() == 1 {
            Ok(())
        } else {
            Err(format!("expected one endpoint, found {seen}: {wave:?}"))
        };
    }
    accounted(&heard.asked, &seen, wave.tag)
}

fn accounted(asked: &PartitionSet, seen: &PartitionSet, tag: u64) -> Finding {
    let rest = asked.difference(seen);
    if rest.is_empty() { Ok(()) } else { Err(format!("wave {tag}: {rest} are neither in it nor missing")) }
}
