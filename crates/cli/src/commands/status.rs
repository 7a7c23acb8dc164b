//! `treefold status`: shows a node's view of itself and of the cluster.

use super::{connect, failure_of};
use crate::args::At;
use crate::exit::{Failure, Verdict};
use crate::output::json::{StatusView, hosted, load_ms_per_processor, role_names};
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json, short};
use clap::Args;
use std::sync::Arc;
use std::time::Duration;
use treefold::NodeStatus;
use treefold_core::load::figure::LoadFigure;
use treefold_core::membership::card::MemberCard;
use treefold_core::status::{OpenWork, SlowNode, TotalStatus};

/// Show the members of a cluster, their load, and the counters of a node
///
/// The first row is the node that was asked. Load is the predicted milliseconds of queued work per processor,
/// as last reported, with the age of the report.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {
    #[command(flatten)]
    at: At,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Examples:
  treefold status --at 127.0.0.1:7700
  treefold status --at 10.0.0.1:7700 -o json | jq '.members[] | {addr, load_ms}'";

impl Status {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let client = connect(&self.at, false, &self.cluster).await?;
        let status = client.status().await.map_err(failure_of)?;
        match format {
            Format::Json => print_json(&StatusView::of(&status)),
            Format::Text => print(render(&status, Style::of_stdout())),
        }
        Ok(Verdict::Full)
    }
}

/// Formats a status as text, without a newline at its end.
pub(crate) fn render(status: &NodeStatus, style: Style) -> String {
    let counted: Vec<String> =
        status.counters.iter().filter(|&(_, n)| n > 0).map(|(name, n)| format!("{name} {n}")).collect();
    let counted = if counted.is_empty() { "nothing yet".to_owned() } else { counted.join(", ") };
    let count = status.members.len() + 1;
    let notes: String = notes_of(status, style).iter().map(|note| format!("\n{note}")).collect();
    let streams = if status.streams.is_empty() {
        String::new()
    } else {
        format!("\n{}", streams(status).render(style))
    };
    format!(
        "{}\n{}\n{} {counted}\n{} {}{streams}{notes}",
        style.bold(format_args!("{count} member{} in sight", if count == 1 { "" } else { "s" })),
        members(status).render(style),
        style.dim("counted:"),
        style.dim("open:"),
        open_work(&status.open)
    )
}

/// Returns a line for each slow node, one if UDP is blocked, one for each service with a guessed total, and one for each member with a refused
/// total.
fn notes_of(status: &NodeStatus, style: Style) -> Vec<String> {
    let mut notes: Vec<String> = status.slow.iter().map(|slow| style.warning(slow_line(slow))).collect();
    if status.unreached_by_udp {
        notes.push(style.warning(
            "no member reaches this node by UDP: membership uses TCP instead, and is slower to find dead members",
        ));
    }
    for TotalStatus { service, agreed, refused } in &status.totals {
        if !agreed.declared && agreed.total > 0 {
            let total = agreed.total;
            notes.push(style.warning(format_args!(
                "{service}: the total is a guess: {total} partitions were seen, and no node declares it"
            )));
        }
        for refused in refused {
            notes.push(style.bad(format_args!(
                "{service}: {} is refused: its total is {}, but the cluster's is {agreed}; its \
                 partitions are not used",
                refused.node, refused.claim
            )));
        }
    }
    notes
}

fn members(status: &NodeStatus) -> Table {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("address", Align::Left),
        ("rack", Align::Left),
        ("zone", Align::Left),
        ("roles", Align::Left),
        ("processors", right),
        ("load ms", right),
        ("heard", right),
        ("services", Align::Left),
    ]);
    let mut row = |card: &Arc<MemberCard>, load: LoadFigure, heard: String| {
        let services = card.services.iter().map(|(name, s)| hosted(name, &s.partitions, s.total));
        table.row(vec![
            card.node.to_string(),
            card.rack.clone(),
            card.zone.clone(),
            role_names(card).join(","),
            card.processors.to_string(),
            if heard == "never" { "?".to_owned() } else { format!("{:.1}", load_ms_per_processor(load)) },
            heard,
            services.collect::<Vec<_>>().join("; "),
        ]);
    };
    row(&status.card, status.load, "itself".to_owned());
    for member in &status.members {
        let heard = member
            .load_age_ms
            .map_or_else(|| "never".to_owned(), |age| format!("{} ago", short(Duration::from_millis(age))));
        row(&member.card, member.load, heard);
    }
    table
}

/// Says which node is slow, and by how much.
pub(crate) fn slow_line(slow: &SlowNode) -> String {
    let times = slow.time.as_millis_f64() / slow.usual.as_millis_f64().max(0.001);
    let of = match &*slow.aggregation {
        "" => "as a relay".to_owned(),
        aggregation => format!("in {aggregation}"),
    };
    let lasts = slow.lasts.as_millis() / 1_000;
    format!(
        "slow for {lasts} s: {} {of} takes {times:.1} times the usual {:.1} ms",
        slow.node.addr,
        slow.usual.as_millis_f64()
    )
}

/// The streams that the node takes part in, with the packets that have passed it.
fn streams(status: &NodeStatus) -> Table {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("stream of", Align::Left),
        ("filter", Align::Left),
        ("endpoints", right),
        ("away", right),
        ("children", right),
        ("packets in", right),
        ("waves", right),
        ("packets up", right),
        ("MB up", right),
        ("packets down", right),
        ("MB down", right),
        ("filter µs", right),
    ]);
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    for stream in &status.streams {
        let traffic = &stream.traffic;
        let mean_us = traffic.filter_us as f64 / traffic.filter_runs.max(1) as f64;
        table.row(vec![
            stream.service.to_string(),
            if stream.up_filter.is_empty() { "–".to_owned() } else { stream.up_filter.to_string() },
            stream.endpoints.to_string(),
            stream.away.to_string(),
            stream.children.to_string(),
            traffic.packets_in.to_string(),
            traffic.waves.to_string(),
            traffic.packets_up.to_string(),
            megabytes(traffic.bytes_up),
            traffic.packets_down.to_string(),
            megabytes(traffic.bytes_down),
            if traffic.filter_runs == 0 { "–".to_owned() } else { format!("{mean_us:.1}") },
        ]);
    }
    table
}

fn open_work(open: &OpenWork) -> String {
    let counts = [
        ("calls", open.calls),
        ("waves", open.waves),
        ("jobs queued", open.jobs_queued),
        ("jobs running", open.jobs_running),
        ("jobs stuck", open.jobs_stuck),
        ("waves kept for repair", open.waves_kept),
        ("bytes kept", open.kept_bytes),
        ("bytes held", open.held_bytes),
        ("streams", open.streams),
        ("bytes of streams", open.stream_bytes),
    ];
    let open: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if open.is_empty() { "nothing".to_owned() } else { open.join(", ") }
}
