//! Shares as printed in tables and in JSON.

use super::nodes::Told;
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json};
use serde::Serialize;
use treefold_forms::shares::NodeShares;

/// The reports of all nodes.
#[derive(Serialize)]
struct Listed<'a> {
    nodes: Vec<NodeShares<'a>>,
    /// Nodes without a report, and why.
    failed: Vec<Failed<'a>>,
}

#[derive(Serialize)]
struct Failed<'a> {
    node: &'a str,
    error: String,
}

/// Prints the reports.
///
/// Fails if a node gave none.
pub(super) fn tell(told: &[Told], format: Format) -> Result<Verdict, Failure> {
    let (mut nodes, mut failed) = (Vec::new(), Vec::new());
    let mut only_failure = None;
    for Told { node, said } in told {
        match said {
            Ok(report) => nodes.push(NodeShares::of(node, report)),
            Err(failure) => {
                only_failure = Some(failure);
                failed.push(Failed { node, error: failure.to_string() });
            }
        }
    }
    if let (1, Some(failure)) = (told.len(), only_failure) {
        return Err(failure.clone());
    }
    let lost: Vec<String> = failed.iter().map(|it| format!("{}: {}", it.node, it.error)).collect();
    match format {
        Format::Json => print_json(&Listed { nodes, failed }),
        Format::Text => print(table(&nodes).render(Style::of_stdout())),
    }
    if lost.is_empty() { Ok(Verdict::Full) } else { Err(Failure::Told(lost.join("; "))) }
}

fn table(nodes: &[NodeShares<'_>]) -> Table {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("node", Align::Left),
        ("service", Align::Left),
        ("share", right),
        ("class", Align::Left),
        ("recent", right),
        ("of processors", right),
        ("used", right),
        ("jobs", right),
        ("queued", right),
        ("queued ms", right),
        ("refused", right),
        ("held", right),
    ]);
    for node in nodes {
        for service in &node.services {
            table.row(vec![
                node.node.to_owned(),
                service.service.to_owned(),
                service.share.to_string(),
                service.class.to_owned(),
                service.part_recent.map_or("-".to_owned(), |part| format!("{:.1} %", 100.0 * part)),
                format!("{:.1} %", 100.0 * service.part_of_processors),
                format!("{:.2} s", service.used_ms / 1e3),
                service.jobs_done.to_string(),
                service.jobs_queued.to_string(),
                format!("{:.1}", service.queued_ms),
                service.refused.to_string(),
                format!("{:.1} MiB", service.held_bytes as f64 / f64::from(1 << 20)),
            ]);
        }
    }
    table
}
