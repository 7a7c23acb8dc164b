//! An endpoint that keeps its place is given every packet that goes down its stream.
//!
//! That it is given each once and in order, the world asserts of every endpoint. An endpoint keeps its place when it took
//! part from the start, lives where it lived then, and its node was never told to begin anew: a node that was given up and
//! comes back is given what is sent from then on. A filter on the way down may fail over a packet, which is dropped then, so
//! streams that have one are not looked at.

use super::Finding;
use super::streams::{FrontEndKey, Streams};
use crate::world::World;
use crate::world::place::place_of;

/// Looks at the endpoints of a stream down which so many packets were sent, to all.
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
                "endpoint {endpoint} was given {came} packets down of {sent}, the last of them {last:?}"
            ));
        }
    }
    Ok(())
}
