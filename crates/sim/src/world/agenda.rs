//! What is still to happen, in the order of (time, sequence).
//!
//! Two things planned for the same instant happen in the order in which they were planned, so a run is a function
//! of its seed. Entries lie in a slab and the heap orders small keys only: a message is as large as it likes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use treefold_core::time::Instant;

/// A queue of happenings.
#[derive(Debug)]
pub struct Agenda<H> {
    order: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    slab: Vec<Option<H>>,
    free: Vec<usize>,
    planned: u64,
}

impl<H> Default for Agenda<H> {
    fn default() -> Self {
        Self { order: BinaryHeap::new(), slab: Vec::new(), free: Vec::new(), planned: 0 }
    }
}

impl<H> Agenda<H> {
    /// Plans `happening` for `at`.
    pub fn plan(&mut self, at: Instant, happening: H) {
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
        self.planned += 1;
        self.order.push(Reverse((at, self.planned, slot)));
    }

    /// When the next thing happens.
    pub fn next_at(&self) -> Option<Instant> {
        self.order.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next thing out.
    pub fn pop(&mut self) -> Option<(Instant, H)> {
        let Reverse((at, _, slot)) = self.order.pop()?;
        self.free.push(slot);
        self.slab[slot].take().map(|happening| (at, happening))
    }

    /// How many things are planned.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True when nothing is.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold_core::time::Duration;

    #[test]
    fn what_is_planned_for_one_instant_happens_in_the_order_of_planning() {
        let at = |ms| Instant::START + Duration::from_millis(ms);
        let mut agenda = Agenda::default();
        for (ms, what) in [(5, 'b'), (1, 'a'), (5, 'c'), (9, 'd')] {
            agenda.plan(at(ms), what);
        }
        assert_eq!((agenda.len(), agenda.next_at()), (4, Some(at(1))));
        let row: String = std::iter::from_fn(|| agenda.pop()).map(|(_, what)| what).collect();
        assert_eq!(row, "abcd");
        agenda.plan(at(10), 'e');
        assert_eq!(agenda.slab.len(), 4, "slots are used again");
        assert!(agenda.pop().is_some() && agenda.is_empty());
    }
}
