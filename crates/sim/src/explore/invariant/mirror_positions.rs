//! A mirror's position only grows, within an epoch and over epochs that continue. It begins anew only if the new epoch
//! does not continue its own, or after so many epochs that its own is forgotten.

use super::Finding;
use crate::world::feeds::{Feed, News};
use treefold_mirror::Cut;
use treefold_mirror::vector::EPOCHS_MAX;

/// Checks the way of a mirror.
pub fn of_news(feed: &Feed, news: &News) -> Finding {
    match news {
        News::Applied { mirror, from, to, .. } if to.position <= from.position || to.epoch != from.epoch => {
            Err(format!("mirror {} went from {from} to {to} by applying events", mirror.1))
        }
        News::Restored { mirror, before, after, .. } if after < before => {
            Err(format!("mirror {} went back from {before} to {after} with a snapshot", mirror.1))
        }
        News::Began { mirror, before, after, is_anew } => began(feed, mirror.1, (*before, *after), *is_anew),
        _ => Ok(()),
    }
}

fn began(feed: &Feed, mirror: u32, (before, after): (Cut, Cut), is_anew: bool) -> Finding {
    if after.epoch < before.epoch {
        return Err(format!("mirror {mirror} followed an older epoch: {before}, then {after}"));
    }
    if !is_anew && after.position != before.position {
        return Err(format!("mirror {mirror} continued {before} at {after}"));
    }
    let is_kept = feed.history().is_of_feed(before)
        && ((after.epoch - before.epoch) as usize) < EPOCHS_MAX
        && feed.end_of(before.epoch).is_none_or(|end| before.position <= end);
    if is_anew && is_kept {
        return Err(format!("mirror {mirror} began anew at {after}, although the feed continues {before}"));
    }
    Ok(())
}
