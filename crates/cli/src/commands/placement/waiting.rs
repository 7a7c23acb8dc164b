//! Waits until partitions have moved.

use crate::exit::Failure;
use crate::parse;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use treefold::Client;
use treefold::placement::PlacementReport;

/// How long a command waits.
#[derive(Debug, Args)]
pub(super) struct Patience {
    /// Return at once, and let the partitions move by themselves
    #[arg(long)]
    pub(super) no_wait: bool,

    /// Time to wait for the partitions to move
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse::duration)]
    pub(super) timeout: Duration,
}

/// How often the node is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// The partitions that a command waits for.
pub(super) struct Wait<'a> {
    /// The node that is asked.
    pub(super) node: &'a str,
    /// How long to wait.
    pub(super) timeout: Duration,
    /// The partitions that are still to move.
    pub(super) left: &'a dyn Fn(&PlacementReport) -> usize,
    /// Their state when time is up, for the error.
    pub(super) rest: &'a dyn Fn(&PlacementReport) -> String,
}

impl Wait<'_> {
    /// Waits until no partition is left, with a progress bar if standard error is a terminal.
    ///
    /// # Errors
    /// If time is up, the node has nothing more to do with partitions left, or does not answer.
    pub(super) async fn until_done(&self, client: &Client) -> Result<PlacementReport, Failure> {
        let template = "moving partitions {wide_bar} {pos}/{len}";
        let style = ProgressStyle::with_template(template).expect("invariant: the template is well-formed");
        let bar = ProgressBar::new(0).with_style(style);
        let end = tokio::time::Instant::now() + self.timeout;
        let result = loop {
            let report = client.placement().await.map_err(crate::commands::failure_of)?;
            let left = (self.left)(&report);
            bar.set_length(bar.length().unwrap_or(0).max(left as u64));
            bar.set_position(bar.length().unwrap_or(0) - left as u64);
            if left == 0 {
                break Ok(report);
            }
            let problem = if report.is_calm {
                "no other node can take them".to_owned()
            } else if tokio::time::Instant::now() >= end {
                format!("not done within {:?}", self.timeout)
            } else {
                tokio::time::sleep(ASK_EVERY).await;
                continue;
            };
            break Err(Failure::failed(format!("{}: {problem}: {}", self.node, (self.rest)(&report))));
        };
        bar.finish_and_clear();
        result
    }
}
