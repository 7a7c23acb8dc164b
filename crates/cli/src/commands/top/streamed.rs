//! A source of looks over a stream: hosts send their samples without being asked.
//!
//! Every host sends its sample at the requested interval. Waves are folded by the filter `hosts`. A wave is
//! due when all hosts are in it, or when the deadline has passed since its first sample. So a silent host
//! does not delay a look: it is missing from the look, with the reason, and it is in the next one when it is
//! back.
//!
//! Other data is requested beside the stream at its own pace, so that no look waits for it: the nodes in
//! sight, the samples of one host, and at intervals the times of a call's tree.
//!
//! A stream lives as long as a caller waits for its next look. [`Source::next`] keeps the stream out of the
//! source while it waits, so that dropping its future (at a pause or at the end) drops the stream. A new
//! interval opens a new stream.

use super::slowest::{Subtree, slowest};
use super::source::{KIND, Look, Nodes, Source, Wishes, failure_to_look};
use crate::exit::Failure;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use treefold::operators::Merge;
use treefold::{
    Body, Client, Error, Missing, PartitionSet, Stream, StreamError, StreamEvent, StreamWave, Synchronisation,
};
use treefold_core::tree::Tree;
use treefold_hosts::watch::FIRST_INTERVAL;
use treefold_hosts::{Ask, Hosts, Pace, SERVICE, TOP_MAX};

/// Full name of the filter.
const FILTER: &str = "hosts/hosts";
/// Interval of requests for the times of a call's tree.
///
/// Each such request costs one more sample of every host.
const EXPLAIN_EVERY: Duration = Duration::from_secs(10);
/// Shortest interval of the requests beside the stream.
const ASIDE_EVERY_MIN: Duration = Duration::from_secs(1);

/// The current tree of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Network {
    /// Levels below the front-end.
    pub(crate) levels: usize,
    /// Nodes below it.
    pub(crate) nodes: usize,
    /// Endpoints that take part.
    pub(crate) endpoints: usize,
    /// Endpoints that do not take part, with reasons.
    pub(crate) away: Vec<Missing>,
    /// Number of changes of the tree.
    pub(crate) changes: u64,
}

impl Network {
    fn of(stream: &Stream, changes: u64) -> Self {
        let trees = stream.trees();
        Self {
            levels: trees.iter().map(|tree| tree.height() + 1).max().unwrap_or(0),
            nodes: trees.iter().map(|tree: &Tree| tree.seats().len()).sum(),
            endpoints: stream.endpoints().len(),
            away: stream.missing().to_vec(),
            changes,
        }
    }
}

/// A source of looks over a stream.
pub(crate) struct StreamSource {
    /// Client of the node that was asked, for the requests beside the stream.
    front: Client,
    /// The stream's front-end.
    direct: Client,
    deadline: Duration,
    wishes: watch::Receiver<Wishes>,
    open: Option<Open>,
    /// When the last stream was opened.
    ///
    /// If it fails at once, the next one is delayed.
    opened_at: Option<Instant>,
    pub(super) has_looked: bool,
}

/// A stream, and the results of the requests beside it.
struct Open {
    stream: Stream,
    wishes: Wishes,
    changes: u64,
    /// The last look and its wave's tag.
    ///
    /// A late part of the wave is folded into it.
    last: Option<(u64, Look)>,
    asking: Asking,
    /// `None` until the first result.
    aside: Option<Aside>,
    explained_at: Option<Instant>,
}

/// Results of the requests beside a stream.
#[derive(Clone, Debug, Default)]
struct Aside {
    nodes: Option<Nodes>,
    slowest: Option<Vec<Subtree>>,
    focus: Option<(u32, Hosts)>,
}

type Asking = Pin<Box<dyn Future<Output = Aside>>>;

impl StreamSource {
    pub(crate) fn new(
        front: Client,
        direct: Client,
        deadline: Duration,
        wishes: watch::Receiver<Wishes>,
    ) -> Self {
        Self { front, direct, deadline, wishes, open: None, opened_at: None, has_looked: false }
    }

