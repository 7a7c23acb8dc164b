//! The function of a rule: mirrors the events with even numbers, and drops the others.
//!
//! A wave is one event, its tag is the event's number, and a packet that is the event's bytes passes it on.

use treefold_guest::{Filter, Packets, Result, Wave, export_filter};

/// It keeps nothing from event to event.
pub struct Even;

impl Filter for Even {
    fn open(_params: &[u8]) -> Result<Self> {
        Ok(Self)
    }

    fn up(&mut self, wave: Wave<'_>, out: &mut Packets) -> Result {
        if wave.tag.is_multiple_of(2) {
            wave.pieces.iter().for_each(|event| out.push(event.payload));
        }
        Ok(())
    }
}

export_filter!(Even);
