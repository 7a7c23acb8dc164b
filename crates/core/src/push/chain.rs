//! One worker's pushes for one request, folded in their order.
//!
//! ```text
//!   pushes ──▶ waiting ──▶ fold with what has been folded ──▶ processed … last: a part of the wave
//! ```
//!
//! Invariants: what is folded is pushes 1 to `processed`, each once; what waits is the run of those up to `received`;
//! one fold of a chain runs at a time.

use super::PUSH_BYTES;
use crate::message::Payload;
use alloc::collections::VecDeque;
use alloc::sync::Arc;

/// One worker's pushes for one request.
#[derive(Debug)]
pub(crate) struct Chain<P> {
    folded: Option<P>,
    processed: u32,
    waiting: VecDeque<P>,
    received: u32,
    last: Option<u32>,
    is_folding: bool,
    /// Bytes of the pair that is being folded.
    folding_bytes: usize,
    /// Bytes of what waits, of what has been folded, and of the pair that is being folded.
    bytes: usize,
    /// Some push was dropped: nothing is taken until it comes again.
    pub(crate) is_broken: bool,
    /// Why the worker will not give its result.
    failed: Option<Arc<str>>,
}

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// It waits to be folded.
    Taken,
    /// It was here already.
    Known,
    /// One before it is lacking; true when that has just been found out.
    Gap(bool),
    /// It comes after the last.
    Beyond,
}

impl<P> Default for Chain<P> {
    fn default() -> Self {
        Self {
            folded: None,
            processed: 0,
            waiting: VecDeque::new(),
            received: 0,
            last: None,
            is_folding: false,
            folding_bytes: 0,
            bytes: 0,
            is_broken: false,
            failed: None,
        }
    }
}

impl<P: Payload> Chain<P> {
    /// The worker will not give its result. What it says first counts.
    pub(crate) fn fail(&mut self, problem: Arc<str>) {
        if self.failed.is_none() {
            self.bytes += PUSH_BYTES + problem.len();
            self.failed = Some(problem);
        }
    }

    /// Why the worker will not give its result.
    pub(crate) fn failed(&self) -> Option<&Arc<str>> {
        self.failed.as_ref()
    }

    /// The last push that is here.
    pub(crate) fn received(&self) -> u32 {
        self.received
    }

    /// The last push that has been folded.
    pub(crate) fn processed(&self) -> u32 {
        self.processed
    }

    /// True when the last push is here.
    pub(crate) fn is_whole(&self) -> bool {
        self.last == Some(self.received)
    }

    /// Bytes of what is here, the pair that is being folded included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of what waits to be folded.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.bytes - self.folding_bytes - self.folded.as_ref().map_or(0, Payload::len)
    }

    /// True when nothing waits: the next push is taken whatever the room.
    pub(crate) fn is_starved(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True when one of its folds is out.
    pub(crate) fn is_folding(&self) -> bool {
        self.is_folding
    }

    /// What a push is to this chain, before it is taken in.
    pub(crate) fn judge(&mut self, sequence: u32) -> Received {
        match self.received.checked_add(1) {
            _ if self.last.is_some_and(|last| sequence > last) => Received::Beyond,
            _ if sequence <= self.received => Received::Known,
            Some(next) if sequence == next => Received::Taken,
            _ => Received::Gap(!core::mem::replace(&mut self.is_broken, true)),
        }
    }

    /// Takes in the push that [`judge`](Self::judge) said to take.
    pub(crate) fn take_in(&mut self, last: bool, payload: P) {
        self.received += 1;
        self.is_broken = false;
        if last {
            self.last = Some(self.received);
        }
        self.bytes += cost_of(&payload);
        self.waiting.push_back(payload);
    }

    /// Takes what takes no work; gives two that are to be folded.
    pub(crate) fn advance(&mut self) -> Option<(P, P)> {
        while !self.is_folding {
            let next = self.waiting.pop_front()?;
            self.bytes -= cost_of(&next);
            match self.folded.take() {
                Some(folded) if !folded.is_empty() && !next.is_empty() => {
                    self.folding_bytes = folded.len() + next.len();
                    self.bytes += next.len();
                    self.is_folding = true;
                    return Some((folded, next));
                }
                Some(folded) if !folded.is_empty() => self.folded = Some(folded),
                _ => {
                    self.bytes += next.len();
                    self.folded = Some(next);
                }
            }
            self.processed += 1;
        }
        None
    }

    /// Two have become one.
    pub(crate) fn put_folded(&mut self, payload: P) {
        self.is_folding = false;
        self.processed += 1;
        self.bytes = self.bytes + payload.len() - core::mem::take(&mut self.folding_bytes);
        self.folded = Some(payload);
    }

    /// What all of them gave, when the last has been folded.
    pub(crate) fn take_whole(&mut self) -> Option<P> {
        if self.last != Some(self.processed) {
            return None;
        }
        let whole = self.folded.take()?;
        self.bytes -= whole.len();
        Some(whole)
    }
}

fn cost_of<P: Payload>(payload: &P) -> usize {
    payload.len() + PUSH_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn push(chain: &mut Chain<Bytes>, sequence: u32, last: bool, payload: &'static str) -> Received {
        let judged = chain.judge(sequence);
        if judged == Received::Taken {
            chain.take_in(last, Bytes::from_static(payload.as_bytes()));
        }
        judged
    }

    #[test]
    fn pushes_are_folded_in_order_and_are_whole_with_the_last() {
        let mut chain = Chain::default();
        assert_eq!(push(&mut chain, 1, false, "a"), Received::Taken);
        assert_eq!(push(&mut chain, 2, false, ""), Received::Taken);
        assert_eq!(push(&mut chain, 3, true, "b"), Received::Taken);
        let (a, b) = chain.advance().expect("the second has nothing to add");
        assert_eq!((&a[..], &b[..], chain.processed()), (&b"a"[..], &b"b"[..], 2));
        assert_eq!(
            (chain.bytes(), chain.waiting_bytes()),
            (2, 0),
            "the pair is held while it is being folded"
        );
        assert!(chain.advance().is_none() && chain.take_whole().is_none(), "one fold at a time");
        chain.put_folded("ab".into());
        assert_eq!(chain.take_whole(), Some("ab".into()));
        assert_eq!(chain.bytes(), 0);
    }

    #[test]
    fn what_is_known_is_not_taken_twice_and_a_gap_is_found_once() {
        let mut chain = Chain::default();
        push(&mut chain, 1, false, "a");
        assert_eq!(push(&mut chain, 1, false, "a"), Received::Known);
        assert_eq!(push(&mut chain, 3, true, "c"), Received::Gap(true));
        assert_eq!(push(&mut chain, 4, true, "d"), Received::Gap(false));
        assert_eq!(push(&mut chain, 2, true, "b"), Received::Taken);
        assert_eq!(push(&mut chain, 3, true, "c"), Received::Beyond);
        assert!(chain.is_whole());
    }

    #[test]
    fn who_has_nothing_gives_nothing() {
        let mut chain = Chain::default();
        push(&mut chain, 1, true, "");
        assert!(chain.advance().is_none());
        assert_eq!(chain.take_whole(), Some(Bytes::new()));
    }
}