    async fn open(&mut self, wishes: Wishes) -> Result<Open, Failure> {
        if let Some(at) = self.opened_at.replace(Instant::now()) {
            sleep_until(at + ASIDE_EVERY_MIN.min(wishes.interval)).await;
        }
        let interval_ms = u64::try_from(wishes.interval.as_millis()).unwrap_or(u64::MAX);
        let opening = self
            .direct
            .stream(SERVICE)
            .up_filter(FILTER)
            .filter_params(&Some(Ask { top: wishes.top }))
            .params(&Some(Pace { interval_ms }))
            .synchronisation(Synchronisation::TimeOut(self.deadline))
            .open();
        let waited = self.silence(wishes);
        let stream = timeout(waited, opening).await.unwrap_or(Err(Error::FrontSilent { waited }));
        Ok(Open {
            stream: stream.map_err(failure_of_opening)?,
            wishes,
            changes: 0,
            last: None,
            asking: self.ask(wishes, Instant::now(), true),
            aside: None,
            explained_at: Some(Instant::now()),
        })
    }

    /// Time without any wave after which the stream counts as failed.
    fn silence(&self, wishes: Wishes) -> Duration {
        wishes.interval + self.deadline + FIRST_INTERVAL + ASIDE_EVERY_MIN
    }

    /// Sends the requests beside the stream at the time `at`.
    fn ask(&self, wishes: Wishes, at: Instant, explain: bool) -> Asking {
        let (client, deadline) = (self.front.clone(), self.deadline);
        Box::pin(async move {
            sleep_until(at).await;
            let (status, slowest, focus) = tokio::join!(
                client.status(),
                async { if explain { times(&client, deadline).await } else { None } },
                async { alone(&client, deadline, wishes.focus?).await }
            );
            Aside { nodes: status.ok().as_ref().map(Nodes::of), slowest, focus }
        })
    }

    /// Stores the results of the requests, and schedules the next ones.
    fn put_aside(&self, open: &mut Open, aside: Aside) {
        let slowest = aside.slowest.or(open.aside.take().and_then(|aside| aside.slowest));
        open.aside = Some(Aside { slowest, ..aside });
        let now = Instant::now();
        let explain = open.explained_at.is_none_or(|at| at.elapsed() >= EXPLAIN_EVERY);
        if explain {
            open.explained_at = Some(now);
        }
        open.asking = self.ask(open.wishes, now + open.wishes.interval.max(ASIDE_EVERY_MIN), explain);
    }

    /// Applies the current wishes.
    ///
    /// A new interval or list length opens a new stream; a new focus sends new requests.
    async fn follow(&mut self, open: Open) -> Result<Open, Failure> {
        let wishes = *self.wishes.borrow_and_update();
        if (wishes.interval, wishes.top) != (open.wishes.interval, open.wishes.top) {
            let aside = open.aside.clone();
            drop(open);
            return Ok(Open { aside, ..self.open(wishes).await? });
        }
        let mut open = open;
        if wishes.focus != open.wishes.focus {
            open.wishes = wishes;
            open.asking = self.ask(wishes, Instant::now(), false);
        }
        Ok(open)
    }

    /// Waits for the requests beside the stream before a stream's first look, so that this look is complete.
    async fn complete(&mut self, open: &mut Open) {
        if open.aside.is_none()
            && let Ok(aside) = timeout(self.deadline + FIRST_INTERVAL, open.asking.as_mut()).await
        {
            self.put_aside(open, aside);
        }
        self.has_looked = true;
    }
}

impl Source for StreamSource {
    async fn next(&mut self) -> Result<Look, Failure> {
        let began = Instant::now();
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let wishes = *self.wishes.borrow_and_update();
                self.open(wishes).await?
            }
        };
        loop {
            open = self.follow(open).await?;
            let silent_at = began + self.silence(open.wishes);
            tokio::select! {
                event = open.stream.next() => match event {
                    Ok(StreamEvent::Wave(wave)) => if let Some(look) = open.take(&wave)? {
                        self.complete(&mut open).await;
                        let look = open.finished(look, began.elapsed());
                        self.open = Some(open);
                        return Ok(look);
                    },
                    Ok(_) => open.changes += 1,
                    Err(error) => return Err(failure_to_look(error)),
                },
                aside = &mut open.asking => self.put_aside(&mut open, aside),
                // If the channel is closed, its owner is about to drop this future as well.
                changed = self.wishes.changed() => if changed.is_err() { std::future::pending::<()>().await },
                () = sleep_until(silent_at) => {
                    self.open = Some(open);
                    return Err(Failure::unreachable(format!("no host has sent data for {:.1?}", began.elapsed())));
                }
            }
        }
    }
}

