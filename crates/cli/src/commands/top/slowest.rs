//! A tree's slowest subtrees, from the times that its nodes reported.
//!
//! A parent is never faster than its slowest child. So a list by time starts with the root, followed by its
//! slowest child, and so on down to the node that causes the delay. The list shows this path: it is ordered
//! by time, and of two equal times the deeper subtree comes first, because it made the other one wait. Each
//! entry names the activity that took most of its root's time; the cause is the first node on the path that
//! did not mostly wait.

use serde::Serialize;
use std::time::Duration;
use treefold::Report;

/// Number of subtrees in the list.
const SLOWEST_MAX: usize = 8;

/// A node and all nodes below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Subtree {
    /// Root of the subtree.
    pub(crate) node: String,
    pub(crate) rack: String,
    /// Number of levels above it.
    pub(crate) level: usize,
    /// Number of its nodes, including its root.
    pub(crate) nodes: usize,
    /// Time from the call's arrival at its root until the root answered.
    pub(crate) total_us: u64,
    /// Activity that took most of its root's time: `queue`, `local`, `reduce`, or `wait` for its children.
    pub(crate) mostly: &'static str,
}

/// Returns the slowest subtrees, slowest first.
pub(crate) fn slowest(report: &Report) -> Vec<Subtree> {
    let mut all: Vec<(usize, &Report)> = Vec::new();
    let mut open = vec![(0, report)];
    while let Some((level, report)) = open.pop() {
        all.push((level, report));
        open.extend(report.children.iter().map(|child| (level + 1, child)));
    }
    let order = |&(level, report): &(usize, &Report)| {
        (std::cmp::Reverse(report.total.as_nanos()), std::cmp::Reverse(level), report.node)
    };
    all.sort_by_key(order);
    all.truncate(SLOWEST_MAX);
    all.into_iter().map(|(level, report)| subtree(level, report)).collect()
}

fn subtree(level: usize, report: &Report) -> Subtree {
    let parts =
        [(report.queue, "queue"), (report.local, "local"), (report.reduce, "reduce"), (report.wait, "wait")];
    let mostly = parts.into_iter().max_by_key(|&(time, _): &(Duration, _)| time.as_nanos());
    Subtree {
        node: report.node.to_string(),
        rack: report.rack.clone(),
        level,
        nodes: crate::output::explain::nodes(report),
        total_us: report.total.as_micros() as u64,
        mostly: mostly.map_or("", |(_, name)| name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::{NodeId, PartitionSet};

    fn report(port: u16, local_ms: u64, wait_ms: u64, children: Vec<Report>) -> Report {
        Report {
            node: NodeId::new(([127, 0, 0, 1], port).into(), 1),
            rack: String::new(),
            partitions: PartitionSet::new(),
            queue: Duration::ZERO,
            local: Duration::from_millis(local_ms),
            reduce: Duration::ZERO,
            wait: Duration::from_millis(wait_ms),
            total: Duration::from_millis(local_ms.max(wait_ms)),
            replaced: Vec::new(),
            children,
        }
    }

    #[test]
    fn list_descends_to_the_slowest_node() {
        let culprit = report(3, 40, 0, vec![]);
        let inner = report(2, 5, 40, vec![culprit, report(5, 4, 0, vec![])]);
        let root = report(1, 5, 41, vec![inner, report(4, 6, 0, vec![])]);
        let told: Vec<(String, usize, usize, &str)> =
            slowest(&root).into_iter().map(|s| (s.node, s.level, s.nodes, s.mostly)).collect();
        let addr = |port: u16| format!("127.0.0.1:{port}");
        assert_eq!(
            told,
            [
                (addr(1), 0, 5, "wait"),
                (addr(3), 2, 1, "local"),
                (addr(2), 1, 3, "wait"),
                (addr(4), 1, 1, "local"),
                (addr(5), 2, 1, "local"),
            ]
        );
    }

    #[test]
    fn a_large_tree_gives_a_short_list() {
        let children = (2..40).map(|port| report(port, u64::from(port), 0, vec![])).collect();
        assert_eq!(slowest(&report(1, 1, 50, children)).len(), SLOWEST_MAX);
    }
}
