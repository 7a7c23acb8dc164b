//! No endpoint counts twice in a stream's wave, no wave comes twice, and no packet does.
//!
//! A payload counts the packets that were folded into it ([`Ink::count`]), so this is held for every wave that a
//! front-end's user is given.

use super::Finding;
use super::streams::Heard;
use crate::world::ink::Ink;
use treefold_core::stream::StreamWave;

/// Looks at a wave, and at those that came before it.
pub fn of_wave(heard: &Heard, wave: &StreamWave<Ink>) -> Finding {
    let count: u32 = wave.packets.iter().map(|packet| packet.count).sum();
    if count as usize != wave.contributors.len() {
        let (said, tag) = (wave.contributors.len(), wave.tag);
        return Err(format!(
            "wave {tag}: {said} contributors are said, {}; {count} packets are in it",
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
