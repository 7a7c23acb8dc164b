//! The operators that a node was sent, by name. The least recently used are evicted when there are too many.
//!
//! An operator stays while a stream's filter uses it, so that other nodes that join the stream can fetch it
//! from here.

use crate::foreign::Sent;
use lru::LruCache;
use std::sync::Arc;
use treefold_core::limits::Limits;
use treefold_core::message::OperatorStatus;
use treefold_core::stream::OperatorId;

/// Operators by name.
#[derive(Debug)]
pub(crate) struct Shelf {
    held: LruCache<OperatorId, Held>,
    bytes: usize,
}

#[derive(Debug)]
struct Held {
    sent: Arc<Sent>,
    uses: u64,
}

impl Held {
    /// Number of filters that use it now.
    fn users(&self) -> usize {
        Arc::strong_count(&self.sent) - 1
    }

    fn status(&self) -> OperatorStatus {
        OperatorStatus {
            id: self.sent.id,
            kind: self.sent.loaded.kind.into(),
            bytes: self.sent.bytes.len() as u64,
            uses: self.uses,
            streams: u32::try_from(self.users()).unwrap_or(u32::MAX),
        }
    }
}

impl Default for Shelf {
    fn default() -> Self {
        // `put` enforces the limits.
        Self { held: LruCache::unbounded(), bytes: 0 }
    }
}

impl Shelf {
    /// Finds an operator, to send it to another node.
    pub(crate) fn find(&mut self, id: OperatorId) -> Option<Arc<Sent>> {
        self.held.get(&id).map(|held| Arc::clone(&held.sent))
    }

    /// Finds an operator, to make a filter of it.
    pub(crate) fn find_for_use(&mut self, id: OperatorId) -> Option<Arc<Sent>> {
        let held = self.held.get_mut(&id)?;
        held.uses += 1;
        Some(Arc::clone(&held.sent))
    }

    /// Keeps an operator. If it is already kept, nothing changes.
    ///
    /// # Errors
    /// If there is no room, and all operators are in use.
    pub(crate) fn put(&mut self, sent: Arc<Sent>, limits: &Limits) -> Result<OperatorStatus, Arc<str>> {
        let (id, bytes) = (sent.id, sent.held_bytes());
        if let Some(held) = self.held.get(&id) {
            return Ok(held.status());
        }
        while self.held.len() >= limits.operators_max || self.bytes + bytes > limits.operators_bytes_max {
            let mut oldest_first = self.held.iter().rev();
            let Some((&unused, _)) = oldest_first.find(|(_, held)| held.users() == 0) else {
                let (count, limit) = (limits.operators_max, limits.operators_bytes_max);
                return Err(format!(
                    "no room for the operator {id} of {bytes} bytes: open streams use all operators; allowed are \
                     {count} operators (operators_max) and {limit} bytes (operators_bytes_max)"
                )
                .into());
            };
            self.take(unused);
        }
        let held = Held { sent, uses: 0 };
        let status = OperatorStatus { streams: 0, ..held.status() };
        self.bytes += bytes;
        self.held.put(id, held);
        Ok(status)
    }

    fn take(&mut self, id: OperatorId) {
        if let Some(held) = self.held.pop(&id) {
            self.bytes -= held.sent.held_bytes();
        }
    }

    /// Lists all operators, ordered by id.
    pub(crate) fn list(&self) -> Vec<OperatorStatus> {
        let mut all: Vec<OperatorStatus> = self.held.iter().map(|(_, held)| held.status()).collect();
        all.sort_unstable_by_key(|status| status.id);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::{Loaded, id_of};
    use bytes::Bytes;

    fn sent(text: &'static str) -> Arc<Sent> {
        let filter = treefold_operators::filter::builtin("sum").unwrap();
        let loaded = Loaded { kind: "filter", made_bytes: 0, filter, reduce: None };
        Arc::new(Sent { id: id_of(text.as_bytes()), bytes: Bytes::from_static(text.as_bytes()), loaded })
    }

    fn ids(shelf: &Shelf) -> Vec<OperatorId> {
        shelf.list().iter().map(|status| status.id).collect()
    }

    #[test]
    fn the_least_recently_used_free_operator_is_evicted() {
        let limits = Limits { operators_max: 2, ..Limits::DEFAULT };
        let mut shelf = Shelf::default();
        for text in ["a", "b"] {
            shelf.put(sent(text), &limits).unwrap();
        }
        let used = shelf.find_for_use(id_of(b"a")).unwrap();
        drop(shelf.find(id_of(b"b")));
        shelf.put(sent("c"), &limits).unwrap();
        assert!(shelf.find(id_of(b"b")).is_none(), "a is older, but in use");
        let a = shelf.list().into_iter().find(|status| status.id == id_of(b"a")).unwrap();
        assert_eq!((a.uses, a.streams, a.bytes, &*a.kind), (1, 1, 1, "filter"));
        drop(used);
        drop(shelf.find(id_of(b"c")));
        shelf.put(sent("d"), &limits).unwrap();
        assert!(shelf.find(id_of(b"a")).is_none());
        assert_eq!(ids(&shelf).len(), 2);
    }

    #[test]
    fn compiled_bytes_count_against_the_limit() {
        let limits = Limits { operators_bytes_max: 9, ..Limits::DEFAULT };
        let mut shelf = Shelf::default();
        let mut compiled = |text, made_bytes| {
            let mut sent = Arc::into_inner(sent(text)).unwrap();
            sent.loaded.made_bytes = made_bytes;
            shelf.put(Arc::new(sent), &limits)
        };
        compiled("a", 8).unwrap();
        assert!(compiled("b", 9).is_err());
        compiled("c", 4).unwrap();
        assert_eq!(ids(&shelf), [id_of(b"c")]);
    }

    #[test]
    fn an_operator_without_room_is_refused_with_the_limits() {
        let limits = Limits { operators_bytes_max: 3, ..Limits::DEFAULT };
        let mut shelf = Shelf::default();
        shelf.put(sent("ab"), &limits).unwrap();
        let used = shelf.find_for_use(id_of(b"ab")).unwrap();
        let refused = shelf.put(sent("cd"), &limits).unwrap_err();
        assert!(refused.contains("operators_bytes_max"), "{refused}");
        assert_eq!(shelf.put(sent("ab"), &limits).unwrap().uses, 1, "a kept operator needs no further room");
        drop(used);
        shelf.put(sent("cd"), &limits).unwrap();
        assert_eq!(ids(&shelf), [id_of(b"cd")]);
        assert!(shelf.put(sent("abcd"), &limits).is_err());
    }
}
