//! `treefold mirror status`: shows the mirrors of a feed.

use crate::args::At;
use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use std::time::Duration;
use treefold_feed::MirrorStatus;
use treefold_feed::operating::{OriginReport, origin_service_name};
use treefold_mirror::rules::Mode;

/// Time that the mirrors have to answer.
const WITHIN: Duration = Duration::from_secs(2);

/// Show the origin and the mirrors of a feed: how far each is, its queues, and its readers
///
/// Behind is the number of events that the mirror lacks beside the furthest one of the latest epoch. A mirror that is
/// not current serves no readers.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {
    /// Feed: the name of its mirrors' service
    #[arg(value_name = "FEED")]
    feed: String,

    #[command(flatten)]
    at: At,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Exit codes: 0 if all mirrors answer, 3 if some do, 4 if none does, 5 if no node answers.

Examples:
  treefold mirror status flights --at 127.0.0.1:7700
  treefold mirror status flights --at 127.0.0.1:7700 -o json | jq '.mirrors[] | {mirror, behind, readers}'";

#[derive(Serialize)]
struct Report {
    feed: String,
    /// `None` if no origin runs.
    origin: Option<OriginReport>,
    mirrors: Vec<Row>,
    missing: Vec<Absent>,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    status: MirrorStatus,
    /// `None` for a mirror of an earlier epoch.
    behind: Option<u64>,
}

#[derive(Serialize)]
struct Absent {
    mirror: u32,
    reason: String,
}

impl Status {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let client = connect(&self.at, false, &self.cluster).await?;
        let kind = format!("{}/status", self.feed);
        let called = client.call::<Vec<MirrorStatus>>(&kind, &()).deadline(WITHIN).min_coverage(0.0);
        let reply = called.await.map_err(failure_of)?;
        let missing = reply.missing.iter().flat_map(|missing| {
            missing.partitions.iter().map(|mirror| Absent { mirror, reason: missing.reason.to_string() })
        });
        let missing: Vec<Absent> = missing.collect();
        let asked = client.call::<OriginReport>(&format!("{}/status", origin_service_name(&self.feed)), &());
        // A feed may be between two origins, and its mirrors serve readers all the same.
        let origin = asked.deadline(WITHIN).min_coverage(0.0).await.ok().and_then(|reply| reply.value);
        let report =
            Report { feed: self.feed, origin, mirrors: rows(reply.value.unwrap_or_default()), missing };
        match format {
            Format::Json => print_json(&report),
            Format::Text => print(render(&report, Style::of_stdout())),
        }
        Ok(match (report.mirrors.is_empty(), report.missing.is_empty()) {
            (true, _) => Verdict::Insufficient,
            (false, false) => Verdict::Partial,
            (false, true) => Verdict::Full,
        })
    }
}

fn rows(mirrors: Vec<MirrorStatus>) -> Vec<Row> {
    let furthest = mirrors.iter().map(|mirror| (mirror.epoch, mirror.position)).max().unwrap_or_default();
    let row = |status: MirrorStatus| {
        let behind = (status.epoch == furthest.0).then(|| furthest.1 - status.position);
        Row { status, behind }
    };
    mirrors.into_iter().map(row).collect()
}

fn render(report: &Report, style: Style) -> String {
    let over_http = report.mirrors.iter().any(|row| row.status.http.is_some());
    let mut columns = vec![
        ("mirror", Align::Right),
        ("epoch", Align::Right),
        ("position", Align::Right),
        ("behind", Align::Right),
        ("current", Align::Left),
        ("committed", Align::Right),
        ("keys", Align::Right),
        ("rules", Align::Right),
        ("readers", Align::Right),
        ("waiting", Align::Right),
    ];
    columns.extend(over_http.then_some(("over HTTP", Align::Left)));
    let mut table = Table::new(&columns);
    for Row { status, behind } in &report.mirrors {
        let mut row = vec![
            status.mirror.to_string(),
            status.epoch.to_string(),
            status.position.to_string(),
            behind.map_or_else(|| "epoch".to_owned(), |behind| behind.to_string()),
            if status.is_current { "yes" } else { "no" }.to_owned(),
            status.committed.to_string(),
            status.keys.to_string(),
            status.rules_version.to_string(),
            status.readers.to_string(),
            status.pending_requests.to_string(),
        ];
        row.extend(over_http.then(|| status.http.map_or_else(String::new, |addr| addr.to_string())));
        table.row(row);
    }
    let missing = report.missing.iter().map(|absent| {
        format!("\n{}", style.warning(format_args!("mirror {}: {}", absent.mirror, absent.reason)))
    });
    format!(
        "{}\n{}{}",
        origin_lines(report.origin.as_ref(), style),
        table.render(style),
        missing.collect::<String>()
    )
}

/// The origin's line, and a line for each of its problems.
fn origin_lines(origin: Option<&OriginReport>, style: Style) -> String {
    let Some(origin) = origin else {
        return format!("origin: {}", style.warning("none is running, or it does not answer"));
    };
    let mode = match origin.mode {
        Mode::Normal => "normal",
        Mode::Loaded => "loaded",
    };
    let fixed = if origin.mode_choice.fixed().is_some() { " (fixed)" } else { "" };
    let mut lines = format!(
        "origin: epoch {}, position {}, committed {}, {} ready, {} to commit, {mode} mode{fixed}, rules version {}",
        origin.epoch,
        origin.position,
        origin.committed,
        origin.ready.events,
        origin.backup.events,
        origin.rules_version
    );
    if let Some(problem) = &origin.journal_problem {
        lines += &format!("\n{}", style.warning(format_args!("origin: the journal: {problem}")));
    }
    for rule in origin.rules.iter().filter(|rule| rule.errors > 0) {
        let last = origin.function_error.as_deref().unwrap_or_default();
        let line = format!(
            "origin: rule {}: the function failed on {} events; last: {last}",
            rule.name, rule.errors
        );
        lines += &format!("\n{}", style.warning(line));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_compared_with_the_furthest_of_the_latest_epoch() {
        let mirror = |mirror, epoch, position| MirrorStatus {
            mirror,
            epoch,
            position,
            is_current: true,
            keys: 3,
            rules_version: 1,
            committed: 5,
            has_state: true,
            promised: 0,
            keeps_promises: false,
            silent_ms: None,
            readers: 2,
            pending_requests: 0,
            http: None,
        };
        let rows = rows(vec![mirror(0, 2, 90), mirror(1, 2, 100), mirror(2, 1, 700)]);
        let behind: Vec<_> = rows.iter().map(|row| row.behind).collect();
        assert_eq!(behind, [Some(10), Some(0), None]);
        let missing = vec![Absent { mirror: 3, reason: "lost".to_owned() }];
        let text =
            render(&Report { feed: "f".to_owned(), origin: None, mirrors: rows, missing }, Style::PLAIN);
        assert!(text.ends_with("mirror 3: lost") && text.lines().count() == 6, "{text}");
    }
}
