//! A guest as the function of a rule, at the origin of a feed ([`treefold_mirror::rules::Function`]).
//!
//! A function is a filter whose waves have one piece: an event in MessagePack. The packets that it returns are the events
//! that are mirrored in its place. So the interface between guest and node needs nothing else, and a guest that
//! returns the bytes that it was given costs no decoding. It sees no clock: events alone decide what it does.

use crate::error::WasmError;
use crate::module::Module;
use bytes::Bytes;
use std::fmt;
use treefold_mirror::rules::Function;
use treefold_mirror::{Event, MirrorLimits};
use treefold_operators::filter::{Filter, Piece, Source, Wave};

/// The origin of events, as the guest sees it.
const SOURCE: Source = Source::Endpoint(0);

/// One function of one origin: a guest with its memory, which stays from event to event.
pub struct GuestFunction {
    filter: Box<dyn Filter>,
    limits: MirrorLimits,
    made: Vec<Bytes>,
}

impl GuestFunction {
    pub(crate) fn open(module: &Module, limits: MirrorLimits) -> Result<Self, WasmError> {
        let opened = module.filter().open(&Bytes::new());
        let mut filter = opened.map_err(|error| WasmError::Refused { text: error.to_string() })?;
        filter.joined(SOURCE);
        Ok(Self { filter, limits, made: Vec::new() })
    }
}

impl Function for GuestFunction {
    fn apply(&mut self, event: &Event, out: &mut Vec<Event>) -> Result<(), String> {
        let given = event.to_message_pack();
        let pieces = [Piece { source: SOURCE, payload: given.clone() }];
        let wave = Wave { tag: event.number, pieces: &pieces, now_ns: 0 };
        self.made.clear();
        self.filter.up(wave, &mut self.made).map_err(|error| error.to_string())?;
        let before = out.len();
        for packet in self.made.drain(..) {
            if packet == given {
                out.push(event.clone());
                continue;
            }
            match Event::from_message_pack(&packet, Some(&event.stream), &self.limits) {
                Ok(made) => out.push(made),
                Err(error) => {
                    out.truncate(before);
                    return Err(error.to_string());
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for GuestFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestFunction").finish_non_exhaustive()
    }
}
