//! Topologies as printed in JSON and as text.
//!
//! In JSON, processes are a flat list in which each names its parent, not nested objects, because JSON
//! readers refuse objects that are nested as deep as a chain.

use crate::output::{Format, print, print_json, rounded};
use serde::Serialize;
use treefold_network::topology::Topology;
use treefold_network::topology::generate::Layout;
use treefold_network::topology::stats::{HostStats, Stats};
use treefold_network::topology::write::{Form, to_text};

/// The counts of a topology.
#[derive(Serialize)]
pub(super) struct ShownCounts {
    processes: usize,
    inner: usize,
    back_ends: usize,
    depth: usize,
    fan_out_min: usize,
    #[serde(serialize_with = "rounded")]
    fan_out_mean: f64,
    fan_out_max: usize,
    hosts: usize,
}

impl ShownCounts {
    pub(super) fn of(stats: &Stats) -> Self {
        Self {
            processes: stats.processes,
            inner: stats.inner,
            back_ends: stats.back_ends,
            depth: stats.depth,
            fan_out_min: stats.fan_out_min,
            fan_out_mean: stats.fan_out_mean,
            fan_out_max: stats.fan_out_max,
            hosts: stats.hosts.len(),
        }
    }
}

/// The processes on one host.
#[derive(Serialize)]
pub(super) struct ShownHost<'a> {
    host: &'a str,
    front_end: bool,
    inner: usize,
    back_ends: usize,
    processes: usize,
}

impl<'a> ShownHost<'a> {
    pub(super) fn of(host: &'a HostStats) -> Self {
        Self {
            host: &host.host,
            front_end: host.front_end,
            inner: host.inner,
            back_ends: host.back_ends,
            processes: host.processes(),
        }
    }
}

/// A process.
///
/// Parents come before their children.
#[derive(Serialize)]
struct ShownProcess<'a> {
    process: String,
    host: &'a str,
    index: u32,
    role: &'static str,
    /// Null for the front-end.
    parent: Option<String>,
    depth: usize,
}

/// Returns every process of a topology.
fn shown_processes(topology: &Topology) -> Vec<ShownProcess<'_>> {
    let row = topology.processes();
    let all = row.iter().zip(topology.parents()).zip(topology.depths());
    let shown = all.map(|((process, parent), depth)| ShownProcess {
        process: process.name(),
        host: &process.host,
        index: process.index,
        role: process.role.name(),
        parent: parent.map(|at| row[at].name()),
        depth,
    });
    shown.collect()
}

/// Summarises a topology on one line.
pub(super) fn summary(stats: &Stats) -> String {
    let of = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    format!(
        "{}: {}, {} inner; {}, {} deep",
        of(stats.processes, "process", "processes"),
        of(stats.back_ends, "back-end", "back-ends"),
        stats.inner,
        of(stats.hosts.len(), "host", "hosts"),
        of(stats.depth, "level", "levels"),
    )
}

/// Prints a made topology: a file whose first line describes it.
pub(super) fn print_made(layout: &Layout, topology: &Topology, form: Form, format: Format) {
    #[derive(Serialize)]
    struct Made<'a> {
        layout: String,
        #[serde(flatten)]
        counts: ShownCounts,
        /// Content of the file.
        text: String,
        tree: Vec<ShownProcess<'a>>,
    }
    let stats = Stats::of(topology);
    let text = to_text(topology, form);
    match format {
        Format::Json => print_json(&Made {
            layout: layout.to_string(),
            counts: ShownCounts::of(&stats),
            text,
            tree: shown_processes(topology),
        }),
        Format::Text => print(format_args!("# {layout}, {}\n{}", summary(&stats), text.trim_end())),
    }
}
