//! What a worker has pushed, and how far that has come: to be sent, on its way, folded, and kept until its request ends.
//!
//! A worker is a program of an application, and no node. What its library decides is decided here all the same, so that
//! the simulator's workers keep the very book that real ones keep.
//!
//! Invariants: of each request, `taken ≤ sent`; what lies between them is on its way and within the node's window, but
//! for one push that is larger than that: one of a request that is open, and one of those that are not. What was pushed
//! over a connection that is lost is *held*: it is sent again only when a node asks for it, since it may have gone up
//! already.

use super::message::PushMessage;
use super::{EARLY_FOR, ENDED_MAX, PUSH_BYTES};
use crate::message::Payload;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What is held after a connection was lost, and nobody asks for, is given up after this: it has gone up.
pub const HOLD_FOR: Duration = EARLY_FOR;

/// One request's pushes.
#[derive(Debug)]
struct Kept<P> {
    /// Those that are still here; the first has the sequence `gone + 1`.
    pushes: VecDeque<P>,
    /// So many at the front have made room.
    gone: u32,
    sent: u32,
    taken: u32,
    /// True when the last one is there.
    is_whole: bool,
    /// True when a node has said that the request is open.
    is_open: bool,
    /// Since when it waits to be asked for.
    held_since: Option<Instant>,
}

impl<P> Default for Kept<P> {
    fn default() -> Self {
        Self {
            pushes: VecDeque::new(),
            gone: 0,
            sent: 0,
            taken: 0,
            is_whole: false,
            is_open: false,
            held_since: None,
        }
    }
}

impl<P: Payload> Kept<P> {
    /// The sequence of the last push that there is.
    fn end(&self) -> u32 {
        self.gone + self.pushes.len() as u32
    }

    /// Bytes of those after `from` up to `upto`.
    fn cost(&self, from: u32, upto: u32) -> usize {
        let skipped = from.saturating_sub(self.gone) as usize;
        let count = upto.saturating_sub(from.max(self.gone)) as usize;
        self.pushes.iter().skip(skipped).take(count).map(cost_of::<P>).sum()
    }
}

fn cost_of<P: Payload>(push: &P) -> usize {
    push.len() + PUSH_BYTES
}

/// All that a worker keeps.
#[derive(Debug)]
pub struct Book<P> {
    requests: BTreeMap<u64, Kept<P>>,
    ended: BTreeSet<u64>,
    ended_row: VecDeque<u64>,
    /// What a request's result will not come for, to be said.
    failures: VecDeque<(u64, Arc<str>)>,
    /// The worker's own failures, until their requests have ended: a node that is lost may not have passed them on.
    failed: BTreeMap<u64, Arc<str>>,
    window: usize,
    in_flight: usize,
    kept_bytes: usize,
    kept_bytes_max: usize,
}

/// Nobody wants anything of the request any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over;

impl<P: Payload> Book<P> {
    /// An empty one, of a worker that is attached nowhere yet and keeps up to so many bytes.
    pub fn new(kept_bytes_max: usize) -> Self {
        Self {
            requests: BTreeMap::new(),
            ended: BTreeSet::new(),
            ended_row: VecDeque::new(),
            failures: VecDeque::new(),
            failed: BTreeMap::new(),
            window: 0,
            in_flight: 0,
            kept_bytes: 0,
            kept_bytes_max,
        }
    }

    /// True while more may be pushed. What has been folded makes room first: should it be asked for again, the worker
    /// has to say that it is gone.
    pub fn has_room(&mut self) -> bool {
        while self.kept_bytes >= self.kept_bytes_max {
            let has_gone_up = |kept: &Kept<P>| kept.taken > kept.gone || kept.held_since.is_some();
            let gone_up =
                self.requests.values_mut().find(|kept| has_gone_up(kept) && !kept.pushes.is_empty());
            let Some(kept) = gone_up else { return false };
            if let Some(push) = kept.pushes.pop_front() {
                self.kept_bytes -= cost_of(&push);
            }
            kept.gone += 1;
            (kept.sent, kept.taken) = (kept.sent.max(kept.gone), kept.taken.max(kept.gone));
        }
        true
    }

