//! Bytes that one connection makes the node hold, its progress with them, and their sum over connections.
//!
//! There are two kinds: frames that have arrived only in part, and messages that wait to be written. A peer that stops
//! sending the one, or reading the other, holds the node's memory for as long as it likes. Each connection has a limit of
//! its own, but thousands of connections may do so at once. The sums therefore have limits too ([`super::eviction`]).
//!
//! Counting takes one comparison as long as a connection holds little. It needs no lock and allocates nothing.

use std::cell::Cell;
use std::cmp::Ordering;
use std::rc::Rc;
use treefold_core::time::{Duration, Instant};

/// Fewer bytes are not counted: every connection has a buffer of about this size.
const COUNTED_BYTES_LEAST: usize = 16 << 10;
/// Progress is that of the current span of this length and of the one before.
const SPAN: Duration = Duration::from_secs(1);

/// The bytes of one kind that all connections hold.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub(crate) all: Cell<usize>,
    /// The part of connections that the node does not trust to keep to a credit.
    pub(crate) guests: Cell<usize>,
}

/// The direction in which a connection's bytes change if its peer does its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The peer sends the rest.
    Grows,
    /// The peer reads.
    Shrinks,
}

/// The bytes of one kind that one connection holds.
#[derive(Debug)]
pub(crate) struct Holding {
    sums: Rc<Sums>,
    progress: Progress,
    held: Cell<usize>,
    is_guest: Cell<bool>,
    held_since: Cell<Instant>,
    span_began: Cell<Instant>,
    /// Bytes of progress in this span, and in the one before.
    moved: Cell<[u64; 2]>,
}

impl Holding {
    /// The holding of a new connection.
    pub(crate) fn new(sums: &Rc<Sums>, progress: Progress) -> Self {
        Self {
            sums: Rc::clone(sums),
            progress,
            held: Cell::new(0),
            is_guest: Cell::new(true),
            held_since: Cell::default(),
            span_began: Cell::default(),
            moved: Cell::default(),
        }
    }

    /// Bytes held now.
    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    /// True if a change to `held` bytes needs no count.
    pub(crate) fn ignores(&self, held: usize) -> bool {
        held < COUNTED_BYTES_LEAST && self.held.get() == 0
    }

    /// Notes that the connection now holds `held` bytes. Asks `is_guest` at most once in each span.
    pub(crate) fn note(&self, now: Instant, held: usize, is_guest: impl FnOnce() -> bool) {
        let before = self.held.get();
        if self.span_began.get().until(now) >= SPAN {
            self.moved.set([0, self.moved_in_last_span(now)]);
            self.span_began.set(now);
            self.set_held(0);
            self.is_guest.set(self.is_guest.get() && is_guest());
        }
        if before == 0 {
            self.held_since.set(now);
        }
        let moved = match self.progress {
            Progress::Grows => held.saturating_sub(before),
            Progress::Shrinks => before.saturating_sub(held),
        };
        let [current, last] = self.moved.get();
        self.moved.set([current + moved as u64, last]);
        self.set_held(held);
    }

    /// Removes the connection's bytes from the sums, because it is closed.
    pub(crate) fn clear(&self) {
        self.set_held(0);
    }

    fn set_held(&self, held: usize) {
        let before = self.held.replace(held);
        let Sums { all, guests } = &*self.sums;
        all.set(all.get() - before + held);
        if self.is_guest.get() {
            guests.set(guests.get() - before + held);
        }
    }

    /// The progress of the current span, if `now` is in the one that follows it.
    fn moved_in_last_span(&self, now: Instant) -> u64 {
        if self.span_began.get().until(now) < SPAN + SPAN { self.moved.get()[0] } else { 0 }
    }

    fn moved_lately(&self, now: Instant) -> u64 {
        let [current, last] = self.moved.get();
        if self.span_began.get().until(now) < SPAN { current + last } else { self.moved_in_last_span(now) }
    }

    /// Compares the order of eviction: guests first, then by progress for each byte held, then by age.
    pub(crate) fn compare(&self, other: &Self, now: Instant) -> Ordering {
        let [(ours, our_held), (theirs, their_held)] =
            [self, other].map(|holding| (u128::from(holding.moved_lately(now)), holding.held.get() as u128));
        let by_class = other.is_guest.get().cmp(&self.is_guest.get());
        let by_progress = (ours * their_held).cmp(&(theirs * our_held));
        by_class.then(by_progress).then(self.held_since.get().cmp(&other.held_since.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(10_000_000_000) + Duration::from_millis(millis)
    }

    fn arriving(sums: &Rc<Sums>, held: usize, millis: u64, is_guest: bool) -> Holding {
        let holding = Holding::new(sums, Progress::Grows);
        holding.note(at(millis), held, || is_guest);
        holding
    }

    #[test]
    fn sums_follow_the_connections() {
        let sums = Rc::new(Sums::default());
        let (guest, member) = (arriving(&sums, MIB, 0, true), arriving(&sums, 3 * MIB, 0, false));
        assert_eq!((sums.all.get(), sums.guests.get()), (4 * MIB, MIB));
        // A guest becomes a member, which is seen in the next span.
        guest.note(at(500), 2 * MIB, || false);
        assert_eq!((sums.all.get(), sums.guests.get()), (5 * MIB, 2 * MIB));
        guest.note(at(1_500), 2 * MIB, || false);
        assert_eq!((sums.all.get(), sums.guests.get()), (5 * MIB, 0));
        guest.clear();
        member.note(at(2_000), 0, || false);
        assert_eq!((sums.all.get(), sums.guests.get()), (0, 0));
    }

    #[test]
    fn guests_go_before_members_and_the_slowest_first() {
        let sums = Rc::default();
        let (member, stalled) = (arriving(&sums, MIB, 0, false), arriving(&sums, MIB, 1_000, true));
        let fast = arriving(&sums, 8 * MIB, 1_000, true);
        assert_eq!(stalled.compare(&member, at(1_000)), Ordering::Less);
        assert_eq!(stalled.compare(&fast, at(1_000)), Ordering::Equal, "both have just come");
        fast.note(at(2_500), 12 * MIB, || true);
        assert_eq!(stalled.compare(&fast, at(3_100)), Ordering::Less);
        assert_eq!(fast.compare(&stalled, at(3_100)), Ordering::Greater);
        let (old, new) = (arriving(&sums, MIB, 4_000, true), arriving(&sums, MIB, 4_001, true));
        assert_eq!(old.compare(&new, at(4_002)), Ordering::Less, "the older one of two equals");
    }

    #[test]
    fn a_peer_that_reads_makes_progress_with_waiting_bytes() {
        let sums = Rc::default();
        let [deaf, reading] = [0, 1].map(|_| Holding::new(&sums, Progress::Shrinks));
        for holding in [&deaf, &reading] {
            holding.note(at(0), 4 * MIB, || true);
        }
        reading.note(at(100), 2 * MIB, || true);
        reading.note(at(200), 4 * MIB, || true);
        assert_eq!(deaf.compare(&reading, at(300)), Ordering::Less);
    }
}
