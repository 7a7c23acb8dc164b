//! No unsettled packet is lost while its endpoint's node lives.
//!
//! After everything is healed and every endpoint has sent as much as the others, each packet of an endpoint
//! on a live node has reached the front-end's user in a wave, or the endpoint was reported missing from that
//! wave. There is one exception. An evicted node drops its packets of waves with several endpoints, and its
//! endpoints are away until it begins anew. If no other endpoint has sent anything for such a wave, the wave
//! never comes, and no endpoint is reported missing from it. If waves have packets of several endpoints and
//! the node counts the tags, packets are not checked one by one, because only their node knows their wave.

use super::Finding;
use super::streams::{FrontEndKey, Heard, Streams};
use crate::world::World;
use crate::world::place::place_of;
use crate::world::streams::Seat;
use std::collections::BTreeSet;
use treefold_core::stream::StreamId;
use treefold_core::time::Instant;

/// Checks all packets that endpoints on live nodes have sent to a stream.
pub fn at_rest(world: &World, streams: &Streams, key: &FrontEndKey) -> Finding {
    let Some(heard) = streams.heard(key) else { return Ok(()) };
    let Some(stream) = heard.stream else { return Ok(()) };
    for (seat_key, seat) in world.seats().filter(|((_, of, _), _)| *of == stream) {
        if seat.is_over || !world.is_there(seat_key.0) {
            continue;
        }
        let endpoint = seat_key.2;
        let anew_at = streams.anew_at(place_of(seat_key.0).0, stream);
        let says = if heard.gathers() {
            waves_of(heard, endpoint, seat, anew_at)
        } else {
            packets_of(world, heard, stream, endpoint, seat)
        };
        says.map_err(|what| format!("endpoint {endpoint} of {key:?}: {what}"))?;
    }
    Ok(())
}

fn waves_of(heard: &Heard, endpoint: u32, seat: &Seat, anew_at: Option<Instant>) -> Finding {
    for sent in &seat.sent {
        let Some(tag) = sent.tag else { continue };
        let is_told = |(contributors, missing): &(_, _)| {
            let sets: [&treefold_core::partitions::PartitionSet; 2] = [contributors, missing];
            sets.iter().any(|set| set.contains(endpoint))
        };
        if !heard.asked.contains(endpoint) || heard.waves.get(&tag).is_some_and(is_told) {
            continue;
        }
        let wave = heard.waves.get(&tag);
        if wave.is_none() && anew_at.is_some_and(|anew_at| sent.at <= anew_at) {
            continue;
        }
        return Err(format!("it sent a packet for wave {tag}, but is neither in it nor missing: {wave:?}"));
    }
    Ok(())
}

fn packets_of(world: &World, heard: &Heard, stream: StreamId, endpoint: u32, seat: &Seat) -> Finding {
    let places = world.seats().filter(|((_, of, number), _)| *of == stream && *number == endpoint).count();
    if places > 1 {
        // If two nodes both held the endpoint as theirs, one is told to release it, with the packets that it
        // has sent.
        return Ok(());
    }
    let came = heard.packets.get(&endpoint).map_or(&[][..], Vec::as_slice);
    let there: BTreeSet<u64> = came.iter().map(|came| came.number).collect();
    let lost: Vec<u64> =
        seat.sent.iter().map(|sent| sent.number).filter(|number| !there.contains(number)).collect();
    let named = heard.losses.get(&endpoint).copied().unwrap_or(0);
    if lost.len() as u64 > named {
        return Err(format!("packets {lost:?} did not come, but only {named} are reported missing"));
    }
    let of_this_life: Vec<u64> = came
        .iter()
        .map(|came| came.number)
        .filter(|number| seat.sent.first().is_some_and(|first| *number >= first.number))
        .collect();
    if of_this_life.is_sorted() {
        Ok(())
    } else {
        Err(format!("its packets came out of order: {of_this_life:?}"))
    }
}
