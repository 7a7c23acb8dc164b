//! A reader gets the rows of its keys at one place, and then every event for it, once and in order, also when it moves to
//! another mirror. Its state is that of all events at the same place.

use super::Finding;
use super::mirror_state::compare;
use crate::world::feeds::{Feed, News, Rows};
use std::collections::BTreeMap;
use std::sync::Arc;
use treefold_mirror::{Cut, Event};

/// The places of readers.
#[derive(Debug, Default)]
pub struct Readers {
    /// The place up to which each reader has everything, as its user knows it. Absent while it has no state.
    places: BTreeMap<usize, Cut>,
}

impl Readers {
    pub(super) fn take(&mut self, feed: &Feed, news: &News) -> Finding {
        match news {
            News::FeedBegun { .. } => self.places.clear(),
            News::ReaderBegins { reader, cut } => _ = self.places.insert(*reader, *cut),
            News::ReaderForgot { reader } => _ = self.places.remove(reader),
            News::ReaderEvent { reader, at, event } if feed.history().is_of_feed(*at) => {
                self.event(feed, *reader, *at, event)?;
            }
            News::ReaderAt { reader, cut } if feed.history().is_of_feed(*cut) => {
                self.passes(feed, *reader, *cut)?;
            }
            News::View { reader, cut, rows } if feed.history().is_of_feed(*cut) => {
                self.passes(feed, *reader, *cut)?;
                return view(feed, *reader, *cut, rows);
            }
            _ => {}
        }
        Ok(())
    }

    fn event(&mut self, feed: &Feed, reader: usize, at: Cut, event: &Event) -> Finding {
        let Some(decided) = feed.history().at(at.position) else {
            return Err(format!("reader {reader} got an event at {at}, which is not durable"));
        };
        if decided.event != *event {
            return Err(format!("reader {reader} got {event:?} at {at}, expected {:?}", decided.event));
        }
        let before = self.places.get(&reader).copied().unwrap_or_default();
        if before.position >= at.position {
            return Err(format!("reader {reader} got the event at {at}, but has had all up to {before}"));
        }
        self.passes(feed, reader, Cut { position: at.position - 1, ..at })?;
        self.places.insert(reader, at);
        Ok(())
    }

    /// Checks that there is no event for a reader between its place and a later one.
    fn passes(&mut self, feed: &Feed, reader: usize, to: Cut) -> Finding {
        let Some(place) = self.places.get_mut(&reader) else { return Ok(()) };
        let plan = &feed.plan().readers[reader];
        for position in place.position + 1..=to.position {
            let Some(decided) = feed.history().at(position) else {
                return Err(format!("reader {reader} was told to be at {to}, which is not durable"));
            };
            if plan.filter.takes(&decided.event, &feed.plan().state.deletes) {
                return Err(format!(
                    "reader {reader} went from {place} to {to} without the event at {position}"
                ));
            }
        }
        if to.position > place.position || to.epoch > place.epoch {
            *place = to.max(*place);
        }
        Ok(())
    }
}

fn view(feed: &Feed, reader: usize, cut: Cut, rows: &Rows) -> Finding {
    let plan = &feed.plan().readers[reader];
    let Some(all) = feed.history().rows(cut.position) else {
        return Err(format!("reader {reader} is at {cut}, which is not durable"));
    };
    if plan.has_types {
        return Ok(());
    }
    let of_reader = all.iter().filter(|(key, _)| plan.filter.takes_key(key));
    let expected: Rows = Arc::new(of_reader.map(|(key, hash)| (key.clone(), *hash)).collect());
    compare(rows, &expected).map_err(|what| format!("reader {reader} at {cut}: {what}"))
}
