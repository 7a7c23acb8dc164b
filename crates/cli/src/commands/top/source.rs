//! Sources of looks at the cluster.
//!
//! A [`Source`] gives one look after the other at its own pace: a source of calls asks when a look is due, a
//! stream's source waits for the next wave. The settings ([`Wishes`]) may change while it waits, so they come
//! over a channel that always has the latest value.
//!
//! [`CallSource`] is here, and streams are in [`super::streamed`]. [`Watching`] chooses: it uses a stream
//! unless none can be opened (at an older node, or one that can't be reached by UDP). That shows before the
//! first look.

use super::slowest::{Subtree, slowest};
use super::streamed::{Network, StreamSource};
use crate::commands::failure_of;
use crate::exit::{Failure, Verdict};
use crate::output::json::load_ms_per_processor;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use treefold::{CallError, Client, Error, Missing, NodeStatus, Reply, StreamError};
use treefold_hosts::{Ask, Hosts, TOP_MAX};

/// Aggregation that is called.
pub(super) const KIND: &str = "hosts/now";

/// Settings for the next looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Time between the beginnings of two looks.
    pub(crate) interval: Duration,
    /// Number of entries of each list.
    pub(crate) top: u32,
    /// Host whose own processes are requested too.
    pub(crate) focus: Option<u32>,
}

/// The cluster at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// The hosts' folded samples; `None` if no host answered.
    pub(crate) hosts: Option<Hosts>,
    /// Number of hosts asked.
    pub(crate) asked: usize,
    /// Number of hosts in `hosts`.
    pub(crate) contributed: usize,
    /// Missing hosts, with reasons.
    pub(crate) missing: Vec<Missing>,
    /// Time that this look took.
    pub(crate) elapsed: Duration,
    /// The slowest subtrees of a call's tree, slowest first: of this look's call, or beside a stream of a
    /// recent call.
    pub(crate) slowest: Vec<Subtree>,
    /// The nodes in sight; `None` if the node that was asked did not answer.
    pub(crate) nodes: Option<Nodes>,
    /// The requested host alone.
    pub(crate) focus: Option<Hosts>,
    /// The stream's tree; `None` if the look came from a call.
    pub(crate) network: Option<Network>,
}

impl Look {
    /// Returns the verdict, by the rule of calls: never full if hosts are missing.
    pub(crate) fn verdict(&self) -> Verdict {
        match &self.hosts {
            None => Verdict::Insufficient,
            Some(_) if self.contributed < self.asked => Verdict::Partial,
            Some(_) => Verdict::Full,
        }
    }
}

/// The cluster's nodes, with any service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Nodes {
    pub(crate) in_sight: usize,
    /// Mean of their load indexes: predicted milliseconds of queued work, per processor.
    pub(crate) load_ms_mean: f64,
    /// Greatest load index, and its node.
    pub(crate) load_ms_max: f64,
    pub(crate) most_loaded: String,
    /// Number of streams of the node that was asked, and the bytes that it holds of them.
    ///
    /// Other nodes' streams are not known here.
    pub(crate) streams: usize,
    pub(crate) stream_bytes: usize,
}

impl Nodes {
    pub(super) fn of(status: &NodeStatus) -> Self {
        let others = status.members.iter().map(|member| (&member.card, member.load));
        let all = std::iter::once((&status.card, status.load)).chain(others);
        let mut loads: Vec<(f64, String)> =
            all.map(|(card, load)| (load_ms_per_processor(load), card.node.to_string())).collect();
        loads.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let sum: f64 = loads.iter().map(|(load_ms, _)| load_ms).sum();
        let (load_ms_max, most_loaded) = loads[0].clone();
        Self {
            in_sight: loads.len(),
            load_ms_mean: sum / loads.len() as f64,
            load_ms_max,
            most_loaded,
            streams: status.open.streams,
            stream_bytes: status.open.stream_bytes,
        }
    }
}

/// Gives looks at its own pace.
pub(crate) trait Source {
    /// Waits until the next look is due, and returns it.
    ///
    /// The first look is due at once. A failed look does not end the source, because the next one may
    /// succeed. Dropping the future cancels the look.
    fn next(&mut self) -> impl Future<Output = Result<Look, Failure>>;
}

