//! The planned events, in the order of (time, sequence).
//!
//! Two events that are planned for the same time happen in the order in which they were planned, so a run is
//! a function of its seed. The events are in a slab, and the heap orders small keys only, so an event may be
//! large.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use treefold_core::time::Instant;

/// A queue of planned events.
#[derive(Debug)]
pub struct Agenda<H> {
    order: BinaryHeap<Reverse<(Instant, i64, usize)>>,
    slab: Vec<Option<H>>,
    free: Vec<usize>,
    planned: i64,
    /// Events that were planned before others of their time.
    planned_first: i64,
}

impl<H> Default for Agenda<H> {
    fn default() -> Self {
        Self { order: BinaryHeap::new(), slab: Vec::new(), free: Vec::new(), planned: 0, planned_first: 0 }
    }
}

impl<H> Agenda<H> {
    /// Plans `happening` for `at`, after all others of that time.
    pub fn plan(&mut self, at: Instant, happening: H) {
        self.planned += 1;
        self.put(at, self.planned, happening);
    }

    /// Plans events for `at`, in their order, and before all others of that time.
    pub fn plan_first(&mut self, at: Instant, happenings: Vec<H>) {
        self.planned_first -= happenings.len() as i64;
        for (sequence, happening) in (self.planned_first..).zip(happenings) {
            self.put(at, sequence, happening);
        }
    }

    fn put(&mut self, at: Instant, sequence: i64, happening: H) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slab[slot] = Some(happening);
                slot
            }
            None => {
                self.slab.push(Some(happening));
                self.slab.len() - 1
            }
        };
        self.order.push(Reverse((at, sequence, slot)));
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<Instant> {
        self.order.peek().map(|Reverse((at, ..))| *at)
    }

    /// Removes the next event.
    pub fn pop(&mut self) -> Option<(Instant, H)> {
        let Reverse((at, _, slot)) = self.order.pop()?;
        self.free.push(slot);
        self.slab[slot].take().map(|happening| (at, happening))
    }

    /// Returns the number of planned events.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Tells whether no event is planned.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold_core::time::Duration;

    #[test]
    fn events_of_one_instant_happen_in_the_order_of_planning() {
        let at = |ms| Instant::START + Duration::from_millis(ms);
        let mut agenda = Agenda::default();
        for (ms, what) in [(5, 'b'), (1, 'a'), (5, 'c'), (9, 'd')] {
            agenda.plan(at(ms), what);
        }
        assert_eq!((agenda.len(), agenda.next_at()), (4, Some(at(1))));
        let row: String = std::iter::from_fn(|| agenda.pop()).map(|(_, what)| what).collect();
        assert_eq!(row, "abcd");
        agenda.plan(at(9), 'c');
        agenda.plan_first(at(9), vec!['a', 'b']);
        let row: String = std::iter::from_fn(|| agenda.pop()).map(|(_, what)| what).collect();
        assert_eq!(row, "abc");
        agenda.plan(at(10), 'e');
        assert_eq!(agenda.slab.len(), 4, "a freed slot is used again");
        assert!(agenda.pop().is_some() && agenda.is_empty());
    }
}
