//! Facts about this process that a node's status reports, and core cannot know.

use std::time::{SystemTime, UNIX_EPOCH};
use treefold_core::status::{NodeStatus, ProcessFacts};

/// Adds the facts to a status that core has made.
pub(super) fn with_facts(status: NodeStatus) -> NodeStatus {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    NodeStatus { process: ProcessFacts { build: env!("CARGO_PKG_VERSION").to_owned(), unix_ms }, ..status }
}
