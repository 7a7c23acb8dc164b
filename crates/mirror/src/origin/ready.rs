//! The ready queue: selected events that wait to be sent (mirroring §3.1).

use crate::event::Event;
use std::collections::VecDeque;
use treefold_core::time::Instant;

/// Events that are selected and not sent yet.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) events: VecDeque<(Instant, Event)>,
    pub(super) bytes: usize,
    /// Events that ever entered, and that ever left.
    pub(super) entered: u64,
    pub(super) left: u64,
    /// The streams' progress once the event with this count has left.
    pub(super) mark: Option<(u64, Vec<u64>)>,
    /// The ends of the earlier versions of the rules.
    pub(super) boundaries: VecDeque<Boundary>,
}

/// The end of a version of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boundary {
    /// The count of the last event under this version.
    pub(super) count: u64,
    /// True if the rules were set; false if the mode has changed by itself.
    pub(super) is_set: bool,
}

impl Ready {
    pub(super) fn enter(&mut self, now: Instant, events: Vec<Event>) {
        self.entered += events.len() as u64;
        self.bytes += events.iter().map(Event::bytes).sum::<usize>();
        self.events.extend(events.into_iter().map(|event| (now, event)));
    }

    pub(super) fn take(&mut self, most: usize, bytes_max: usize) -> Vec<Event> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < most
            && (bytes < bytes_max)
            && let Some((_, event)) = self.events.pop_front()
        {
            bytes += event.bytes();
            taken.push(event);
        }
        self.bytes -= bytes;
        self.left += taken.len() as u64;
        taken
    }
}
