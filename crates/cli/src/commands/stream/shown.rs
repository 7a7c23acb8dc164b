//! Prints a stream: waves on standard output, changes of its tree on standard error.

use crate::exit::Verdict;
use crate::output::json::Coverage;
use crate::output::packet::payload_line;
use crate::output::style::Style;
use crate::output::{Format, print, print_json};
use bytes::Bytes;
use treefold::{Body, Missing, PartitionSet, StreamWave};
use treefold_core::tree::Tree;
use treefold_forms::stream::{WaveView, coverage};
use treefold_hosts::Hosts;

/// Filter whose packets are printed as a summary of the hosts.
const HOSTS_FILTER: &str = "hosts/hosts";

/// How a stream's waves are printed.
pub(super) struct Shown {
    pub(super) format: Format,
    pub(super) of_hosts: bool,
}

impl Shown {
    pub(super) fn new(format: Format, up_filter: &str) -> Self {
        Self { format, of_hosts: up_filter == HOSTS_FILTER }
    }

    /// Prints a wave.
    pub(super) fn wave(&self, wave: &StreamWave<Bytes>, is_late: bool) {
        match self.format {
            Format::Json => print_json(&WaveView::of(wave, is_late)),
            Format::Text => print(self.text(wave, is_late, Style::of_stdout())),
        }
    }

    fn text(&self, wave: &StreamWave<Bytes>, is_late: bool, style: Style) -> String {
        let Coverage { asked, contributed } = coverage(wave);
        let late = if is_late { ", a late part" } else { "" };
        let counts = format!("{contributed} of {asked} endpoints{late}");
        let counts = if contributed < asked { style.warning(counts) } else { style.good(counts) };
        let first = format!("{}  {counts}", style.bold(format_args!("wave {}", wave.tag)));
        let packets = wave.packets.iter().map(|packet| format!("  {}", self.packet(packet)));
        let missing =
            wave.missing.iter().map(|missing| format!("  {}", style.warning(missing_line(missing))));
        std::iter::once(first).chain(packets).chain(missing).collect::<Vec<_>>().join("\n")
    }

    fn packet(&self, packet: &Bytes) -> String {
        match Hosts::decode(packet) {
            Ok(hosts) if self.of_hosts => hosts_line(&hosts),
            _ => payload_line(packet),
        }
    }
}

/// Returns a wave's verdict, by the rule of calls: never full if endpoints are missing.
pub(super) fn verdict(contributors: &PartitionSet, missing: &[Missing]) -> Verdict {
    match (contributors.is_empty(), missing.is_empty()) {
        (_, true) => Verdict::Full,
        (false, false) => Verdict::Partial,
        (true, false) => Verdict::Insufficient,
    }
}

/// Summarises all hosts on one line.
fn hosts_line(hosts: &Hosts) -> String {
    let figures = &hosts.figures;
    let percent = |permille: u64| format!("{}%", permille / 10);
    let worst = hosts
        .cpu
        .greatest()
        .map_or_else(String::new, |worst| format!(", busiest {} {}", worst.host.name, percent(worst.value)));
    format!(
        "{} hosts: cpu {} of {} cores, memory {}, load {}.{}{worst}",
        hosts.hosts,
        percent(figures.cpu_permille()),
        figures.cores,
        percent(figures.memory_permille()),
        figures.load_1_milli / 1000,
        figures.load_1_milli % 1000 / 100,
    )
}

/// Formats a loss on one line: endpoints, node, reason.
pub(super) fn missing_line(missing: &Missing) -> String {
    let place = missing.node.map_or_else(String::new, |node| format!(" at {node}"));
    format!("missing {}{place}: {}", endpoints(&missing.partitions), missing.reason)
}

fn endpoints(set: &PartitionSet) -> String {
    format!("endpoint{} {set}", if set.len() == 1 { "" } else { "s" })
}

/// Prints the tree of a new stream.
pub(super) fn opened(id: impl std::fmt::Display, trees: &[Tree], present: &PartitionSet, away: &[Missing]) {
    let style = Style::of_stderr();
    crate::tell!("{}", style.dim(format_args!("stream {id}: {}", tree_line(trees, present))));
    away.iter().for_each(|missing| crate::tell!("{}", style.warning(missing_line(missing))));
}

/// Prints the changed tree, with the endpoints that joined or went away.
pub(super) fn changed(before: &PartitionSet, trees: &[Tree], present: &PartitionSet, away: &[Missing]) {
    let style = Style::of_stderr();
    let joined = present.difference(before);
    if !joined.is_empty() {
        crate::tell!("{}", style.good(format_args!("joined: {}", endpoints(&joined))));
    }
    let gone = before.difference(present);
    for missing in away.iter().filter(|missing| missing.partitions.intersects(&gone)) {
        let place = missing.node.map_or_else(String::new, |node| format!(" at {node}"));
        let whose = missing.partitions.intersection(&gone);
        let line = format!("away: {}{place}: {}", endpoints(&whose), missing.reason);
        crate::tell!("{}", style.warning(line));
    }
    crate::tell!("{}", style.dim(tree_line(trees, present)));
}

fn tree_line(trees: &[Tree], present: &PartitionSet) -> String {
    let nodes: usize = trees.iter().map(|tree| tree.seats().len()).sum();
    let levels = trees.iter().map(|tree| tree.height() + 1).max().unwrap_or(0);
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    format!(
        "{} endpoint{} on {nodes} node{}, {levels} level{} below here",
        present.len(),
        plural(present.len()),
        plural(nodes),
        plural(levels)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::Reason;
    use treefold::operators::packet::Row;

    fn wave() -> StreamWave<Bytes> {
        let lost = Missing { partitions: [2].into_iter().collect(), node: None, reason: Reason::Late };
        StreamWave {
            tag: 7,
            packets: vec![Row::new().i64(66).packet().into_bytes()],
            contributors: [0, 1, 3].into_iter().collect(),
            missing: vec![lost],
        }
    }

    #[test]
    fn wave_text_lists_contributors_and_missing() {
        let shown = Shown::new(Format::Text, "sum");
        assert_eq!(
            shown.text(&wave(), false, Style::PLAIN),
            "wave 7  3 of 4 endpoints\n  i64 66\n  missing endpoint 2: late"
        );
        let view = serde_json::to_value(WaveView::of(&wave(), true)).unwrap();
        assert_eq!(
            view,
            serde_json::json!({
                "tag": 7,
                "is_late": true,
                "packets": [{"kind": "packet", "format": "i64", "values": [66]}],
                "contributors": "0-1,3",
                "coverage": {"asked": 4, "contributed": 3},
                "missing": [{"partition": 2, "node": null, "reason": "late"}],
            })
        );
    }

    #[test]
    fn wave_with_missing_endpoints_is_never_full() {
        let StreamWave { contributors, missing, .. } = wave();
        assert_eq!(verdict(&contributors, &[]), Verdict::Full);
        assert_eq!(verdict(&contributors, &missing), Verdict::Partial);
        assert_eq!(verdict(&PartitionSet::new(), &missing), Verdict::Insufficient);
    }
}
