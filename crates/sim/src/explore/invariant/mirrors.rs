//! Brings the news of a feed to the invariants of mirrors.
//!
//! The world keeps the news in their order ([`Feed::news`]). Each is looked at once, after the step in which it came.

use super::mirror_acknowledged::Acknowledged;
use super::mirror_checkpoints::Checkpoints;
use super::mirror_order::Order;
use super::mirror_readers::Readers;
use super::{mirror_one_origin, mirror_positions, mirror_state};
use crate::world::feeds::{Feed, News};

/// The invariants of a feed, with the records that they need.
#[derive(Debug, Default)]
pub struct Mirrors {
    looked: usize,
    checkpoints: Checkpoints,
    acknowledged: Acknowledged,
    order: Order,
    readers: Readers,
    /// Events that mirrors have applied, and messages of events that readers have got.
    pub applied: u64,
}

impl Mirrors {
    /// Looks at the news since the last time. An error holds the name of the broken invariant, and a description.
    pub(super) fn look(&mut self, feed: &Feed) -> Result<(), (&'static str, String)> {
        while let Some(news) = feed.news().get(self.looked) {
            self.looked += 1;
            self.take(feed, news)?;
        }
        Ok(())
    }

    fn take(&mut self, feed: &Feed, news: &News) -> Result<(), (&'static str, String)> {
        let named = |name: &'static str| move |what: String| (name, what);
        if let News::Applied { from, to, .. } = news {
            self.applied += to.position - from.position;
        }
        mirror_state::of_news(feed, news).map_err(named("mirror_state"))?;
        mirror_positions::of_news(feed, news).map_err(named("mirror_positions"))?;
        mirror_one_origin::of_news(feed, news).map_err(named("mirror_one_origin"))?;
        self.checkpoints.take(feed, news).map_err(named("mirror_checkpoints"))?;
        self.acknowledged.take(feed, news).map_err(named("mirror_acknowledged"))?;
        self.order.take(feed, news).map_err(named("mirror_order"))?;
        self.readers.take(feed, news).map_err(named("mirror_readers"))
    }
}
