//! No endpoint counts twice in a stream's wave, no wave comes twice, and no packet comes twice.
//!
//! A payload counts the packets that were folded into it ([`Ink::count`]). So this is checked for every wave
//! that a front-end's user gets.

use super::Finding;
use super::streams::Heard;
use crate::world::ink::Ink;
use treefold_core::stream::StreamWave;

/// Checks a wave against its contributors and against earlier waves.
pub fn of_wave(heard: &Heard, wave: &StreamWave<Ink>) -> Finding {
    let count: u32 = wave.packets.iter().map(|packet| packet.count).sum();
    if count as usize != wave.contributors.len() {
        let (said, tag) = (wave.contributors.len(), wave.tag);
        return Err(format!(
            "wave {tag}: {said} contributors are listed, {}; it has {count} packets",
            wave.contributors
        ));
    }
    if heard.gathers() {
        return match heard.waves.get(&wave.tag) {
            Some(before) => Err(format!("wave {} came twice: {before:?}, then {wave:?}", wave.tag)),
            None => Ok(()),
        };
    }
    if let (Some(endpoint), [packet]) = (wave.contributors.least(), &wave.packets[..])
        && heard.packets.get(&endpoint).is_some_and(|came| came.iter().any(|came| came.number == packet.call))
    {
        return Err(format!("packet {} of endpoint {endpoint} came twice: {wave:?}", packet.call));
    }
    Ok(())
}
