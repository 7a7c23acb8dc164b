//! The durable consumer of a feed, and its successors.

use super::JetStreamOptions;
use crate::nats::NatsError;
use async_nats::Client;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, Info, pull};
use async_nats::jetstream::stream::{RetentionPolicy, Stream};
use async_nats::jetstream::{self, consumer::PullConsumer};
use futures_util::TryStreamExt;
use std::time::Duration;

/// Messages that JetStream may deliver above the limit of the source, which are on their way when the source stops.
const ON_THEIR_WAY: usize = 8 * PULL_MESSAGES_MAX;
/// Messages that a pull asks for.
const PULL_MESSAGES_MAX: usize = 512;
/// Bytes that a pull asks for, at least.
const PULL_BYTES_MAX: usize = 32 << 20;
/// Time after which JetStream delivers a message again. Sources start a consumer of their own when they lose one, so
/// it only has to exceed the time that an origin needs. A rule may hold an event back for long; if a message comes again,
/// the origin recognises it.
const DELIVER_AGAIN_AFTER: Duration = Duration::from_secs(6 * 3600);
/// Time between two signs of life of a consumer without messages.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Time of one pull.
const PULL_WITHIN: Duration = Duration::from_secs(10);
/// Earlier consumers of a feed that are looked for. There is one, and a second one after a crash.
const CONSUMERS_MAX: usize = 10_000;

/// A feed's place in a stream.
pub(super) struct Place {
    pub(super) stream: String,
    context: jetstream::Context,
    /// Consumers of the feed begin with it.
    prefix: String,
    /// The last message of which is known that it is acknowledged.
    floor: u64,
    from_start: bool,
    pull_bytes_max: usize,
    /// The stream forgets acknowledged messages. It admits one consumer, which begins at the stream's start.
    pub(super) is_queue: bool,
}

impl Place {
    pub(super) async fn find(
        client: &Client,
        stream: &str,
        options: &JetStreamOptions,
    ) -> Result<Self, NatsError> {
        let context = jetstream::new(client.clone());
        let fail = |problem: String| NatsError::Request { subject: stream.to_owned(), problem };
        let found = context.get_stream(stream).await.map_err(|error| fail(error.to_string()))?;
        let is_queue = found.cached_info().config.retention == RetentionPolicy::WorkQueue;
        Ok(Self {
            stream: stream.to_owned(),
            context,
            prefix: prefix(&options.feed),
            floor: 0,
            from_start: options.from_start,
            pull_bytes_max: PULL_BYTES_MAX.max(2 * client.server_info().max_payload),
            is_queue,
        })
    }

    /// Notes that messages up to this one are acknowledged.
    pub(super) fn note_floor(&mut self, floor: Option<u64>) {
        self.floor = self.floor.max(floor.unwrap_or(0));
    }

    /// Makes a new consumer behind the last acknowledged message, and deletes the earlier ones.
    pub(super) async fn consume(&mut self, unacknowledged_max: usize) -> Result<pull::Stream, String> {
        let stream = self.context.get_stream(&self.stream).await.map_err(|error| error.to_string())?;
        let earlier = self.earlier(&stream).await?;
        // A consumer begins behind the floor of the one before, which may still be there.
        let newest = earlier.iter().max_by_key(|info| self.generation(&info.name));
        let generation = newest.and_then(|info| self.generation(&info.name)).unwrap_or(0);
        if !self.from_start {
            self.note_floor(newest.map(floor_of));
        }
        let state = &stream.cached_info().state;
        if self.floor > 0 && state.messages > 0 && state.first_sequence > self.floor + 1 {
            let (lost, first) = (self.floor + 1, state.first_sequence);
            tracing::warn!(stream = %self.stream, lost, first, "messages were deleted before they were read");
        }
        if self.is_queue {
            delete(&stream, &earlier).await;
        }
        let deliver_policy = match self.floor {
            floor if floor > 0 && !self.is_queue => {
                DeliverPolicy::ByStartSequence { start_sequence: floor + 1 }
            }
            _ => DeliverPolicy::All,
        };
        let name = format!("{}{}", self.prefix, generation + 1);
        let config = pull::Config {
            durable_name: Some(name),
            deliver_policy,
            ack_policy: if self.is_queue { AckPolicy::Explicit } else { AckPolicy::All },
            ack_wait: DELIVER_AGAIN_AFTER,
            max_ack_pending: (unacknowledged_max + ON_THEIR_WAY) as i64,
            ..pull::Config::default()
        };
        let consumer: PullConsumer =
            stream.create_consumer(config).await.map_err(|error| error.to_string())?;
        // From now on, the newest consumer knows where to begin.
        self.from_start = false;
        if !self.is_queue {
            delete(&stream, &earlier).await;
        }
        let messages = consumer
            .stream()
            .max_messages_per_batch(PULL_MESSAGES_MAX)
            .max_bytes_per_batch(self.pull_bytes_max)
            .expires(PULL_WITHIN)
            .heartbeat(HEARTBEAT);
        messages.messages().await.map_err(|error| error.to_string())
    }

    /// The earlier consumers of the feed.
    async fn earlier(&self, stream: &Stream) -> Result<Vec<Info>, String> {
        let mut infos = stream.consumers();
        let mut earlier = Vec::new();
        let mut looks = 0;
        while let Some(info) = infos.try_next().await.map_err(|error| error.to_string())? {
            looks += 1;
            if looks > CONSUMERS_MAX {
                return Err(format!("the stream has more than {CONSUMERS_MAX} consumers"));
            }
            if self.generation(&info.name).is_some() {
                earlier.push(info);
            }
        }
        Ok(earlier)
    }

    fn generation(&self, name: &str) -> Option<u64> {
        name.strip_prefix(&self.prefix)?.parse().ok()
    }
}

/// The first part of the names of a feed's consumers. They lack some of the characters that a feed's name has; each of
/// these is written as its code, so that two feeds never share a consumer.
fn prefix(feed: &str) -> String {
    let mut prefix = "treefold-".to_owned();
    for byte in feed.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' => prefix.push(char::from(byte)),
            other => prefix.push_str(&format!("={other:02X}")),
        }
    }
    prefix + "-"
}

/// The last message that a consumer has seen acknowledged, or behind which it begins.
fn floor_of(info: &Info) -> u64 {
    let begins_behind = match info.config.deliver_policy {
        DeliverPolicy::ByStartSequence { start_sequence } => start_sequence.saturating_sub(1),
        _ => 0,
    };
    info.ack_floor.stream_sequence.max(begins_behind)
}

async fn delete(stream: &Stream, consumers: &[Info]) {
    for info in consumers {
        if let Err(error) = stream.delete_consumer(&info.name).await {
            tracing::warn!(consumer = info.name, %error, "an earlier consumer can't be deleted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feeds_never_share_a_consumer() {
        assert_eq!(prefix("flights"), "treefold-flights-");
        let mut names: Vec<String> =
            ["eu.flights", "eu_flights", "eu-flights", "eu", "eu-1", "eu=2D1"].map(prefix).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 6);
        // The consumer of one feed must not look like a later consumer of another one.
        let later = |name: &String, other: &String| {
            name != other
                && name.strip_prefix(other).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        assert!(!names.iter().any(|name| names.iter().any(|other| later(name, other))), "{names:?}");
    }
}
