//! The book of a worker: its pushes, which of them are sent, in flight or folded, until their request ends.
//!
//! A worker is a program of an application, not a node. The decisions of its library are made here all the
//! same, so that the simulator's workers use the same book as real ones.
//!
//! Invariants: for each request, `taken ≤ sent`. The pushes between them are in flight, and within the node's
//! window. One push larger than the window is allowed among open requests, and one among the others. Pushes
//! sent over a connection that is lost are *held*: they are sent again only if a node asks for them, because
//! they may have gone up already.

use super::message::PushMessage;
use super::{EARLY_FOR, ENDED_MAX, PUSH_BYTES};
use crate::message::Payload;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Pushes held after a loss are given up after this time if no node asks for them: they have gone up.
pub const HOLD_FOR: Duration = EARLY_FOR;

/// The pushes of one request.
#[derive(Debug)]
struct Kept<P> {
    /// Pushes that are still here; the first has the sequence number `gone + 1`.
    pushes: VecDeque<P>,
    /// Number of pushes dropped from the front to make room.
    gone: u32,
    sent: u32,
    taken: u32,
    /// True when the last push is here.
    is_whole: bool,
    /// True when a node has said that the request is open.
    is_open: bool,
    /// Since when it waits for a node to ask for it.
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
    /// Sequence number of the last push.
    fn end(&self) -> u32 {
        self.gone + self.pushes.len() as u32
    }

    /// Bytes of the pushes after `from` up to `upto`.
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
    /// Failures to be sent, with the reason why no result will come.
    failures: VecDeque<(u64, Arc<str>)>,
    /// The worker's own failures, until their requests end: a node that is lost may not have passed them on.
    failed: BTreeMap<u64, Arc<str>>,
    window: usize,
    in_flight: usize,
    kept_bytes: usize,
    kept_bytes_max: usize,
}

/// The request has ended: no node needs its pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over;

impl<P: Payload> Book<P> {
    /// An empty book of a worker that is not attached yet and keeps up to so many bytes.
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

    /// True while more may be pushed. Folded pushes are dropped first to make room.
    ///
    /// If a node asks for a dropped push again, the worker must report it as lost.
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

    /// True if nothing is kept of any request.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.failures.is_empty() && self.failed.is_empty()
    }

    /// Adds a push.
    ///
    /// # Errors
    /// If the request has ended, or its last push is in the book: nothing has changed.
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

    /// Notes that the worker's result will not come.
    pub fn fail(&mut self, request: u64, problem: Arc<str>) {
        if !self.ended.contains(&request) {
            self.forget(request);
            self.note_ended(request);
            self.kept_bytes += PUSH_BYTES + problem.len();
            self.failed.insert(request, Arc::clone(&problem));
            self.failures.push_back((request, problem));
        }
    }

    /// Notes that a node has attached the worker, with this window.
    pub fn attached(&mut self, now: Instant, window: u64) {
        self.window = usize::try_from(window).unwrap_or(usize::MAX);
        self.in_flight = 0;
        self.expire(now);
        self.failures =
            self.failed.iter().map(|(&request, problem)| (request, Arc::clone(problem))).collect();
        // The node that asked for it is lost, and may never say that the request has ended.
        self.requests.retain(|_, kept| kept.end() > 0);
        self.requests.values_mut().for_each(|kept| kept.is_open = false);
        for kept in self.requests.values_mut().filter(|kept| kept.sent > 0) {
            (kept.sent, kept.taken) = (kept.gone, kept.gone);
            kept.held_since.get_or_insert(now);
        }
    }

    /// Gives up held pushes for which no node asks.
    ///
    /// If not all of a request's pushes have been made, the request ends, because the rest must not count as
    /// the whole.
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

    /// Handles a message of a node. Messages of workers are ignored.
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

    /// The next message to send, if any may be sent.
    pub fn poll_word(&mut self) -> Option<PushMessage<P>> {
        if let Some((request, problem)) = self.failures.pop_front() {
            return Some(PushMessage::Failed { request, problem });
        }
        // Open requests go first, and the others leave half of the window to them.
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

    /// True if a push is in flight that counts here.
    ///
    /// For open requests, only pushes of open requests count: a push that no node has asked for may stay in
    /// flight for long, even if it is larger than its half of the window.
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

    /// The sequence numbers of all pushes that may be sent now.
    fn sent(book: &mut Book<Bytes>) -> Vec<u32> {
        core::iter::from_fn(|| book.poll_word())
            .map(|message| match message {
                PushMessage::Push { sequence, .. } => sequence,
                message => panic!("{message:?}"),
            })
            .collect()
    }

    #[test]
    fn window_bounds_pushes_and_keeps_half_for_open_requests() {
        let mut book = book();
        (1..=6).for_each(|byte| book.push(7, piece(byte), byte == 6).unwrap());
        assert_eq!(sent(&mut book), [1, 2], "no node has asked for it yet");
        book.hear(&PushMessage::Wanted { request: 7, after: 2, again: false });
        assert_eq!(sent(&mut book), [3, 4]);
        book.hear(&PushMessage::Taken { request: 7, upto: 3 });
        assert_eq!(sent(&mut book), [5, 6]);
        book.hear(&PushMessage::Ended { request: 7 });
        assert!(book.is_empty() && book.in_flight == 0 && book.kept_bytes == 0);
        assert_eq!(book.push(7, piece(7), true), Err(Over));
    }

    #[test]
    fn after_a_loss_only_requested_pushes_are_sent_again() {
        let mut book = book();
        (1..=3).for_each(|byte| book.push(7, piece(byte), byte == 3).unwrap());
        book.push(8, piece(9), true).unwrap();
        book.hear(&PushMessage::Wanted { request: 7, after: 0, again: false });
        assert_eq!(sent(&mut book), [1, 2, 3]);
        book.attached(Instant::START, 4 * 1_256);
        book.push(9, piece(1), true).unwrap();
        assert_eq!(sent(&mut book), [1, 1], "of requests of which no node has received anything");
        book.hear(&PushMessage::Wanted { request: 7, after: 2, again: true });
        assert_eq!(sent(&mut book), [3]);
    }

    #[test]
    fn a_failure_is_repeated_until_its_request_has_ended() {
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
    fn unrequested_pushes_expire_and_an_unfinished_request_ends() {
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
    fn folded_pushes_make_room_and_cannot_be_sent_again() {
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
    fn requests_of_a_lost_node_without_pushes_are_forgotten() {
        let mut book = book();
        book.hear(&PushMessage::Wanted { request: 7, after: 0, again: false });
        assert!(!book.is_empty(), "the node waits for it");
        book.attached(Instant::START, 4 * 1_256);
        assert!(book.is_empty());
    }

    #[test]
    fn open_requests_do_not_wait_for_other_requests() {
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
    fn a_restarted_worker_continues_where_the_node_says() {
        let mut book = book();
        book.hear(&PushMessage::Wanted { request: 7, after: 2, again: true });
        (1..=3).for_each(|byte| book.push(7, piece(byte), byte == 3).unwrap());
        assert_eq!(sent(&mut book), [3]);
    }
}
