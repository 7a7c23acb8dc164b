//! Turns of the readers that take a snapshot: events go first, and snapshots complete in the order in which readers came.
//!
//! ```text
//!   wants a snapshot ─▶ ticket ─▶ place (few) ─▶ turn: one piece ─▶ turn … ─▶ complete: leaves
//!                         ▲          │
//!                         └──────────┘ took nothing for a moment, or had its place for long while others wait
//! ```
//!
//! A hundred thousand keys are about ten megabytes, so a storm of joins would take the whole machine from the events. If
//! all joins went on at once, each would also take as long as all together, and its snapshot would be old when it is
//! complete. So few readers have a place at a time. A reader asks for a turn for each piece, and yields to live readers
//! before it. A reader whose connection is full does not ask; after [`ReaderLimits::load_stalled_max`] its place is
//! another reader's, and it takes the next free one when it asks again. So nobody holds a place without taking pieces.
//!
//! [`ReaderLimits::load_stalled_max`]: super::ReaderLimits::load_stalled_max

use super::ReaderLimits;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The turns of a mirror's readers.
#[derive(Debug)]
pub(crate) struct Turns(Mutex<Order>);

/// A reader's right to a turn when those before it have had theirs.
#[derive(Debug)]
pub(crate) struct Ticket(u64);

/// Decides whose turn it is. It reads no clock.
#[derive(Debug)]
struct Order {
    places_max: usize,
    stalled_max: Duration,
    place_max: Duration,
    next: u64,
    /// The readers that are being given a snapshot, by their tickets.
    places: BTreeMap<u64, Place>,
    /// The readers that wait for a turn, by their tickets.
    waiting: BTreeMap<u64, Arc<Notify>>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    since: Instant,
    /// The last turn.
    turn_at: Instant,
}

/// The answer to a reader that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Go,
    /// Ask again at this time, or when notified.
    At(Instant),
    /// Ask again when notified.
    Later,
}

impl Turns {
    pub(super) fn new(limits: &ReaderLimits) -> Self {
        Self(Mutex::new(Order {
            places_max: limits.loads_max.max(1),
            stalled_max: limits.load_stalled_max,
            place_max: limits.load_turn_max,
            next: 0,
            places: BTreeMap::new(),
            waiting: BTreeMap::new(),
        }))
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        // A panic within it leaves at worst a reader that is not notified, and it asks again at its heartbeat.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ticket behind all others.
    pub(super) fn ticket(&self) -> Ticket {
        Ticket(self.order().ticket())
    }

    /// Gives a ticket back, and its place.
    pub(super) fn leave(&self, ticket: &Ticket) {
        let mut order = self.order();
        order.places.remove(&ticket.0);
        order.notify();
    }

    /// Waits for a turn. Cancel safe: the ticket stays.
    pub(super) async fn turn(&self, ticket: &mut Ticket) {
        // Live readers that wait for this thread come before each piece.
        tokio::task::yield_now().await;
        let called = Arc::new(Notify::new());
        self.order().waiting.insert(ticket.0, Arc::clone(&called));
        let waiting = Waiting { turns: self, ticket };
        loop {
            let answer = self.order().ask(&mut waiting.ticket.0, Instant::now());
            match answer {
                Answer::Go => return,
                Answer::At(at) => tokio::select! {
                    () = called.notified() => {}
                    () = sleep_until(at) => {}
                },
                Answer::Later => called.notified().await,
            }
        }
    }
}

/// A reader that waits for its turn, until it has had it or gives up.
struct Waiting<'a> {
    turns: &'a Turns,
    ticket: &'a mut Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut order = self.turns.order();
        order.waiting.remove(&self.ticket.0);
        order.notify();
    }
}

impl Order {
    fn ticket(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Asks for the turn of a ticket, which may be changed for one behind all others.
    fn ask(&mut self, ticket: &mut u64, now: Instant) -> Answer {
        let Self { stalled_max, place_max, .. } = *self;
        self.places.retain(|_, place| now < place.turn_at + stalled_max);
        let is_over = self.places.get(ticket).is_some_and(|place| now >= place.since + place_max);
        if is_over && self.waiting.keys().any(|other| other != ticket && !self.places.contains_key(other)) {
            self.places.remove(ticket);
            let called = self.waiting.remove(ticket);
            *ticket = self.ticket();
            self.waiting.extend(called.map(|called| (*ticket, called)));
            self.notify();
        }
        if self.first_with_place() == Some(*ticket) {
            let place = self.places.entry(*ticket).or_insert(Place { since: now, turn_at: now });
            place.turn_at = now;
            self.waiting.remove(ticket);
            return Answer::Go;
        }
        let free_at = self.places.values().map(|place| place.turn_at + stalled_max).min();
        match free_at {
            Some(at) if self.waiting.first_key_value().is_some_and(|(first, _)| first == ticket) => {
                Answer::At(at)
            }
            _ => Answer::Later,
        }
    }

    /// The first waiting reader that has a place, or may take a free one.
    fn first_with_place(&self) -> Option<u64> {
        if self.places.len() < self.places_max {
            return self.waiting.keys().next().copied();
        }
        self.places.keys().find(|ticket| self.waiting.contains_key(ticket)).copied()
    }

    /// Calls the reader that comes next, and the first one, which looks for places that become free.
    fn notify(&self) {
        let next = self.first_with_place();
        let first = self.waiting.keys().next().copied();
        for ticket in next.into_iter().chain(first.filter(|_| first != next)) {
            if let Some(called) = self.waiting.get(&ticket) {
                called.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests;
