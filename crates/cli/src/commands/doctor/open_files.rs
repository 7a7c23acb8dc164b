//! Open files: each connection of a node is one.

use super::finding::Finding;
use crate::commands::node::files::FILES_WANTED;
use rustix::process::{Resource, getrlimit};
use treefold::Limits;

const CHECK: &str = "files";

/// Open files besides connections: indexes, journals, sockets that listen.
const FILES_ASIDE: u64 = 256;
/// Below this limit a node of a small cluster fails too.
const FILES_LEAST: u64 = 1_024;

/// Compares the limit that a node on this host has with the connections that its settings allow.
pub(super) fn check(limits: &Limits, listener_connections: usize) -> Vec<Finding> {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let needed =
        (limits.peers_max as u64).saturating_add(listener_connections as u64).saturating_add(FILES_ASIDE);
    vec![judged(limit.current.unwrap_or(u64::MAX), hard, needed)]
}

fn judged(soft: u64, hard: u64, needed: u64) -> Finding {
    // A node raises its own soft limit.
    let has = soft.max(FILES_WANTED.min(hard));
    let found = format!("a node can open {has} files, and its limits of connections add up to {needed}");
    let advice = "raise the hard limit (LimitNOFILE=65536 in a systemd unit, `ulimit -Hn 65536`, --ulimit nofile=65536 \
                  of a container), or lower limits.peers_max";
    match has {
        has if has < FILES_LEAST => Finding::fail(CHECK, found, advice),
        has if has < needed => Finding::warn(CHECK, found, advice),
        _ => Finding::ok(CHECK, found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_node_can_use_the_hard_limit() {
        assert_eq!(judged(1_024, 1 << 20, 4_352).level, Level::Ok);
        assert_eq!(judged(1_024, 4_096, 4_352).level, Level::Warn);
        assert_eq!(judged(256, 256, 4_352).level, Level::Fail);
        assert!(judged(256, 256, 4_352).found.contains("can open 256 files"));
    }

    #[test]
    fn a_node_does_not_ask_for_more_than_its_own_limit() {
        assert_eq!(judged(1_024, u64::MAX, FILES_WANTED + 1).level, Level::Warn);
    }
}
