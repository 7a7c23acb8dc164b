//! Shares of a node's services, and the resources that they have used.

use serde::Serialize;
use treefold::shares::{ServiceAccount, SharesReport};

/// The shares of one node.
#[derive(Serialize)]
pub struct NodeShares<'a> {
    pub node: &'a str,
    pub processors: u32,
    #[serde(serialize_with = "crate::rounded")]
    pub uptime_s: f64,
    /// Length of the recent time.
    #[serde(serialize_with = "crate::rounded")]
    pub window_s: f64,
    pub services: Vec<ServiceShares<'a>>,
}

/// One service at one node.
#[derive(Serialize)]
pub struct ServiceShares<'a> {
    pub service: &'a str,
    pub share: f64,
    pub class: &'static str,
    /// Part of the processor time that all services used recently; none if they used none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_recent: Option<f64>,
    /// Part of all processor time recently.
    #[serde(serialize_with = "crate::rounded")]
    pub part_of_processors: f64,
    #[serde(serialize_with = "crate::rounded")]
    pub used_ms: f64,
    #[serde(serialize_with = "crate::rounded")]
    pub recent_ms: f64,
    pub jobs_done: u64,
    pub jobs_queued: usize,
    #[serde(serialize_with = "crate::rounded")]
    pub queued_ms: f64,
    pub refused: u64,
    pub held_bytes: usize,
    pub held_bytes_max: usize,
}

impl<'a> NodeShares<'a> {
    pub fn of(node: &'a str, report: &'a SharesReport) -> Self {
        let all_ms: f64 = report.services.iter().map(|account| millis(account.recent)).sum();
        let there_was_ms = millis(report.window) * f64::from(report.processors);
        let service = |account: &'a ServiceAccount| {
            let recent_ms = millis(account.recent);
            ServiceShares {
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

fn millis(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