/// A source that calls.
pub(crate) struct CallSource {
    client: Client,
    deadline: Duration,
    wishes: watch::Receiver<Wishes>,
    /// Beginning of the last look.
    began: Option<Instant>,
}

impl CallSource {
    pub(crate) fn new(client: Client, deadline: Duration, wishes: watch::Receiver<Wishes>) -> Self {
        Self { client, deadline, wishes, began: None }
    }

    /// Waits until the next look is due, by the current interval.
    async fn wait_until_due(&mut self) {
        let Some(began) = self.began else { return };
        loop {
            let interval = self.wishes.borrow_and_update().interval;
            tokio::select! {
                () = tokio::time::sleep_until(began + interval) => return,
                changed = self.wishes.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn look(&self, wishes: Wishes) -> Result<Look, Failure> {
        let all = async {
            let call = self.client.call::<Hosts>(KIND, &Some(Ask { top: wishes.top }));
            call.deadline(self.deadline).min_coverage(0.0).explain(true).await
        };
        let focus = async {
            let id = wishes.focus?;
            // The list of one host can be complete.
            let call = self.client.call::<Hosts>(KIND, &Some(Ask { top: TOP_MAX }));
            let only = [id].into_iter().collect();
            // If the host can't be reached, the other call reports it missing.
            call.deadline(self.deadline).min_coverage(0.0).partitions(only).await.ok()?.value
        };
        let (reply, focus, status) = tokio::join!(all, focus, self.client.status());
        let reply = reply.map_err(failure_to_look)?;
        Ok(Look { focus, nodes: status.ok().as_ref().map(Nodes::of), ..Look::of(reply) })
    }
}

impl Source for CallSource {
    async fn next(&mut self) -> Result<Look, Failure> {
        self.wait_until_due().await;
        self.began = Some(Instant::now());
        let wishes = *self.wishes.borrow_and_update();
        self.look(wishes).await
    }
}

impl Look {
    fn of(reply: Reply<Hosts>) -> Self {
        Self {
            asked: reply.asked.len(),
            contributed: reply.contributed.len(),
            elapsed: reply.elapsed,
            slowest: reply.explain().map_or_else(Vec::new, slowest),
            hosts: reply.value.filter(|hosts| hosts.hosts > 0),
            missing: reply.missing,
            nodes: None,
            focus: None,
            network: None,
        }
    }
}

/// A source that uses a stream if one can be opened, and calls otherwise.
pub(crate) struct Watching {
    stream: Option<StreamSource>,
    calls: CallSource,
}

impl Watching {
    pub(crate) fn new(stream: Option<StreamSource>, calls: CallSource) -> Self {
        Self { stream, calls }
    }
}

impl Source for Watching {
    async fn next(&mut self) -> Result<Look, Failure> {
        let Some(stream) = &mut self.stream else { return self.calls.next().await };
        match stream.next().await {
            // If no node serves hosts, calls would fail as well, and the stream may recover later.
            Err(failure) if !stream.has_looked && !matches!(failure, Failure::Usage(_)) => {
                super::say_by_calls(&failure);
                self.stream = None;
                self.calls.next().await
            }
            looked => looked,
        }
    }
}

/// Converts an error to the reason why there is no look, and says what to do.
pub(super) fn failure_to_look(error: Error) -> Failure {
    let serve = "start nodes with `treefold node --serve hosts:partitions=ID/TOTAL`";
    match error {
        Error::Rejected(refused @ CallError::UnknownService { .. }) => {
            Failure::usage(format!("{refused}; {serve}"))
        }
        Error::Stream(refused @ StreamError::UnknownService { .. }) => {
            Failure::usage(format!("{refused}; {serve}"))
        }
        error => failure_of(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_with_missing_hosts_is_never_full() {
        let look =
            |hosts, asked, contributed| Look { hosts, asked, contributed, ..Look::default() }.verdict();
        assert_eq!(look(Some(Hosts::default()), 3, 3), Verdict::Full);
        assert_eq!(look(Some(Hosts::default()), 3, 2), Verdict::Partial);
        assert_eq!(look(None, 3, 0), Verdict::Insufficient);
    }
}
