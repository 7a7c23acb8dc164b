//! The operators that a node was sent: found by name, the least recently used let go when there are too many.
//!
//! One that a stream's filter is made of stays, however old, so that whoever joins the stream can have it from here.

use crate::foreign::Sent;
use std::collections::BTreeMap;
use std::sync::Arc;
use treefold_core::limits::Limits;
use treefold_core::message::OperatorStatus;
use treefold_core::stream::OperatorId;

/// Operators by name.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    held: BTreeMap<OperatorId, Held>,
    bytes: usize,
    /// Counts what is done here; the greater is the more recent.
    clock: u64,
}

#[derive(Debug)]
struct Held {
    sent: Arc<Sent>,
    touched: u64,
    uses: u64,
}

impl Held {
    /// Filters that are made of it now.
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

impl Shelf {
    /// The operator of this name, to send it on.
    pub(crate) fn find(&mut self, id: OperatorId) -> Option<Arc<Sent>> {
        self.clock += 1;
        let held = self.held.get_mut(&id)?;
        held.touched = self.clock;
        Some(Arc::clone(&held.sent))
    }

    /// The same, to make a filter of it.
    pub(crate) fn find_for_use(&mut self, id: OperatorId) -> Option<Arc<Sent>> {
        let sent = self.find(id)?;
        self.held.entry(id).and_modify(|held| held.uses += 1);
        Some(sent)
    }

    /// Keeps an operator. One that is here already stays what it was.
    ///
    /// # Errors
    /// When there is no room, and all that is here is in use.
    pub(crate) fn put(&mut self, sent: Arc<Sent>, limits: &Limits) -> Result<OperatorStatus, Arc<str>> {
        let (id, bytes) = (sent.id, sent.held_bytes());
        self.clock += 1;
        let touched = self.clock;
        if let Some(held) = self.held.get_mut(&id) {
            held.touched = touched;
            return Ok(held.status());
        }
        while self.held.len() >= limits.operators_max || self.bytes + bytes > limits.operators_bytes_max {
            let unused = self.held.iter().filter(|(_, held)| held.users() == 0);
            let Some((&oldest, _)) = unused.min_by_key(|(_, held)| held.touched) else {
                let (count, limit) = (limits.operators_max, limits.operators_bytes_max);
                return Err(format!(
                    "no room for the operator {id} of {bytes} bytes: open streams use what is here, and allowed are \
                     {count} operators (operators_max) and {limit} bytes (operators_bytes_max)"
                )
                .into());
            };
            self.take(oldest);
        }
        let held = Held { sent, touched, uses: 0 };
        let status = OperatorStatus { streams: 0, ..held.status() };
        self.bytes += bytes;
        self.held.insert(id, held);
        Ok(status)
    }

    fn take(&mut self, id: OperatorId) {
        if let Some(held) = self.held.remove(&id) {
            self.bytes -= held.sent.held_bytes();
        }
    }

    /// Everything that is here, by name.
    pub(crate) fn list(&self) -> Vec<OperatorStatus> {
        self.held.values().map(Held::status).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::{Loaded, id_of};
    use bytes::Bytes;

    fn sent(text: &'static str) -> Arc<Sent> {
        let filter = treefold_operators::filter::builtin("sum").unwrap();
        let loaded = Loaded { kind: "filter", made_bytes: 0, filter };
        Arc::new(Sent { id: id_of(text.as_bytes()), bytes: Bytes::from_static(text.as_bytes()), loaded })
    }

    fn ids(shelf: &Shelf) -> Vec<OperatorId> {
        shelf.list().iter().map(|status| status.id).collect()
    }

    #[test]
    fn the_least_recently_used_goes_unless_a_stream_uses_it() {
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
    fn what_was_made_of_it_takes_room_too() {
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
    fn what_finds_no_room_is_refused_with_the_limits() {
        let limits = Limits { operators_bytes_max: 3, ..Limits::DEFAULT };
        let mut shelf = Shelf::default();
        shelf.put(sent("ab"), &limits).unwrap();
        let used = shelf.find_for_use(id_of(b"ab")).unwrap();
        let refused = shelf.put(sent("cd"), &limits).unwrap_err();
        assert!(refused.contains("operators_bytes_max"), "{refused}");
        assert_eq!(shelf.put(sent("ab"), &limits).unwrap().uses, 1, "what is here needs no room");
        drop(used);
        shelf.put(sent("cd"), &limits).unwrap();
        assert_eq!(ids(&shelf), [id_of(b"cd")]);
        assert!(shelf.put(sent("abcd"), &limits).is_err());
    }
}
