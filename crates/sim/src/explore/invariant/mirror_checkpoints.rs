//! Checkpoints only grow: the committed position of an origin, and that which a mirror has learned. An origin commits
//! only events that some mirror has had.

use super::Finding;
use crate::world::feeds::{Feed, MirrorKey, News};
use std::collections::BTreeMap;

/// The committed positions.
#[derive(Debug, Default)]
pub struct Checkpoints {
    of_origins: BTreeMap<u32, u64>,
    of_mirrors: BTreeMap<MirrorKey, u64>,
    /// The greatest position that any mirror has had.
    held: u64,
}

impl Checkpoints {
    pub(super) fn take(&mut self, feed: &Feed, news: &News) -> Finding {
        match news {
            News::FeedBegun { .. } => *self = Self::default(),
            News::Began { mirror, is_anew: true, .. } => _ = self.of_mirrors.remove(mirror),
            News::Applied { to: cut, .. } | News::Restored { after: cut, .. }
                if feed.history().is_of_feed(*cut) =>
            {
                self.held = self.held.max(cut.position);
            }
            News::Committed { epoch, position } => {
                let before = self.of_origins.insert(*epoch, *position).unwrap_or(0);
                if before > *position {
                    return Err(format!("the origin of epoch {epoch} committed {before}, then {position}"));
                }
                if *position > self.held && feed.history().first_epoch <= *epoch {
                    let held = self.held;
                    return Err(format!(
                        "epoch {epoch} committed {position}, but no mirror has had more than {held}"
                    ));
                }
            }
            News::MirrorCommitted { mirror, position, .. } => {
                let before = self.of_mirrors.insert(*mirror, *position).unwrap_or(0);
                if before > *position {
                    return Err(format!("mirror {} knew commit {before}, then {position}", mirror.1));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
