//! Discard: drops events by type or content (mirroring §1, "filtering events based on their data types and/or
//! their data contents").

use super::Condition;
use crate::event::Event;
use serde::{Deserialize, Serialize};

/// Drops the events that match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Discard(pub Condition);

impl Discard {
    /// True if the event is dropped.
    pub fn drops(&self, event: &Event) -> bool {
        self.0.matches(event)
    }
}
