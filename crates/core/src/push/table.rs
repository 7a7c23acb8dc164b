//! Workers attached here, and the requests: announced, early, or recently ended.

use super::chain::Chain;
use super::{ENDED_MAX, REQUESTS_MAX};
use crate::id::{NodeId, PartitionId, Tag, WaveId};
use crate::time::Instant;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;

/// An application, and its own number of a request.
pub(crate) type RequestKey = (Arc<str>, u64);

/// An application, and the number of one of its workers.
pub(crate) type WorkerKey = (Arc<str>, PartitionId);

/// This node's part in a request.
#[derive(Debug)]
pub(crate) struct RequestState<P> {
    /// The wave with which it was announced; `None` before that.
    pub(crate) wave: Option<WaveId>,
    /// The workers awaited here, and in which of this node's parts in the wave.
    pub(crate) awaited: BTreeMap<PartitionId, Tag>,
    /// Pushes that came before they were asked for.
    pub(crate) early: BTreeMap<PartitionId, Chain<P>>,
    /// When no node can need anything of it any more.
    pub(crate) ends_at: Instant,
}

/// The state of telling others, by this node's card, which workers are attached here.
#[derive(Debug)]
pub(crate) struct CardNews {
    /// When the card was last announced.
    pub(crate) announced_at: Option<Instant>,
    /// True if workers have attached or left since then.
    pub(crate) is_due: bool,
    pub(crate) armed: Option<Instant>,
}

/// A node's state of pushed work outside of its waves.
#[derive(Debug)]
pub(crate) struct Pushes<P> {
    pub(crate) workers: BTreeMap<WorkerKey, NodeId>,
    pub(crate) by_peer: BTreeMap<NodeId, WorkerKey>,
    pub(crate) requests: BTreeMap<RequestKey, RequestState<P>>,
    /// Number of requests of each application.
    of_application: BTreeMap<Arc<str>, usize>,
    /// When requests end.
    pub(crate) due: BTreeSet<(Instant, RequestKey)>,
    pub(crate) armed: Option<Instant>,
    pub(crate) card: CardNews,
    /// Bytes of early pushes.
    pub(crate) early_bytes: usize,
    ended: BTreeSet<RequestKey>,
    ended_row: VecDeque<RequestKey>,
}

impl<P> Pushes<P> {
    pub(crate) const fn new() -> Self {
        Self {
            workers: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            requests: BTreeMap::new(),
            of_application: BTreeMap::new(),
            due: BTreeSet::new(),
            armed: None,
            card: CardNews { announced_at: None, is_due: false, armed: None },
            early_bytes: 0,
            ended: BTreeSet::new(),
            ended_row: VecDeque::new(),
        }
    }

    /// The request of this key. A new one ends at `ends_at`.
    pub(crate) fn request(&mut self, key: &RequestKey, ends_at: Instant) -> &mut RequestState<P> {
        let Self { requests, of_application, due, .. } = self;
        requests.entry(key.clone()).or_insert_with(|| {
            *of_application.entry(key.0.clone()).or_default() += 1;
            due.insert((ends_at, key.clone()));
            RequestState { wave: None, awaited: BTreeMap::new(), early: BTreeMap::new(), ends_at }
        })
    }

    /// False if the application has so many requests that this one has no place.
    pub(crate) fn has_place_for(&self, key: &RequestKey) -> bool {
        self.of_application.get(&key.0).is_none_or(|&open| open < REQUESTS_MAX)
            || self.requests.contains_key(key)
    }

    /// Moves the end of a request.
    pub(crate) fn prolong(&mut self, key: &RequestKey, ends_at: Instant) {
        let Some(request) = self.requests.get_mut(key) else { return };
        self.due.remove(&(request.ends_at, key.clone()));
        request.ends_at = ends_at;
        self.due.insert((ends_at, key.clone()));
    }

    /// Ends a request. Its number can't be used again.
    pub(crate) fn end(&mut self, key: &RequestKey) -> Option<RequestState<P>> {
        let request = self.requests.remove(key)?;
        if let Some(open) = self.of_application.get_mut(&key.0) {
            *open -= 1;
        }
        self.due.remove(&(request.ends_at, key.clone()));
        if self.ended.insert(key.clone()) {
            self.ended_row.push_back(key.clone());
        }
        if self.ended_row.len() > ENDED_MAX
            && let Some(oldest) = self.ended_row.pop_front()
        {
            self.ended.remove(&oldest);
        }
        Some(request)
    }

    /// True if it ended not long ago.
    pub(crate) fn has_ended(&self, key: &RequestKey) -> bool {
        self.ended.contains(key)
    }

    /// Makes an ended request open again, because it was announced after all.
    pub(crate) fn revive(&mut self, key: &RequestKey) {
        if self.ended.remove(key) {
            self.ended_row.retain(|other| other != key);
        }
    }

    /// The requests of an application in which a worker is awaited here, and in which part.
    pub(crate) fn awaiting(&self, worker: &WorkerKey) -> alloc::vec::Vec<(u64, Tag)> {
        let (application, number) = worker;
        let all = (application.clone(), 0)..=(application.clone(), u64::MAX);
        let of = |((_, request), state): (&RequestKey, &RequestState<P>)| {
            Some((*request, *state.awaited.get(number)?))
        };
        self.requests.range(all).filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    #[test]
    fn ended_requests_are_remembered_for_some_time() {
        let mut pushes: Pushes<()> = Pushes::new();
        let key = |request: u64| ("words".into(), request);
        for request in 0..=ENDED_MAX as u64 {
            pushes.request(&key(request), Instant::START);
            pushes.end(&key(request));
        }
        assert!(!pushes.has_ended(&key(0)) && pushes.has_ended(&key(1)));
        pushes.revive(&key(1));
        assert!(!pushes.has_ended(&key(1)));
    }

    #[test]
    fn the_request_limit_applies_per_application() {
        let mut pushes: Pushes<()> = Pushes::new();
        let key = |application: &str, request: u64| (application.into(), request);
        for request in 0..REQUESTS_MAX as u64 {
            pushes.request(&key("words", request), Instant::START);
        }
        assert!(!pushes.has_place_for(&key("words", u64::MAX)));
        assert!(pushes.has_place_for(&key("words", 7)), "it is there already");
        assert!(pushes.has_place_for(&key("hits", 7)));
        pushes.end(&key("words", 7));
        assert!(pushes.has_place_for(&key("words", u64::MAX)));
    }

    #[test]
    fn a_request_is_due_once() {
        let mut pushes: Pushes<()> = Pushes::new();
        let key: RequestKey = ("words".into(), 7);
        let later = Instant::START + Duration::from_secs(1);
        pushes.request(&key, Instant::START);
        pushes.prolong(&key, later);
        assert_eq!(pushes.due.first(), Some(&(later, key.clone())));
        pushes.end(&key);
        assert!(pushes.due.is_empty());
    }
}
