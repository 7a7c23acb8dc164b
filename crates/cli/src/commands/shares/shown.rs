//! Shares as printed in tables and in JSON.

use super::nodes::Told;
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json, rounded};
use serde::Serialize;
use treefold::shares::{ServiceAccount, SharesReport};

/// The reports of all nodes.
#[derive(Serialize)]
struct Listed<'a> {
    nodes: Vec<NodeShown<'a>>,
    /// Nodes without a report, and why.
    failed: Vec<Failed<'a>>,
}

#[derive(Serialize)]
struct Failed<'a> {
    node: &'a str,
    error: String,
}

#[derive(Serialize)]
struct NodeShown<'a> {
    node: &'a str,
    processors: u32,
    #[serde(serialize_with = "rounded")]
    uptime_s: f64,
    /// Length of the recent time.
    #[serde(serialize_with = "rounded")]
    window_s: f64,
    services: Vec<ServiceShown<'a>>,
}

/// One service at one node.
#[derive(Serialize)]
struct ServiceShown<'a> {
    service: &'a str,
    share: f64,
    class: &'static str,
    /// Part of the processor time that all services used recently; none if they used none.
    #[serde(skip_serializing_if = "Option::is_none")]
    part_recent: Option<f64>,
    /// Part of all processor time recently.
    #[serde(serialize_with = "rounded")]
    part_of_processors: f64,
    #[serde(serialize_with = "rounded")]
    used_ms: f64,
    #[serde(serialize_with = "rounded")]
    recent_ms: f64,
    jobs_done: u64,
    jobs_queued: usize,
    #[serde(serialize_with = "rounded")]
    queued_ms: f64,
    refused: u64,
    held_bytes: usize,
    held_bytes_max: usize,
}

impl<'a> NodeShown<'a> {
    fn of(node: &'a str, report: &'a SharesReport) -> Self {
        let all_ms: f64 = report.services.iter().map(|account| millis(account.recent)).sum();
        let there_was_ms = millis(report.window) * f64::from(report.processors);
        let service = |account: &'a ServiceAccount| {
            let recent_ms = millis(account.recent);
            ServiceShown {
                service: &account.service,
                share: account.share.share,
                class: account.share.class.name(),
                part_recent: (all_ms > 0.0).then(|| (1e4 * recent_ms / all_ms).round() / 1e4),
                part_of_processors: if there_was_ms > 0.0 { recent_ms / there_was_ms } else { 0.0 },
                used_ms: millis(account.used),
                recent_ms,
                jobs_done: account.jobs_done,
                jobs_queued: account.jobs_queued,
                queued_ms: millis(account.queued),
                refused: account.refused,
                held_bytes: account.held_bytes,
                held_bytes_max: account.held_bytes_max,
            }
        };
        Self {
            node,
            processors: report.processors,
            uptime_s: report.uptime.as_secs_f64(),
            window_s: report.window.as_secs_f64(),
            services: report.services.iter().map(service).collect(),
        }
    }
}

/// Prints the reports.
///
/// Fails if a node gave none.
pub(super) fn tell(told: &[Told], format: Format) -> Result<Verdict, Failure> {
    let (mut nodes, mut failed) = (Vec::new(), Vec::new());
    let mut only_failure = None;
    for Told { node, said } in told {
        match said {
            Ok(report) => nodes.push(NodeShown::of(node, report)),
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

fn table(nodes: &[NodeShown<'_>]) -> Table {
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

fn millis(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
