//! A reader's stream to one mirror, and the choice of the mirror.

use super::Reader;
use crate::reading::{MirrorStatus, STATUS};
use crate::{FeedParams, ReaderParams, random_seed};
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use treefold::{Client, PartitionSet, Stream, StreamEvent, Synchronisation};
use treefold_core::error::{Missing, Reason};
use treefold_mirror::Cut;
use treefold_mirror::event::Name;
use treefold_mirror::message::Message;

/// Time that the mirrors have to tell their state.
const STATUS_WITHIN: Duration = Duration::from_secs(1);
/// Time that opening a stream may take.
const OPEN_WITHIN: Duration = Duration::from_secs(5);
/// Time without any sign of a mirror after which a reader leaves it. Mirrors give a sign every five seconds.
const SILENCE_MAX: Duration = Duration::from_secs(16);
/// Time in which a mirror that its node's neighbours have not heard may return.
const LATE_MAX: Duration = Duration::from_secs(3);

/// A stream to a mirror.
#[derive(Debug)]
pub(super) struct Link {
    stream: Stream,
    mirror: u32,
    packets: VecDeque<(u64, Bytes)>,
    heard_at: Instant,
    /// Since when the stream has not heard the mirror's node. It says so again with every vain attempt to bring it back.
    late_since: Option<Instant>,
}

impl Link {
    /// Opens a reader's stream to a mirror.
    pub(super) async fn open(reader: &Reader, mirror: u32, from: Option<Cut>) -> Result<Self, String> {
        let params = ReaderParams { filter: reader.filter.clone(), from };
        let opening = reader
            .client
            .stream(&reader.feed)
            .endpoints(PartitionSet::from_iter([mirror]))
            .synchronisation(Synchronisation::DoNotWait)
            .window_bytes(reader.window_bytes)
            .params(&FeedParams::Reader(params))
            .open();
        let opened = timeout(OPEN_WITHIN, opening).await;
        let stream = match opened {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("mirror {mirror} did not answer within {OPEN_WITHIN:?}")),
        };
        if !stream.endpoints().contains(mirror) {
            return Err(left(mirror, stream.missing()));
        }
        Ok(Self { stream, mirror, packets: VecDeque::new(), heard_at: Instant::now(), late_since: None })
    }

    pub(super) fn mirror(&self) -> u32 {
        self.mirror
    }

    /// Waits for the next message. An error is the reason why the mirror is lost. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Message, String> {
        loop {
            if let Some((tag, payload)) = self.packets.pop_front() {
                return Message::read(tag, payload).map_err(|error| error.to_string());
            }
            let (silent_since, patience) = match self.late_since {
                Some(since) => (since, LATE_MAX),
                None => (self.heard_at, SILENCE_MAX),
            };
            let Ok(event) = timeout_at(silent_since + patience, self.stream.next()).await else {
                return Err(format!("mirror {} has given no sign for {patience:?}", self.mirror));
            };
            match event {
                Ok(StreamEvent::Wave(wave)) => {
                    (self.heard_at, self.late_since) = (Instant::now(), None);
                    self.packets.extend(wave.packets.into_iter().map(|packet| (wave.tag, packet)));
                }
                Ok(StreamEvent::Changed { endpoints, away, .. }) => {
                    let is_there = endpoints.contains(self.mirror);
                    let is_late = away.iter().any(|missing| missing.reason == Reason::Late);
                    if !is_there && !is_late {
                        return Err(left(self.mirror, &away));
                    }
                    self.late_since = (!is_there).then(|| self.late_since.unwrap_or_else(Instant::now));
                }
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

fn left(mirror: u32, missing: &[Missing]) -> String {
    let reason = missing.iter().find(|missing| missing.partitions.contains(mirror));
    let reason = reason.map_or_else(|| "unknown".to_owned(), |missing| missing.reason.to_string());
    format!("mirror {mirror} has left: {reason}")
}

/// The state of all mirrors of a feed that answer in time.
pub(super) async fn mirrors(client: &Client, feed: &Name) -> Result<Vec<MirrorStatus>, String> {
    let called = client
        .call::<Vec<MirrorStatus>>(&format!("{feed}/{STATUS}"), &())
        .deadline(STATUS_WITHIN)
        .min_coverage(0.0)
        .await;
    match called {
        Ok(reply) => Ok(reply.value.unwrap_or_default()),
        Err(error) => Err(error.to_string()),
    }
}

/// Chooses a mirror.
pub(super) async fn choose(
    client: &Client,
    feed: &Name,
    from: Option<Cut>,
    avoided: &[u32],
) -> Result<u32, String> {
    let mirrors = mirrors(client, feed).await?;
    let candidates = candidates(&mirrors, from, avoided);
    let draw = || candidates.get((random_seed() % candidates.len().max(1) as u64) as usize);
    match (draw(), draw()) {
        (Some(a), Some(b)) => Ok(if a.readers <= b.readers { a.mirror } else { b.mirror }),
        _ if mirrors.is_empty() => Err("no mirror answers".to_owned()),
        _ => Err(format!("none of {} mirrors is current", mirrors.len())),
    }
}

/// The best mirrors: current ones of the latest epoch, if possible not avoided, and not behind the reader.
fn candidates<'a>(mirrors: &'a [MirrorStatus], from: Option<Cut>, avoided: &[u32]) -> Vec<&'a MirrorStatus> {
    let current = || mirrors.iter().filter(|mirror| mirror.is_current);
    let epoch = current().map(|mirror| mirror.epoch).max();
    let mut best: Vec<_> = current().filter(|mirror| Some(mirror.epoch) == epoch).collect();
    let mut prefer = |is_good: &dyn Fn(&MirrorStatus) -> bool| {
        if best.iter().any(|mirror| is_good(mirror)) {
            best.retain(|mirror| is_good(mirror));
        }
    };
    prefer(&|mirror| !avoided.contains(&mirror.mirror));
    prefer(&|mirror| from.is_none_or(|from| Cut { epoch: mirror.epoch, position: mirror.position } >= from));
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(mirror: u32, epoch: u32, position: u64, is_current: bool) -> MirrorStatus {
        let (keys, rules_version, committed, readers, pending_requests) = Default::default();
        MirrorStatus {
            mirror,
            epoch,
            position,
            is_current,
            keys,
            rules_version,
            committed,
            has_state: true,
            promised: 0,
            keeps_promises: false,
            silent_ms: None,
            readers,
            pending_requests,
            http: None,
        }
    }

    #[test]
    fn mirrors_that_are_current_and_not_behind_are_chosen() {
        let mirrors = [
            mirror(0, 2, 90, true),
            mirror(1, 2, 100, true),
            mirror(2, 2, 100, false),
            mirror(3, 1, 500, true),
        ];
        let numbers = |from: Option<u64>, avoided: &[u32]| {
            let from = from.map(|position| Cut { epoch: 2, position });
            candidates(&mirrors, from, avoided).iter().map(|mirror| mirror.mirror).collect::<Vec<_>>()
        };
        assert_eq!(numbers(None, &[]), [0, 1]);
        assert_eq!(numbers(Some(95), &[]), [1]);
        assert_eq!(numbers(None, &[1]), [0]);
        assert_eq!(numbers(None, &[0, 1]), [0, 1], "better than none");
        assert_eq!(numbers(Some(200), &[0]), [1]);
    }
}
