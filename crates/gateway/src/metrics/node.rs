//! Counters and table sizes of the node.

use super::page::Page;
use treefold::NodeStatus;
use treefold_core::status::OpenWork;

/// Shows the node's counters, the sizes of its tables, and its view of the cluster.
pub(super) fn show(page: &mut Page, status: &NodeStatus) {
    page.family("treefold_build_info", "gauge", "1, with the version of Treefold that this process runs.");
    page.line(format_args!("treefold_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")));
    for (name, count) in status.counters.iter() {
        let help = format!("The node's counter {name} since its start.");
        page.single(&format!("treefold_{name}_total"), "counter", &help, count);
    }
    for (name, count) in sizes(status.open) {
        let help = format!("The present size of the node's {name}, as in its status.");
        page.single(&format!("treefold_open_{name}"), "gauge", &help, count);
    }
    let members = status.members.len() + 1;
    page.single("treefold_members", "gauge", "Members in sight, the node included.", members);
    let help = "1 if members reach the node over connections, and none by UDP; otherwise 0.";
    page.single("treefold_unreached_by_udp", "gauge", help, u8::from(status.unreached_by_udp));
    let slow: std::collections::BTreeSet<_> = status.slow.iter().map(|slow| slow.node).collect();
    let help = "Nodes that this node passes over because they take longer than others, at most 64.";
    page.single("treefold_nodes_slow", "gauge", help, slow.len());
    let load = treefold_forms::json::load_ms_per_processor(status.load) / 1e3;
    let help = "Predicted seconds of queued work, per processor.";
    page.single("treefold_load_seconds", "gauge", help, load);
}

fn sizes(open: OpenWork) -> [(&'static str, usize); 11] {
    // Every field is named, so that code that leaves out a table does not compile.
    let OpenWork {
        calls,
        waves,
        waves_kept,
        kept_bytes,
        held_bytes,
        jobs_queued,
        jobs_running,
        jobs_stuck,
        streams,
        stream_bytes,
        workers,
    } = open;
    [
        ("calls", calls),
        ("waves", waves),
        ("waves_kept", waves_kept),
        ("kept_bytes", kept_bytes),
        ("held_bytes", held_bytes),
        ("jobs_queued", jobs_queued),
        ("jobs_running", jobs_running),
        ("jobs_stuck", jobs_stuck),
        ("streams", streams),
        ("stream_bytes", stream_bytes),
        ("workers", workers),
    ]
}
