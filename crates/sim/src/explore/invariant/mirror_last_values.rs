//! If no rule suppresses events, each key of each current mirror has the last value of every field at the end, as if its
//! source's events had been applied directly.

use super::Finding;
use super::mirror_acknowledged::suppressible;
use crate::world::feeds::Feed;
use std::collections::BTreeMap;
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::state::{Moment, State};

type Values = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

fn values(state: &KeyedState) -> Values {
    let fields = |row: &treefold_mirror::keyed::KeyValue| {
        row.fields.iter().map(|(name, raw)| (name.to_owned(), raw.to_vec())).collect()
    };
    state.iter().map(|row| (row.key.to_string(), fields(&row))).collect()
}

/// Checks the state of a feed of which all events are acknowledged. The rows of mirrors equal those of the reference.
/// With fewer mirrors than the copies that it needs, a feed acknowledges nothing and refuses further events.
pub fn at_rest(feed: &Feed) -> Finding {
    let has_all = feed.sources().all(|(_, all, known)| known >= all);
    if !has_all || !suppressible(feed).is_empty() || feed.history().first_epoch > 1 {
        return Ok(());
    }
    let mut direct = KeyedState::new(feed.plan().state.clone(), &feed.plan().limits, 1);
    let at = Moment { position: 0, sent_ms: 0 };
    for source in &feed.plan().sources {
        // Each key is of one source.
        source.events.iter().for_each(|event| direct.apply(at, event.borrowed(), &mut Vec::new()));
    }
    let (expected, found) = (values(&direct), values(feed.history().state()));
    if expected == found {
        return Ok(());
    }
    let keys = expected.keys().chain(found.keys());
    let differ: Vec<_> = keys.filter(|key| expected.get(*key) != found.get(*key)).collect();
    Err(format!("the last values differ from those of the sources in {differ:?}"))
}
