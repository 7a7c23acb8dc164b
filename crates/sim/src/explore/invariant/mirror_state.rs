//! A snapshot and the events after it make the state of a mirror that saw all events. So do the events alone.
//!
//! After each packet and each snapshot, a mirror's state is compared with the reference at the same position. An event
//! that was left out, or applied twice, shows as well.

use super::Finding;
use crate::world::feeds::{Feed, MirrorKey, News, Rows};
use crate::world::place::place_of;
use treefold_mirror::Cut;

/// Checks the state of a mirror.
pub fn of_news(feed: &Feed, news: &News) -> Finding {
    match news {
        News::Applied { mirror, to, rows, .. } => of_mirror(feed, mirror, *to, rows),
        News::Restored { mirror, after, rows, .. } => of_mirror(feed, mirror, *after, rows),
        _ => Ok(()),
    }
}

fn of_mirror(feed: &Feed, mirror: &MirrorKey, cut: Cut, rows: &Rows) -> Finding {
    let history = feed.history();
    if !history.is_of_feed(cut) {
        return Ok(());
    }
    let name = || format!("mirror {} at place {}", mirror.1, place_of(mirror.0).0);
    let Some(expected) = history.rows(cut.position) else {
        return Err(format!("{} is at {cut}, but only {} events are durable", name(), history.last()));
    };
    compare(rows, &expected).map_err(|what| format!("{} at {cut}: {what}", name()))
}

/// Compares the rows of a state with those of the reference.
pub fn compare(rows: &Rows, expected: &Rows) -> Finding {
    if rows == expected {
        return Ok(());
    }
    let differ = |key: &&bytestring::ByteString| rows.get(*key) != expected.get(*key);
    let keys: Vec<_> = expected.keys().chain(rows.keys()).filter(differ).collect();
    Err(format!("the state differs from that of all events in {keys:?}"))
}
