//! The events of a key stay in their order, and none comes twice, also when an origin has died and its sources repeat
//! events. The parts of tuples whose time runs out are the exception.

use super::Finding;
use super::mirror_acknowledged::suppressible;
use crate::world::feeds::{Feed, News};
use std::collections::BTreeMap;

/// The last number of each key.
#[derive(Debug, Default)]
pub struct Order {
    looked: u64,
    last: BTreeMap<String, u64>,
}

impl Order {
    pub(super) fn take(&mut self, feed: &Feed, news: &News) -> Finding {
        if let News::FeedBegun { .. } = news {
            *self = Self::default();
        }
        let News::Decided { .. } = news else { return Ok(()) };
        let left_out = suppressible(feed);
        while let Some(decided) = feed.history().at(self.looked + 1) {
            self.looked += 1;
            let event = &decided.event;
            if left_out.contains(&event.kind) {
                continue;
            }
            let key = format!("{} of {}", event.key, event.stream);
            let before = self.last.insert(key, event.number).unwrap_or(0);
            if before >= event.number {
                return Err(format!(
                    "position {} has event {} of key {}, which comes after event {before}",
                    self.looked, event.number, event.key
                ));
            }
        }
        Ok(())
    }
}
