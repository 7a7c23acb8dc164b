//! An endpoint that keeps its place gets every packet that goes down its stream.
//!
//! The world asserts that every endpoint gets each packet once and in order. An endpoint keeps its place if
//! it took part from the start, is still on the same node, and the node was never told to begin anew. A node
//! that was evicted and comes back gets only the packets that are sent afterwards. A filter on the way down
//! may fail for a packet, which is then dropped, so streams with such a filter are not checked.

use super::Finding;
use super::streams::{FrontEndKey, Streams};
use crate::world::World;
use crate::world::place::place_of;

/// Checks the endpoints of a stream down which `sent` packets were sent to all.
pub fn at_rest(world: &World, streams: &Streams, key: &FrontEndKey, sent: u64) -> Finding {
    let Some(heard) = streams.heard(key) else { return Ok(()) };
    let Some(stream) = heard.stream else { return Ok(()) };
    let seats = || world.seats().filter(|((_, of, _), _)| *of == stream);
    for ((node, _, endpoint), seat) in seats() {
        let places = seats().filter(|((.., other), _)| other == endpoint).count();
        let keeps_its_place = places == 1
            && seat.life == 0
            && !seat.is_over
            && world.is_there(*node)
            && heard.first.contains(*endpoint)
            && streams.anew_at(place_of(*node).0, stream).is_none();
        if keeps_its_place && !seat.taken.iter().copied().eq(1..=sent) {
            let (came, last) = (seat.taken.len(), seat.taken.last());
            return Err(format!(
                "endpoint {endpoint} got {came} of {sent} packets down; the last was {last:?}"
            ));
        }
    }
    Ok(())
}
