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
    /// Counts of the last events under each earlier version of the rules.
    pub(super) boundaries: VecDeque<u64>,
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
