//! A stream's wave holds packets of its own tag, and of its own contributors.
//!
//! Packets have the mark of their stream, endpoint and tag, so one that came from another wave shows in the sum
//! ([`Ink::hold_wave`]).

use super::Finding;
use crate::world::ink::Ink;
use treefold_core::stream::{StreamId, StreamWave};

/// Looks at a wave.
pub fn of_wave(stream: StreamId, wave: &StreamWave<Ink>) -> Finding {
    if Ink::hold_wave(&wave.packets, stream, wave.tag, &wave.contributors) {
        return Ok(());
    }
    Err(format!("wave {}: its packets are not those of {} for it", wave.tag, wave.contributors))
}
