//! Acknowledgement, at the origin: which events a source may forget.
//!
//! An event is acknowledged when no death of a node can lose it any more: it is *decided* (mirrored, taken up by
//! a mirrored one, or suppressed for good), and all that was mirrored until then is durable in the origin's journal
//! and applied by `copies` mirrors. Events that rules hold back are not decided, so they wait for their rule.
//!
//! Each packet *marks* how far its incoming streams are decided once it is sent. When the packet's last position
//! is durable and has its copies, these numbers are acknowledged.
//!
//! **The journal may know less than the sources.** A packet *records* in its head how far the streams are decided, and
//! later progress is in no record until the next packet. A new origin knows only the records. So the journal forgets
//! events up to the numbers in the head of a durable packet, although more are acknowledged: sources that have not
//! learned of it repeat the others, and the new origin must find these in the journal.

use std::collections::VecDeque;

/// Most marks. Above it, the newest one moves on, and its events are acknowledged a little later: mirrors that stay
/// away must not make an origin grow without end.
const MARKS_MAX: usize = 4_096;
/// Most heads that wait for the journal. Above it, the newest one replaces the one before.
const HEADS_MAX: usize = 2;

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
    /// The numbers in the heads of packets that are not durable.
    heads: VecDeque<Mark>,
    /// The numbers in the head of a durable packet.
    recorded: Vec<u64>,
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
        let (marks, heads) = (VecDeque::new(), VecDeque::new());
        Self { copies, durable: None, marks, numbers: Vec::new(), heads, recorded: Vec::new() }
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
        note(&mut self.marks, &self.numbers, MARKS_MAX, position, decided);
    }

    /// Notes that the packet with the events up to `position` says in its head that the streams are decided up to these
    /// numbers.
    pub fn record(&mut self, position: u64, decided: impl Iterator<Item = u64> + Clone) {
        note(&mut self.heads, &self.recorded, HEADS_MAX, position, decided);
        self.settle();
    }

    fn settle(&mut self) {
        let durable = self.durable.unwrap_or(u64::MAX);
        while let Some(head) = self.heads.pop_front_if(|head| head.position <= durable) {
            self.recorded = head.decided;
        }
    }

    /// Notes that the journal has all events up to `position`. An origin without a journal never calls this.
    pub fn set_durable(&mut self, position: u64) {
        self.durable = Some(position);
        self.settle();
    }

    /// Notes that there is no journal: events are acknowledged by their copies alone.
    pub fn forget_journal(&mut self) {
        self.durable = None;
        self.settle();
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

    /// For the incoming stream with this index, the number up to which its events are acknowledged, and a new origin
    /// would know from the journal that they are decided; 0 for none.
    pub fn recorded(&self, stream: usize) -> u64 {
        self.recorded.get(stream).copied().unwrap_or(0).min(self.number(stream))
    }
}

/// Appends a mark, unless the newest one, or `known` if there is none, says the same.
fn note(
    marks: &mut VecDeque<Mark>,
    known: &[u64],
    most: usize,
    position: u64,
    decided: impl Iterator<Item = u64> + Clone,
) {
    let newest = marks.back().map_or(known, |mark| &mark.decided);
    if decided.clone().eq(newest.iter().copied()) {
        return;
    }
    let is_full = marks.len() >= most;
    match marks.back_mut().filter(|mark| is_full || mark.position == position) {
        // Numbers that are decided at an earlier position are so at a later one.
        Some(mark) => {
            mark.position = position;
            mark.decided.clear();
            mark.decided.extend(decided);
        }
        None => marks.push_back(Mark { position, decided: decided.collect() }),
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
    fn recorded_is_what_the_head_of_a_durable_packet_says() {
        let mut one = acknowledging(0);
        one.set_durable(2);
        for (position, decided) in [(3, 5), (4, 7), (5, 9)] {
            one.record(position, [decided].into_iter());
        }
        assert_eq!(one.recorded(0), 0);
        one.set_durable(3);
        one.advance(None);
        assert_eq!((one.number(0), one.recorded(0)), (10, 5), "more is acknowledged than the journal knows");
        one.set_durable(4);
        assert_eq!(one.recorded(0), 5, "the head at 4 gave way to the one at 5");
        one.set_durable(5);
        assert_eq!(one.recorded(0), 9);
    }

    #[test]
    fn without_copies_and_journal_events_are_acknowledged_when_they_are_sent() {
        let mut one = acknowledging(0);
        assert!(one.advance(None));
        assert_eq!((one.number(0), one.number(1), one.number(2)), (11, 6, 0));
    }
}
