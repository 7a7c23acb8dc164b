//! The reader's side: turns a mirror's messages into rows and events, and refuses a gap.
//!
//! A [`Receiver`] knows the place up to which its user has everything. It accepts events only behind this place:
//! it skips those that the user has, and a gap is an error. After an error, or when a mirror is lost, the driver
//! asks a mirror for the events after [`Receiver::resume_from`]. So moves between mirrors cause neither gaps nor
//! repetitions.
//!
//! ```text
//!           begins                  complete
//!  empty ───────────▶ loading ────────────────────▶ live ◀─ resumes, at its cut
//!                       ▲                            │
//!                       └────────── begins ──────────┘ the mirror has no longer all events after its cut
//! ```

use crate::batch::{BatchHead, room_for};
use crate::event::{Event, Name};
use crate::keyed::{KeyValue, rows};
use crate::message::{Begins, Message, MessageError, Place, Refusal, Selected, batch_of};
use crate::mirror::ResumeError;
use crate::packet::PacketError;
use crate::vector::{Cut, VectorTime};
use std::collections::VecDeque;

/// News for a reader's user, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// The reader follows another mirror now. No event was lost or repeated.
    Moved {
        /// The mirror that it follows.
        mirror: u32,
        /// The reason why it left the former one.
        because: String,
    },
    /// The state begins anew: rows follow, and then `Complete`.
    Begins(Begins),
    /// A key with its values.
    Row(KeyValue),
    /// All rows have been given, also if there was none. Events after this time follow.
    Complete(VectorTime),
    /// An event.
    Event {
        /// Its place: the user has everything up to it.
        at: Cut,
        /// The origin's clock when it sent the event, in ms since the Unix epoch.
        sent_ms: u64,
        /// The event.
        event: Event,
    },
    /// There is nothing for this reader up to this time.
    At {
        /// The time.
        time: VectorTime,
        /// The origin's clock in ms, or 0 if it is unknown.
        sent_ms: u64,
    },
    /// The reader was too far behind to get every event; the state begins anew soon.
    Lagging(ResumeError),
}

/// The reason why a reader cannot go on with its mirror. It can resume at another one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReceiveError {
    /// A message cannot be read.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// Events are missing.
    #[error("the mirror's next event is {given}, expected {expected}")]
    Gap {
        /// The place after which the reader needs the events.
        expected: Cut,
        /// The first event of the message.
        given: Cut,
    },
    /// The message does not belong here.
    #[error("an unexpected message: {0}")]
    Order(&'static str),
    /// The mirror does not serve this reader.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl From<PacketError> for ReceiveError {
    fn from(error: PacketError) -> Self {
        MessageError::from(error).into()
    }
}

/// A reader's place in a feed.
#[derive(Clone, Debug)]
pub struct Receiver {
    feed: Name,
    phase: Phase,
    streams: Vec<(Name, u64)>,
    /// A mirror has begun to serve the reader.
    is_served: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No state, or a state without a part of its rows.
    Empty,
    /// Gets the rows of the snapshot at a cut.
    Loading(Cut),
    /// Has everything up to a cut.
    Live(Cut),
}

impl Receiver {
    /// A reader that has everything up to `from`, or nothing.
    pub fn new(feed: Name, from: Option<Cut>) -> Self {
        Self { feed, phase: from.map_or(Phase::Empty, Phase::Live), streams: Vec::new(), is_served: false }
    }

    /// The place after which the next mirror is asked for events. `None`: it is asked for a snapshot. To be called when
    /// a mirror is asked, because the mirror's first message is checked against it.
    pub fn resume_from(&mut self) -> Option<Cut> {
        self.is_served = false;
        if let Phase::Loading(_) = self.phase {
            self.phase = Phase::Empty;
        }
        self.cut()
    }

    /// The place up to which the user has everything. `None` while it has no complete state.
    pub fn cut(&self) -> Option<Cut> {
        match self.phase {
            Phase::Live(cut) => Some(cut),
            Phase::Empty | Phase::Loading(_) => None,
        }
    }

    /// The vector time to resume from.
    pub fn time(&self) -> Option<VectorTime> {
        let place = Place { cut: self.cut()?, streams: self.streams.clone(), sent_ms: 0 };
        Some(place.vector_time(self.feed.clone()))
    }