impl Open {
    /// Returns the look of a wave; `None` for a late part of a wave older than the last.
    fn take(&mut self, wave: &StreamWave<bytes::Bytes>) -> Result<Option<Look>, Failure> {
        let mut hosts = None::<Hosts>;
        for packet in &wave.packets {
            let packet = Hosts::decode(packet).map_err(|error| failure_to_look(error.into()))?;
            fold(&mut hosts, packet)?;
        }
        let missing = count(&wave.missing);
        let look = match self.last.take() {
            Some((tag, look)) if wave.tag < tag => {
                self.last = Some((tag, look));
                return Ok(None);
            }
            Some((tag, mut look)) if wave.tag == tag => {
                if let Some(late) = hosts {
                    fold(&mut look.hosts, late)?;
                }
                look.contributed += wave.contributors.len();
                look.missing = without(&look.missing, &wave.contributors);
                look
            }
            _ => Look {
                hosts: hosts.filter(|hosts| hosts.hosts > 0),
                asked: wave.contributors.len() + missing,
                contributed: wave.contributors.len(),
                missing: wave.missing.clone(),
                ..Look::default()
            },
        };
        self.last = Some((wave.tag, look.clone()));
        Ok(Some(look))
    }

    /// Returns the look completed by the results of the requests beside the stream.
    fn finished(&self, look: Look, elapsed: Duration) -> Look {
        let Aside { nodes, slowest, focus } = self.aside.clone().unwrap_or_default();
        Look {
            elapsed,
            nodes,
            slowest: slowest.unwrap_or_default(),
            focus: focus.filter(|(id, _)| Some(*id) == self.wishes.focus).map(|(_, hosts)| hosts),
            network: Some(Network::of(&self.stream, self.changes)),
            ..look
        }
    }
}

fn fold(hosts: &mut Option<Hosts>, other: Hosts) -> Result<(), Failure> {
    match hosts {
        Some(hosts) => hosts.merge(other).map_err(|error| Failure::failed(error.to_string())),
        None => {
            *hosts = Some(other);
            Ok(())
        }
    }
}

fn count(missing: &[Missing]) -> usize {
    missing.iter().map(|missing| missing.partitions.len()).sum()
}

/// Returns the losses that remain after `came` have come.
fn without(missing: &[Missing], came: &PartitionSet) -> Vec<Missing> {
    let rest =
        missing.iter().map(|loss| Missing { partitions: loss.partitions.difference(came), ..loss.clone() });
    rest.filter(|loss| !loss.partitions.is_empty()).collect()
}

/// Calls all hosts and returns the slowest subtrees of the call's tree.
async fn times(client: &Client, deadline: Duration) -> Option<Vec<Subtree>> {
    let call = client.call::<Hosts>(KIND, &Some(Ask { top: 1 }));
    let reply = call.deadline(deadline).min_coverage(0.0).explain(true).await.ok()?;
    Some(slowest(reply.explain()?))
}

/// Calls one host and returns its complete sample.
async fn alone(client: &Client, deadline: Duration, id: u32) -> Option<(u32, Hosts)> {
    let call = client.call::<Hosts>(KIND, &Some(Ask { top: TOP_MAX }));
    let only = [id].into_iter().collect();
    let reply = call.deadline(deadline).min_coverage(0.0).partitions(only).await.ok()?;
    reply.value.map(|hosts| (id, hosts))
}

/// Converts the error of an opening.
///
/// If a filter is unknown, the node is too old, so this is not a usage error.
fn failure_of_opening(error: Error) -> Failure {
    match error {
        Error::Stream(refused @ StreamError::Filter { .. }) => Failure::failed(refused.to_string()),
        error => failure_to_look(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::Reason;

    #[test]
    fn late_hosts_are_removed_from_missing() {
        let lost = |ids: &[u32]| Missing {
            partitions: ids.iter().copied().collect(),
            node: None,
            reason: Reason::Late,
        };
        let came: PartitionSet = [2].into_iter().collect();
        let rest = without(&[lost(&[1, 2]), lost(&[2])], &came);
        assert_eq!(rest, [lost(&[1])]);
        assert_eq!(count(&rest), 1);
    }
}
