//! An endpoint that keeps its place gets every packet that goes down its stream.
//!
//! The world asserts that every endpoint gets each packet once and in order. An endpoint keeps its place if
//! it took part from the start, is still on the same node, and the node was never told to begin anew. A node
//! that was evicted and comes back gets only the packets that are sent afterwards. A filter on the way down
//! may fail for a packet, which is then dropped, so streams with such a filter are not checked.
//!
//! In a stream with a lag limit, an endpoint gets every packet that it is not told to have missed, also after its
//! node began anew.

use super::Finding;
use super::streams::{FrontEndKey, Streams};
use crate::world::World;
use crate::world::place::place_of;
use crate::world::streams::Seat;

/// Checks the endpoints of a stream down which `sent` packets were sent to all.
pub fn at_rest(world: &World, streams: &Streams, key: &FrontEndKey, sent: u64, has_lag: bool) -> Finding {
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
            && (has_lag || streams.anew_at(place_of(*node).0, stream).is_none());
        if keeps_its_place && has_lag {
            let most = if heard.present.contains(*endpoint) { sent } else { 0 };
            complete(seat, most).map_err(|what| format!("endpoint {endpoint} {what}"))?;
        } else if keeps_its_place && !seat.taken.iter().copied().eq(1..=sent) {
            let (came, last) = (seat.taken.len(), seat.taken.last());
            return Err(format!(
                "endpoint {endpoint} got {came} of {sent} packets down; the last was {last:?}"
            ));
        }
    }
    Ok(())
}

/// Checks that an endpoint got or missed all packets up to its last one, and at least up to `least`.
fn complete(seat: &Seat, least: u64) -> Finding {
    let mut rows: Vec<(u64, u64)> = seat.taken.iter().map(|&number| (number, number)).collect();
    rows.extend(&seat.missed);
    rows.sort_unstable();
    let mut upto = 0;
    for (first, last) in rows {
        if first != upto + 1 {
            return Err(format!("got neither packet {} nor the news that it missed it", upto + 1));
        }
        upto = last;
    }
    if upto >= least {
        return Ok(());
    }
    Err(format!("got or missed {upto} packets, of {least}"))
}
