//! Where looks at the cluster come from.
//!
//! A [`Source`] gives one look after the other and keeps the pace itself: a source of calls asks when a look is due, a
//! source that is told (a stream) waits for the next wave. What is wanted of it ([`Wishes`]) may change while it
//! waits, so it comes over a channel that always has the latest.
//!
//! [`CallSource`] is here, streams are in [`super::streamed`], and [`Watching`] chooses: by a stream, unless none can be
//! had (an older node, or one that can't be reached by UDP), which shows before the first look.

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

/// What is called.
pub(super) const KIND: &str = "hosts/now";

/// What is wanted of the looks to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Between the beginnings of two looks.
    pub(crate) interval: Duration,
    /// Entries of each list.
    pub(crate) top: u32,
    /// A host whose own processes are wanted too.
    pub(crate) focus: Option<u32>,
}

/// The cluster at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// What the hosts said together; `None` when none did.
    pub(crate) hosts: Option<Hosts>,
    /// How many hosts were asked.
    pub(crate) asked: usize,
    /// How many of them are in `hosts`.
    pub(crate) contributed: usize,
    /// The others, with reasons.
    pub(crate) missing: Vec<Missing>,
    /// How long this look was waited for.
    pub(crate) elapsed: Duration,
    /// The slowest subtrees of the tree that a call's answer climbed, slowest first: this look's, or a recent one
    /// beside a stream.
    pub(crate) slowest: Vec<Subtree>,
    /// The nodes in sight; `None` when the node that was asked did not say.
    pub(crate) nodes: Option<Nodes>,
    /// The host that was wished for, by itself.
    pub(crate) focus: Option<Hosts>,
    /// The stream's tree; `None` when a call was answered.
    pub(crate) network: Option<Network>,
}

impl Look {
    /// As calls are judged: never full when somebody is missing.
    pub(crate) fn verdict(&self) -> Verdict {
        match &self.hosts {
            None => Verdict::Insufficient,
            Some(_) if self.contributed < self.asked => Verdict::Partial,
            Some(_) => Verdict::Full,
        }
    }
}

/// The cluster's nodes, whatever they serve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Nodes {
    pub(crate) in_sight: usize,
    /// The mean of their load indexes: predicted milliseconds of queued work, per processor.
    pub(crate) load_ms_mean: f64,
    /// The greatest, and whose.
    pub(crate) load_ms_max: f64,
    pub(crate) most_loaded: String,
    /// Streams that the node that was asked takes part in, and the bytes that it holds of them. What others do nobody
    /// but they can say.
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

/// Gives looks at a pace.
pub(crate) trait Source {
    /// The next look; waits until it is due. The first is due at once. A look that failed does not end the source:
    /// the next one may succeed. Dropping the future gives this look up.
    fn next(&mut self) -> impl Future<Output = Result<Look, Failure>>;
}

/// Looks by calling.
pub(crate) struct CallSource {
    client: Client,
    deadline: Duration,
    wishes: watch::Receiver<Wishes>,
    /// When the last look began.
    began: Option<Instant>,
}

impl CallSource {
    pub(crate) fn new(client: Client, deadline: Duration, wishes: watch::Receiver<Wishes>) -> Self {
        Self { client, deadline, wishes, began: None }
    }

    /// Returns when the next look is due, by the interval as it is wished then.
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
            // One host can say all it has.
            let call = self.client.call::<Hosts>(KIND, &Some(Ask { top: TOP_MAX }));
            let only = [id].into_iter().collect();
            // Who can't be reached is told as missing by the other call.
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

/// Looks by a stream for as long as there is one to be had, or else by calls.
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
            // That nobody serves hosts is no better by calls, and later on a stream may recover.
            Err(failure) if !stream.has_looked && !matches!(failure, Failure::Usage(_)) => {
                super::say_by_calls(&failure);
                self.stream = None;
                self.calls.next().await
            }
            looked => looked,
        }
    }
}

/// Why there is no look, with what to do about it.
pub(super) fn failure_to_look(error: Error) -> Failure {
    let serve = "`treefold node --serve hosts:partitions=ID/TOTAL` does";
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
    fn a_look_without_everybody_is_never_full() {
        let look =
            |hosts, asked, contributed| Look { hosts, asked, contributed, ..Look::default() }.verdict();
        assert_eq!(look(Some(Hosts::default()), 3, 3), Verdict::Full);
        assert_eq!(look(Some(Hosts::default()), 3, 2), Verdict::Partial);
        assert_eq!(look(None, 3, 0), Verdict::Insufficient);
    }
}