    /// Takes a mirror's message, and appends the news to `updates`.
    ///
    /// # Errors
    /// [`ReceiveError`]. Updates appended before it are valid, and [`cut`](Self::cut) counts them.
    pub fn take(&mut self, message: Message, updates: &mut VecDeque<Update>) -> Result<(), ReceiveError> {
        let is_first = !std::mem::replace(&mut self.is_served, true);
        match (message, self.phase) {
            (Message::Refused(refusal), _) => return Err(refusal.into()),
            (Message::At(place), Phase::Live(cut)) if !is_first => self.pass(cut, &place, updates)?,
            // A sign of life.
            (Message::Alive, _) => self.is_served = !is_first,
            (Message::At(_), _) => return Err(ReceiveError::Order("a place, but the reader has none")),
            (Message::Resumes(cut), Phase::Live(mine)) if is_first && cut == mine => {}
            (Message::Resumes(_), _) => {
                return Err(ReceiveError::Order("the mirror has begun anew"));
            }
            (Message::Begins(begins), _) => {
                (self.phase, self.streams) = (Phase::Loading(begins.cut), Vec::new());
                updates.push_back(Update::Begins(begins));
            }
            (Message::Piece(piece), Phase::Loading(_)) => {
                for row in rows(&piece) {
                    updates.push_back(Update::Row(row.map_err(PacketError::from)?));
                }
            }
            (Message::Complete(place), Phase::Loading(cut)) if place.cut == cut => {
                updates.push_back(Update::Complete(place.vector_time(self.feed.clone())));
                (self.phase, self.streams) = (Phase::Live(cut), place.streams);
            }
            (Message::Events(packet), Phase::Live(cut)) if !is_first => {
                let batch = batch_of(&packet)?;
                let last = batch.last();
                let first = batch.head.first.position;
                updates.reserve(room_for(batch.count()));
                let events = (0_u64..)
                    .zip(batch.events())
                    .map(|(at, event)| Ok((first.saturating_add(at), event.map_err(PacketError::from)?)));
                self.take_events(cut, &batch.head, last, events, updates)?;
            }
            (Message::Selected(part), Phase::Live(cut)) if !is_first => {
                let Selected { head, last, events } = Selected::read(&part)?;
                self.take_events(cut, &head, last, events.into_iter().map(Ok), updates)?;
            }
            (Message::Lagging(because), _) => updates.push_back(Update::Lagging(because)),
            (Message::Piece(_) | Message::Complete(_), _) => {
                return Err(ReceiveError::Order("rows, but no snapshot has begun, or another one"));
            }
            (Message::Events(_) | Message::Selected(_), _) => {
                return Err(ReceiveError::Order("events before a complete snapshot"));
            }
        }
        Ok(())
    }

    fn pass(&mut self, cut: Cut, place: &Place, updates: &mut VecDeque<Update>) -> Result<(), ReceiveError> {
        if place.cut.position < cut.position || place.cut.epoch < cut.epoch {
            return Err(ReceiveError::Order("a place before that of the reader"));
        }
        self.phase = Phase::Live(place.cut);
        if !place.streams.is_empty() {
            self.streams.clone_from(&place.streams);
        }
        let (time, sent_ms) = (place.vector_time(self.feed.clone()), place.sent_ms);
        updates.push_back(Update::At { time, sent_ms });
        Ok(())
    }

    fn take_events(
        &mut self,
        cut: Cut,
        head: &BatchHead,
        last: u64,
        events: impl Iterator<Item = Result<(u64, Event), PacketError>>,
        updates: &mut VecDeque<Update>,
    ) -> Result<(), ReceiveError> {
        // The reader's own place may have any position.
        let expected = Cut { position: cut.position.saturating_add(1), ..cut };
        if head.first.position > expected.position {
            return Err(ReceiveError::Gap { expected, given: head.first });
        }
        // The mirror serves only readers whose place its epoch continues. So a packet of another epoch has the events
        // that follow, and an earlier epoch's packet those that the later one has kept.
        let epoch = cut.epoch.max(head.first.epoch);
        for event in events {
            let (position, event) = event?;
            if position > cut.position {
                let at = Cut { epoch, position };
                updates.push_back(Update::Event { at, sent_ms: head.sent_ms, event });
                self.phase = Phase::Live(at);
            }
        }
        if last > cut.position {
            (self.phase, self.streams) = (Phase::Live(Cut { epoch, position: last }), head.streams.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
