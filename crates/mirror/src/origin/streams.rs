//! The incoming streams of an origin: their numbers, and how far each is decided.

use super::refusal::Refusal;
use crate::event::{Event, Name};
use crate::recovery::{Mirrored, Recovery};
use crate::rules::RuleFile;

/// The rule by which a source numbers the events of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Each number follows the last one. A gap means lost events, so it is refused.
    #[default]
    Consecutive,
    /// Numbers grow, and the source vouches that it leaves out no event: a log whose numbers also count records
    /// that were deleted, or that belong to another stream.
    Growing,
    /// The source has no numbers: the origin gives each event the number after the last one. Lost events leave no gap,
    /// so nobody notices them.
    Received,
}

/// All incoming streams. A stream keeps its index.
#[derive(Debug, Default)]
pub(super) struct Streams(Vec<Incoming>);

/// An incoming stream.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) name: Name,
    /// The number of its last event.
    pub(super) last: u64,
    /// All events up to this number are mirrored in the batches sent so far, or suppressed for good.
    pub(super) decided: u64,
    /// The next event may have any number above `last`, because the last origin may have acknowledged suppressed
    /// events, of which its journal has no trace.
    is_loose: bool,
    /// Later events that the last origin has mirrored.
    mirrored: Mirrored,
}

impl Streams {
    /// The streams of an origin that died.
    pub(super) fn recovered(recovery: &Recovery) -> Self {
        let stream = |(name, decided): &(Name, u64)| Incoming {
            name: name.clone(),
            last: *decided,
            decided: *decided,
            is_loose: true,
            mirrored: Mirrored::default(),
        };
        let mut streams = Self(recovery.streams().iter().map(stream).collect());
        for event in recovery.events() {
            if let Some(stream) = streams.0.iter_mut().find(|known| known.name == event.stream)
                && event.number > stream.decided
            {
                stream.mirrored.insert(&event);
            }
        }
        streams
    }

    /// The number of an event that its source has not numbered. It is above the numbers that the last origin has
    /// mirrored, because such a source repeats nothing.
    pub(super) fn next_number(&self, name: &Name) -> u64 {
        let known = self.0.iter().find(|known| known.name == *name);
        known.map_or(1, |stream| stream.last.max(stream.mirrored.last()).saturating_add(1))
    }

    /// Takes the number of an event. Returns false if the event must not be sent, because the last origin has done
    /// so.
    pub(super) fn take(
        &mut self,
        event: &Event,
        numbers: Numbers,
        rules: &RuleFile,
        streams_max: usize,
    ) -> Result<bool, Refusal> {
        let given = event.number;
        let Some(stream) = self.0.iter_mut().find(|known| known.name == event.stream) else {
            if self.0.len() >= streams_max {
                return Err(Refusal::Streams { stream: event.stream.clone(), limit: streams_max });
            }
            self.0.push(Incoming {
                name: event.stream.clone(),
                last: given,
                decided: given - 1,
                is_loose: false,
                mirrored: Mirrored::default(),
            });
            return Ok(true);
        };
        let last = stream.last;
        if given <= last {
            return Err(Refusal::Repeated { stream: event.stream.clone(), given, last });
        }
        if given > last + 1 && !stream.is_loose && numbers == Numbers::Consecutive {
            return Err(Refusal::Jump { stream: event.stream.clone(), given, expected: last + 1 });
        }
        (stream.last, stream.is_loose) = (given, false);
        let is_new = !stream.mirrored.covers(event, rules);
        stream.mirrored.forget_before(given);
        Ok(is_new)
    }

    pub(super) fn index_of(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|known| known.name.as_str() == name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Incoming> + Clone {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Incoming> {
        self.0.iter_mut()
    }
}
