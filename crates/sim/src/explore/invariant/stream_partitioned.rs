//! Contributors and missing of a stream's wave partition the endpoints that were asked: each is in the wave or is named
//! missing from it, with a reason, and never both.
//!
//! Where nobody is waited for, a wave is one endpoint's.

use super::Finding;
use super::streams::Heard;
use crate::world::ink::Ink;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::StreamWave;

/// Looks at a wave.
pub fn of_wave(heard: &Heard, wave: &StreamWave<Ink>) -> Finding {
    let mut seen = wave.contributors.clone();
    for loss in &wave.missing {
        if loss.partitions.is_empty() {
            return Err(format!("wave {}: nobody is missing for the reason {}", wave.tag, loss.reason));
        }
        if seen.intersects(&loss.partitions) {
            let twice = loss.partitions.intersection(&seen);
            return Err(format!(
                "wave {}: {twice} is missing, and also in it or missing otherwise",
                wave.tag
            ));
        }
        seen.union_with(&loss.partitions);
    }
    if !heard.gathers() {
        return if seen.len() == 1 { Ok(()) } else { Err(format!("a packet of {seen}: {wave:?}")) };
    }
    accounted(&heard.asked, &seen, wave.tag)
}

fn accounted(asked: &PartitionSet, seen: &PartitionSet, tag: u64) -> Finding {
    let rest = asked.difference(seen);
    if rest.is_empty() { Ok(()) } else { Err(format!("wave {tag}: {rest} are neither in it nor missing")) }
}
