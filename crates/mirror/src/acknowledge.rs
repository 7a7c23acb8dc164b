//! Acknowledgement, at the origin: which events a source may forget.
//!
//! An event is acknowledged when no death of a node can lose it any more: it is *decided* (mirrored, taken up by
//! a mirrored one, or suppressed for good), and all that was mirrored until then is durable in the origin's journal
//! and applied by `copies` mirrors. Events that rules hold back are not decided, so they wait for their rule.
//!
//! Each packet *marks* how far its incoming streams are decided once it is sent. When the packet's last position
//! is durable and has its copies, these numbers are acknowledged.

use std::collections::VecDeque;

/// Most marks. Above it, the newest one moves on, and its events are acknowledged a little later: mirrors that stay
/// away must not make an origin grow without end.
const MARKS_MAX: usize = 4_096;

/// The acknowledgements of one origin.
#[derive(Debug)]
pub struct Acknowledging {
    copies: u32,
    /// The last durable position; `None` without a journal.
    durable: Option<u64>,
    /// Marks that are not acknowledged, in the order of their positions.
    marks: VecDeque<Mark>,
    /// For each incoming stream, the number up to which its events are acknowledged.
    numbers: Vec<u64>,
}

/// The progress of the incoming streams at one position.
#[derive(Debug)]
struct Mark {
    position: u64,
    /// For each incoming stream, the number up to which its events are decided. Later streams are absent.
    decided: Vec<u64>,
}

impl Acknowledging {
    /// Starts without any event. `copies` is the number of mirrors that must have an event.
    pub fn new(copies: u32) -> Self {
        Self { copies, durable: None, marks: VecDeque::new(), numbers: Vec::new() }
    }

    /// Sets the number of mirrors that must have an event.
    pub fn set_copies(&mut self, copies: u32) {
        self.copies = copies;
    }

    /// The number of mirrors that must have an event.
    pub fn copies(&self) -> u32 {
        self.copies
    }

    /// Notes that the streams are decided up to these numbers once all events up to `position` are sent.
    pub fn mark(&mut self, position: u64, decided: impl Iterator<Item = u64> + Clone) {
        let newest = self.marks.back().map_or(&self.numbers, |mark| &mark.decided);
        if decided.clone().eq(newest.iter().copied()) {
            return;
        }
        let is_full = self.marks.len() >= MARKS_MAX;
        match self.marks.back_mut().filter(|mark| is_full || mark.position == position) {
            // Numbers that are decided at an earlier position are so at a later one.
            Some(mark) => {
                mark.position = position;
                mark.decided.clear();
                mark.decided.extend(decided);
            }
            None => self.marks.push_back(Mark { position, decided: decided.collect() }),
        }
    }

    /// Notes that the journal has all events up to `position`. An origin without a journal never calls this.
    pub fn set_durable(&mut self, position: u64) {
        self.durable = Some(position);
    }

    /// Notes that there is no journal: events are acknowledged by their copies alone.
    pub fn forget_journal(&mut self) {
        self.durable = None;
    }

    /// Acknowledges the marks up to the position that is durable and that `copies` mirrors have (`held`).
    /// Returns true if any number has grown.
    pub fn advance(&mut self, held: Option<u64>) -> bool {
        let held = if self.copies == 0 { u64::MAX } else { held.unwrap_or(0) };
        let position = held.min(self.durable.unwrap_or(u64::MAX));
        let mut has_grown = false;
        while self.marks.front().is_some_and(|mark| mark.position <= position)
            && let Some(mark) = self.marks.pop_front()
        {
            self.numbers.resize(self.numbers.len().max(mark.decided.len()), 0);
            for (known, decided) in self.numbers.iter_mut().zip(mark.decided) {
                has_grown |= decided > *known;
                *known = decided.max(*known);
            }
        }
        has_grown
    }

    /// The position of the last mark that is not acknowledged.
    pub fn waiting(&self) -> Option<u64> {
        self.marks.back().map(|mark| mark.position)
    }

    /// For the incoming stream with this index, the number up to which its events are acknowledged; 0 for none.
    pub fn number(&self, stream: usize) -> u64 {
        self.numbers.get(stream).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledging(copies: u32) -> Acknowledging {
        let mut acknowledging = Acknowledging::new(copies);
        acknowledging.mark(3, [10].into_iter());
        acknowledging.mark(5, [11, 4].into_iter());
        acknowledging.mark(5, [11, 6].into_iter());
        acknowledging
    }

    #[test]
    fn events_need_their_copies_and_the_journal() {
        let mut one = acknowledging(1);
        one.set_durable(4);
        assert!(!one.advance(None), "no mirror has any");
        assert!(!one.advance(Some(2)));
        assert!(one.advance(Some(9)));
        assert_eq!((one.number(0), one.number(1), one.waiting()), (10, 0, Some(5)), "5 is not durable");
        one.set_durable(5);
        assert!(one.advance(Some(5)));
        assert_eq!((one.number(0), one.number(1), one.waiting()), (11, 6, None));
        assert!(!one.advance(Some(9)));
    }

    #[test]
    fn without_copies_and_journal_events_are_acknowledged_when_they_are_sent() {
        let mut one = acknowledging(0);
        assert!(one.advance(None));
        assert_eq!((one.number(0), one.number(1), one.number(2)), (11, 6, 0));
    }
}
