//! One worker's pushes for one request, folded in their order.
//!
//! ```text
//!   pushes ──▶ waiting ──▶ fold with what has been folded ──▶ processed … last: a part of the wave
//! ```
//!
//! Invariants: pushes 1 to `processed` have been folded, each once; the waiting pushes are the next ones, up
//! to `received`; a chain has at most one fold at a time.

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
    /// Bytes of the waiting pushes, of the folded result, and of the pair that is being folded.
    bytes: usize,
    /// True after a push was dropped: no push is accepted until that one comes again.
    pub(crate) is_broken: bool,
    /// Why the worker will not give its result.
    failed: Option<Arc<str>>,
}

/// How a chain judges a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// The push waits to be folded.
    Taken,
    /// The push was here already.
    Known,
    /// An earlier push is missing; true if this is the first sign of it.
    Gap(bool),
    /// The push comes after the last one.
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
    /// Notes that the worker will not give its result. The first reason is kept.
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

    /// The last push received.
    pub(crate) fn received(&self) -> u32 {
        self.received
    }

    /// The last push that has been folded.
    pub(crate) fn processed(&self) -> u32 {
        self.processed
    }

    /// True when the last push has been received.
    pub(crate) fn is_whole(&self) -> bool {
        self.last == Some(self.received)
    }

    /// Bytes held by this chain, including the pair that is being folded.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that wait to be folded.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.bytes - self.folding_bytes - self.folded.as_ref().map_or(0, Payload::len)
    }

    /// True when no push waits. The next push is then accepted even if there is no room.
    pub(crate) fn is_starved(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True while one of its folds is in progress.
    pub(crate) fn is_folding(&self) -> bool {
        self.is_folding
    }

    /// Judges a push before it is taken in.
    pub(crate) fn judge(&mut self, sequence: u32) -> Received {
        match self.received.checked_add(1) {
            _ if self.last.is_some_and(|last| sequence > last) => Received::Beyond,
            _ if sequence <= self.received => Received::Known,
            Some(next) if sequence == next => Received::Taken,
            _ => Received::Gap(!core::mem::replace(&mut self.is_broken, true)),
        }
    }

    /// Takes in a push for which [`judge`](Self::judge) returned `Taken`.
    pub(crate) fn take_in(&mut self, last: bool, payload: P) {
        self.received += 1;
        self.is_broken = false;
        if last {
            self.last = Some(self.received);
        }
        self.bytes += cost_of(&payload);
        self.waiting.push_back(payload);
    }

    /// Takes the pushes that need no fold; returns the next two payloads to fold.
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

    /// Takes the result of a fold.
    pub(crate) fn put_folded(&mut self, payload: P) {
        self.is_folding = false;
        self.processed += 1;
        self.bytes = self.bytes + payload.len() - core::mem::take(&mut self.folding_bytes);
        self.folded = Some(payload);
    }

    /// Takes the result of all pushes, when the last has been folded.
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
    fn known_pushes_are_ignored_and_a_gap_is_reported_once() {
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
    fn an_empty_push_gives_an_empty_result() {
        let mut chain = Chain::default();
        push(&mut chain, 1, true, "");
        assert!(chain.advance().is_none());
        assert_eq!(chain.take_whole(), Some(Bytes::new()));
    }
}
