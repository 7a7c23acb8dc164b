//! Looks by a stream: hosts tell, and nobody asks.
//!
//! Every host sends its measure at the interval that is wished for; waves are folded by the filter `hosts` and are due
//! when all are in them, or when the deadline has passed since the first was. So a host that is silent holds nobody up:
//! it is missing from a look, with the reason, and in the next one when it is back.
//!
//! What a stream does not tell is asked beside it, at its own pace, so that no look waits for it: the nodes in sight,
//! a host by itself, and now and then the times of a call's tree.
//!
//! A stream lives as long as somebody waits for its next look: [`Source::next`] keeps it out of the source while it
//! waits, so that dropping its future (a pause, an end) drops the stream. Another interval is another stream.

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
use treefold_hosts::watch::SETTLE;
use treefold_hosts::{Ask, Hosts, Pace, SERVICE, TOP_MAX};

/// The filter's full name.
const FILTER: &str = "hosts/hosts";
/// How often the times of a call's tree are asked for: that is a measure of every host more.
const EXPLAIN_EVERY: Duration = Duration::from_secs(10);
/// What is asked beside the stream is asked no more often.
const ASIDE_EVERY_MIN: Duration = Duration::from_secs(1);

/// A stream's tree, as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Network {
    /// Levels below the front-end.
    pub(crate) levels: usize,
    /// Nodes below it.
    pub(crate) nodes: usize,
    /// Endpoints that take part.
    pub(crate) endpoints: usize,
    /// Those that do not, and why.
    pub(crate) away: Vec<Missing>,
    /// How often the tree has changed.
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

/// Looks by a stream.
pub(crate) struct StreamSource {
    /// The node that was asked, for what is asked beside the stream.
    front: Client,
    /// The stream's front-end.
    direct: Client,
    deadline: Duration,
    wishes: watch::Receiver<Wishes>,
    open: Option<Open>,
    /// When the last stream was opened: one that fails at once is not opened again at once.
    opened_at: Option<Instant>,
    pub(super) has_looked: bool,
}

/// A stream, and what was asked beside it.
struct Open {
    stream: Stream,
    wishes: Wishes,
    changes: u64,
    /// The last look, and its wave's tag: a late part of it is folded into it.
    last: Option<(u64, Look)>,
    asking: Asking,
    /// `None` until the first answer.
    aside: Option<Aside>,
    explained_at: Option<Instant>,
}

/// What was asked beside a stream.
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
            .synchronisation(Synchronisation::TimeOut(self.deadline.into()))
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

    /// After this long without a word from anybody something is wrong.
    fn silence(&self, wishes: Wishes) -> Duration {
        wishes.interval + self.deadline + SETTLE + ASIDE_EVERY_MIN
    }

    /// Asks, at that time.
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

    /// Takes in what was asked, and asks again.
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

    /// Follows what is wished now: another pace is another stream, another host is another question.
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

    /// A stream's first look says all that can be known, even if that takes a moment longer.
    async fn complete(&mut self, open: &mut Open) {
        if open.aside.is_none()
            && let Ok(aside) = timeout(self.deadline + SETTLE, open.asking.as_mut()).await
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
                // Who wished is gone with us.
                changed = self.wishes.changed() => if changed.is_err() { std::future::pending::<()>().await },
                () = sleep_until(silent_at) => {
                    self.open = Some(open);
                    return Err(Failure::unreachable(format!("no host has said anything for {:.1?}", began.elapsed())));
                }
            }
        }
    }
}

impl Open {
    /// The look that a wave gives; `None` for a late part of one that has gone by.
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

    /// The look with what was asked beside the stream.
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

/// Those who are missing still.
fn without(missing: &[Missing], came: &PartitionSet) -> Vec<Missing> {
    let rest =
        missing.iter().map(|loss| Missing { partitions: loss.partitions.difference(came), ..loss.clone() });
    rest.filter(|loss| !loss.partitions.is_empty()).collect()
}

/// The slowest subtrees of a call over all hosts, as it was just now.
async fn times(client: &Client, deadline: Duration) -> Option<Vec<Subtree>> {
    let call = client.call::<Hosts>(KIND, &Some(Ask { top: 1 }));
    let reply = call.deadline(deadline).min_coverage(0.0).explain(true).await.ok()?;
    Some(slowest(reply.explain()?))
}

/// All that one host can say.
async fn alone(client: &Client, deadline: Duration, id: u32) -> Option<(u32, Hosts)> {
    let call = client.call::<Hosts>(KIND, &Some(Ask { top: TOP_MAX }));
    let only = [id].into_iter().collect();
    let reply = call.deadline(deadline).min_coverage(0.0).partitions(only).await.ok()?;
    reply.value.map(|hosts| (id, hosts))
}

/// Why there is no stream. A filter that is not there is the node's age, and no mistake of who asks.
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
    fn who_came_late_is_missing_no_longer() {
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