    /// True when nothing is kept of any request.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.failures.is_empty() && self.failed.is_empty()
    }

    /// The worker pushes.
    ///
    /// # Errors
    /// When the request has ended, or its last push is in the book: nothing has changed.
    pub fn push(&mut self, request: u64, payload: P, last: bool) -> Result<(), Over> {
        if self.ended.contains(&request) {
            return Err(Over);
        }
        let kept = self.requests.entry(request).or_default();
        if kept.is_whole {
            return Err(Over);
        }
        kept.is_whole = last;
        self.kept_bytes += cost_of(&payload);
        kept.pushes.push_back(payload);
        Ok(())
    }

    /// The worker's result will not come.
    pub fn fail(&mut self, request: u64, problem: Arc<str>) {
        if !self.ended.contains(&request) {
            self.forget(request);
            self.note_ended(request);
            self.kept_bytes += PUSH_BYTES + problem.len();
            self.failed.insert(request, Arc::clone(&problem));
            self.failures.push_back((request, problem));
        }
    }

    /// A node has taken the worker in, with this window.
    pub fn attached(&mut self, now: Instant, window: u64) {
        self.window = usize::try_from(window).unwrap_or(usize::MAX);
        self.in_flight = 0;
        self.expire(now);
        self.failures =
            self.failed.iter().map(|(&request, problem)| (request, Arc::clone(problem))).collect();
        // Whoever asked for it is gone, and may never say that it has ended.
        self.requests.retain(|_, kept| kept.end() > 0);
        self.requests.values_mut().for_each(|kept| kept.is_open = false);
        for kept in self.requests.values_mut().filter(|kept| kept.sent > 0) {
            (kept.sent, kept.taken) = (kept.gone, kept.gone);
            kept.held_since.get_or_insert(now);
        }
    }

    /// Gives up what nobody asks for. Of what had not all been pushed, the rest must not go for all: that request has
    /// ended.
    pub fn expire(&mut self, now: Instant) {
        let is_old = |kept: &Kept<P>| kept.held_since.is_some_and(|since| now.since(since) >= HOLD_FOR);
        let old = self.requests.iter().filter(|(_, kept)| is_old(kept));
        let old: Vec<(u64, bool)> = old.map(|(&request, kept)| (request, kept.is_whole)).collect();
        for (request, is_whole) in old {
            self.forget(request);
            if !is_whole {
                self.note_ended(request);
            }
        }
    }

    /// What a node says. What workers say is ignored.
    pub fn hear(&mut self, message: &PushMessage<P>) {
        match *message {
            PushMessage::Wanted { request, after, again } => self.want(request, after, again),
            PushMessage::Taken { request, upto } => {
                let Some(kept) = self.requests.get_mut(&request) else { return };
                let upto = upto.min(kept.sent);
                if upto > kept.taken {
                    self.in_flight -= kept.cost(kept.taken, upto);
                    kept.taken = upto;
                }
            }
            PushMessage::Ended { request } => {
                self.forget(request);
                self.note_ended(request);
            }
            _ => {}
        }
    }

    fn want(&mut self, request: u64, after: u32, again: bool) {
        if let Some(problem) = self.failed.get(&request) {
            return self.failures.push_back((request, Arc::clone(problem)));
        }
        if self.ended.contains(&request) {
            let problem = "the worker was told that the request had ended";
            return self.failures.push_back((request, problem.into()));
        }
        let kept = self.requests.entry(request).or_default();
        kept.is_open = true;
        let was_held = kept.held_since.take().is_some();
        if !(again || was_held) {
            return;
        }
        if after < kept.gone {
            let problem = format!("push {} is no longer kept", after + 1);
            return self.fail(request, problem.into());
        }
        self.in_flight -= kept.cost(kept.taken, kept.sent);
        (kept.sent, kept.taken) = (after, after);
    }

    /// What is to be sent next, if anything may be.
    pub fn poll_word(&mut self) -> Option<PushMessage<P>> {
        if let Some((request, problem)) = self.failures.pop_front() {
            return Some(PushMessage::Failed { request, problem });
        }
        // Requests that are open go first, and the others leave half of the window to them.
        self.next_of(true, self.window).or_else(|| self.next_of(false, self.window / 2))
    }

    fn next_of(&mut self, is_open: bool, window: usize) -> Option<PushMessage<P>> {
        let is_ready =
            |kept: &Kept<P>| kept.is_open == is_open && kept.held_since.is_none() && kept.sent < kept.end();
        let (&request, kept) = self.requests.iter().find(|(_, kept)| is_ready(kept))?;
        let payload = kept.pushes.get((kept.sent - kept.gone) as usize)?;
        let (cost, payload) = (cost_of(payload), payload.clone());
        let sequence = kept.sent + 1;
        let last = kept.is_whole && sequence == kept.end();
        if self.in_flight + cost > window && self.is_on_its_way(is_open) {
            return None;
        }
        let kept = self.requests.get_mut(&request)?;
        self.in_flight += cost;
        kept.sent = sequence;
        Some(PushMessage::Push { request, sequence, last, payload })
    }

    /// True when something is on its way already. What nobody has asked for, and may not for long, does not count where
    /// it is asked for requests that are open: it is larger than its half of the window.
    fn is_on_its_way(&self, of_open: bool) -> bool {
        let is_counted = |kept: &&Kept<P>| kept.is_open || !of_open;
        self.requests.values().filter(is_counted).any(|kept| kept.taken < kept.sent)
    }

    fn forget(&mut self, request: u64) {
        if let Some(kept) = self.requests.remove(&request) {
            self.in_flight -= kept.cost(kept.taken, kept.sent);
            self.kept_bytes -= kept.cost(kept.gone, kept.end());
        }
        if let Some(problem) = self.failed.remove(&request) {
            self.kept_bytes -= PUSH_BYTES + problem.len();
        }
    }

    fn note_ended(&mut self, request: u64) {
        if self.ended.insert(request) {
            self.ended_row.push_back(request);
        }
        if self.ended_row.len() > ENDED_MAX
            && let Some(oldest) = self.ended_row.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use bytes::Bytes;

    fn book() -> Book<Bytes> {
        let mut book = Book::new(1 << 20);
        book.attached(Instant::START, 4 * 1_256);
        book
    }

    fn piece(byte: u8) -> Bytes {
        Bytes::from(vec![byte; 1_000])
    }

    /// Everything that may be sent now, as sequences.
    fn sent(book: &mut Book<Bytes>) -> Vec<u32> {
        core::iter::from_fn(|| book.poll_word())
            .map(|message| match message {
                PushMessage::Push { sequence, .. } => sequence,
                message => panic!("{message:?}"),
            })
            .collect()
    }

    #[test]
    fn the_window_bounds_what_is_on_its_way_and_half_of_it_is_for_requests_that_are_open() {
        let mut book = book();
        (1..=6).for_each(|byte| book.push(7, piece(byte), byte == 6).unwrap());
        assert_eq!(sent(&mut book), [1, 2], "nobody has asked for it yet");
        book.hear(&PushMessage::Wanted { request: 7, after: 2, again: false });
        assert_eq!(sent(&mut book), [3, 4]);
        book.hear(&PushMessage::Taken { request: 7, upto: 3 });
        assert_eq!(sent(&mut book), [5, 6]);
        book.hear(&PushMessage::Ended { request: 7 });
        assert!(book.is_empty() && book.in_flight == 0 && book.kept_bytes == 0);
        assert_eq!(book.push(7, piece(7), true), Err(Over));
    }

    #[test]
    fn after_a_loss_only_what_is_asked_for_is_sent_again() {
        let mut book = book();
        (1..=3).for_each(|byte| book.push(7, piece(byte), byte == 3).unwrap());
        book.push(8, piece(9), true).unwrap();
        book.hear(&PushMessage::Wanted { request: 7, after: 0, again: false });
        assert_eq!(sent(&mut book), [1, 2, 3]);
        book.attached(Instant::START, 4 * 1_256);
        book.push(9, piece(1), true).unwrap();
        assert_eq!(sent(&mut book), [1, 1], "of requests that no node has had anything of");
        book.hear(&PushMessage::Wanted { request: 7, after: 2, again: true });
        assert_eq!(sent(&mut book), [3]);
    }

    #[test]
    fn a_failure_is_said_until_its_request_has_ended() {
        let failed = |book: &mut Book<Bytes>| match book.poll_word() {
            Some(PushMessage::Failed { request, problem }) => Some((request, problem)),
            _ => None,
        };
        let mut book = book();
        book.push(7, piece(1), false).unwrap();
        book.fail(7, "no disk".into());
        let said = Some((7, "no disk".into()));
        assert_eq!((failed(&mut book), failed(&mut book)), (said.clone(), None));
        book.attached(Instant::START, 4 * 1_256);
        assert_eq!(failed(&mut book), said, "the node that heard it is lost");
        book.hear(&PushMessage::Wanted { request: 7, after: 0, again: false });
        assert_eq!(failed(&mut book), said, "the node had no room for it before");
        assert!(!book.is_empty());
        book.hear(&PushMessage::Ended { request: 7 });
        assert!(book.is_empty() && book.kept_bytes == 0);
    }

    #[test]
    fn what_nobody_asks_for_is_given_up_and_the_rest_of_it_does_not_go_for_all() {
        let mut book = book();
        book.push(7, piece(1), false).unwrap();
        book.push(8, piece(1), true).unwrap();
        assert_eq!(sent(&mut book), [1, 1]);
        book.attached(Instant::START, 4 * 1_256);
        book.expire(Instant::START + HOLD_FOR);
        assert!(book.is_empty());
        assert_eq!(book.push(7, piece(2), true), Err(Over), "the first would be missing");
        book.hear(&PushMessage::Wanted { request: 7, after: 0, again: false });
        assert!(matches!(book.poll_word(), Some(PushMessage::Failed { request: 7, .. })));
    }

    #[test]
    fn what_has_been_folded_makes_room_and_is_then_gone_for_good() {
        let mut book = Book::new(3 * 1_256);
        book.attached(Instant::START, 1 << 20);
        (1..=3).for_each(|byte| book.push(7, piece(byte), false).unwrap());
        assert!(!book.has_room());
        sent(&mut book);
        book.hear(&PushMessage::Taken { request: 7, upto: 2 });
        assert!(book.has_room());
        book.attached(Instant::START, 1 << 20);
        book.hear(&PushMessage::Wanted { request: 7, after: 0, again: true });
        let said = book.poll_word();
        assert!(matches!(said, Some(PushMessage::Failed { request: 7, .. })), "{said:?}");
        book.hear(&PushMessage::Ended { request: 7 });
        assert!(book.is_empty() && book.kept_bytes == 0);
    }

    #[test]
    fn what_was_asked_for_by_a_node_that_is_gone_and_never_pushed_is_not_kept() {
        let mut book = book();
        book.hear(&PushMessage::Wanted { request: 7, after: 0, again: false });
        assert!(!book.is_empty(), "the node waits for it");
        book.attached(Instant::START, 4 * 1_256);
        assert!(book.is_empty());
    }

    #[test]
    fn what_is_asked_for_does_not_wait_for_what_nobody_asks_for() {
        let mut book = book();
        book.push(6, Bytes::from(vec![6; 20_000]), true).unwrap();
        assert_eq!(sent(&mut book), [1], "larger than the window, and alone");
        (1..=3).for_each(|byte| book.push(7, piece(byte), byte == 3).unwrap());
        assert!(sent(&mut book).is_empty());
        book.hear(&PushMessage::Wanted { request: 7, after: 0, again: false });
        assert_eq!(sent(&mut book), [1], "one at a time");
        book.hear(&PushMessage::Taken { request: 7, upto: 1 });
        assert_eq!(sent(&mut book), [2]);
    }

    #[test]
    fn whoever_starts_anew_goes_on_where_the_node_says() {
        let mut book = book();
        book.hear(&PushMessage::Wanted { request: 7, after: 2, again: true });
        (1..=3).for_each(|byte| book.push(7, piece(byte), byte == 3).unwrap());
        assert_eq!(sent(&mut book), [3]);
    }
}
