//! No two origins commit or acknowledge events of different histories. An origin whose successor has begun commits
//! nothing beyond its successor's beginning.

use super::Finding;
use crate::world::feeds::{Feed, News};

/// Checks a commit.
pub fn of_news(feed: &Feed, news: &News) -> Finding {
    let News::Committed { epoch, position } = news else { return Ok(()) };
    if *epoch < feed.history().first_epoch {
        return Ok(());
    }
    let last = feed.history().last();
    if *position > last {
        return Err(format!("epoch {epoch} committed {position}, but only {last} events are durable"));
    }
    match feed.end_of(*epoch) {
        Some(end) if *position > end => {
            Err(format!("epoch {epoch} committed {position}, although its successor began behind {end}"))
        }
        _ => Ok(()),
    }
}
