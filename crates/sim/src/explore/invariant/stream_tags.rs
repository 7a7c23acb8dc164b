//! A stream's wave contains only packets with its own tag and of its own contributors.
//!
//! Packets carry a mark of their stream, endpoint and tag. So a packet of another wave shows in the sum
//! ([`Ink::hold_wave`]).

use super::Finding;
use crate::world::ink::Ink;
use treefold_core::stream::{StreamId, StreamWave};

/// Checks a wave.
pub fn of_wave(stream: StreamId, wave: &StreamWave<Ink>) -> Finding {
    if Ink::hold_wave(&wave.packets, stream, wave.tag, &wave.contributors) {
        return Ok(());
    }
    Err(format!("wave {}: its packets are not the packets of {} for this wave", wave.tag, wave.contributors))
}
