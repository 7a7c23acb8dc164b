//! Events from a JetStream stream: acknowledgement after the origin's, and sources that return.

use crate::broker::Broker;
use crate::recorder::{Recorder, feeder, line, until};
use async_nats::jetstream::{self, stream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::task::JoinHandle;
use treefold_mirror::Name;
use treefold_sources::jetstream::{JetStreamOptions, JetStreamSource};
use treefold_sources::nats::{NatsError, Server};
use treefold_sources::{Feeder, Key, SourceLimits, Stopper};

async fn context(broker: &Broker, config: stream::Config) -> jetstream::Context {
    let client = async_nats::connect(broker.url()).await.unwrap();
    let context = jetstream::new(client);
    let config =
        stream::Config { name: "FLIGHTS".to_owned(), subjects: vec!["flights.>".to_owned()], ..config };
    // The server listens before JetStream is ready.
    let mut looks = 0;
    while let Err(error) = context.create_stream(config.clone()).await {
        looks += 1;
        assert!(looks < 500, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    context
}

/// Publishes without waiting for each message.
async fn publish_many(context: &jetstream::Context, payloads: impl IntoIterator<Item = String>) {
    let mut sent = Vec::new();
    for payload in payloads {
        sent.push(context.publish("flights.faa", payload.into()).await.unwrap());
        if sent.len() == 1_000 {
            for one in sent.drain(..) {
                one.await.unwrap();
            }
        }
    }
    for one in sent {
        one.await.unwrap();
    }
}

async fn publish(context: &jetstream::Context, payloads: impl IntoIterator<Item = String>) {
    for payload in payloads {
        context.publish("flights.faa", payload.into()).await.unwrap().await.unwrap();
    }
}

/// A line with an event that has no number.
fn unnumbered(at: u64) -> String {
    format!(r#"{{"key":"DL{}","type":"position","fields":{{"at":{at}}}}}"#, at % 100)
}

struct Started {
    intake: Arc<Recorder>,
    stopper: Stopper,
    running: JoinHandle<Result<(), NatsError>>,
    feeder: Feeder<Recorder>,
}

async fn start(broker: &Broker, is_prompt: bool, options: JetStreamOptions) -> Started {
    start_with(broker, is_prompt, options, SourceLimits::DEFAULT).await
}

async fn start_with(
    broker: &Broker,
    is_prompt: bool,
    options: JetStreamOptions,
    limits: SourceLimits,
) -> Started {
    let (mut feeder, stopper) = feeder(limits);
    feeder.stream = Some(Name::new("FLIGHTS").unwrap());
    let intake = Arc::clone(&feeder.intake);
    intake.is_prompt.store(is_prompt, Ordering::Relaxed);
    let options = JetStreamOptions { feed: "flights".to_owned(), ..options };
    let server = Server { url: broker.url(), credentials: None };
    let source = JetStreamSource::open(&server, "FLIGHTS", options).await.unwrap();
    let running = tokio::spawn(source.run(feeder.clone()));
    Started { intake, stopper, running, feeder }
}

/// The last message of which the feed's consumers say that it is acknowledged.
async fn floor(context: &jetstream::Context) -> u64 {
    use futures_util::TryStreamExt;
    let stream = context.get_stream("FLIGHTS").await.unwrap();
    let infos: Vec<_> = stream.consumers().try_collect().await.unwrap();
    infos.iter().map(|info| info.ack_floor.stream_sequence).max().unwrap_or(0)
}

async fn until_floor(context: &jetstream::Context, expected: u64) {
    let mut looks = 0;
    while floor(context).await != expected {
        looks += 1;
        assert!(looks < 1_000, "{} instead of {expected} messages are acknowledged", floor(context).await);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn returned_source_goes_on_behind_the_last_acknowledged_message() {
    let Some(broker) = Broker::start().await else { return };
    let context = context(&broker, stream::Config::default()).await;
    publish(&context, (1..=10).map(unnumbered)).await;
    let first = start(&broker, false, JetStreamOptions::default()).await;
    until("the first source has all", || first.intake.numbers("FLIGHTS") == (1..=10).collect::<Vec<_>>())
        .await;
    assert_eq!(floor(&context).await, 0, "nothing is acknowledged before the origin says so");
    first.intake.acknowledge(&[("FLIGHTS", 6)]);
    until_floor(&context, 6).await;
    // Its process is killed.
    first.running.abort();
    publish(&context, (11..=20).map(unnumbered)).await;
    let second = start(&broker, true, JetStreamOptions::default()).await;
    until("the second one goes on", || second.intake.numbers("FLIGHTS") == (7..=20).collect::<Vec<_>>())
        .await;
    until_floor(&context, 20).await;
    // Orderly end: it waits for its acknowledgements, and the next one has nothing to repeat.
    second.intake.is_prompt.store(false, Ordering::Relaxed);
    publish(&context, [unnumbered(21)]).await;
    until("it has the last one", || second.intake.numbers("FLIGHTS").last() == Some(&21)).await;
    second.stopper.stop();
    second.intake.acknowledge(&[("FLIGHTS", 21)]);
    second.running.await.unwrap().unwrap();
    until_floor(&context, 21).await;
    publish(&context, [unnumbered(22)]).await;
    let third = start(&broker, true, JetStreamOptions::default()).await;
    until("only the new one comes", || third.intake.numbers("FLIGHTS") == [22]).await;
    let fourth =
        start(&broker, true, JetStreamOptions { from_start: true, ..JetStreamOptions::default() }).await;
    until("all come from the start", || fourth.intake.numbers("FLIGHTS").len() == 22).await;
}

#[tokio::test]
async fn deleted_messages_are_no_gap_and_messages_that_are_no_events_hold_nothing_up() {
    let Some(broker) = Broker::start().await else { return };
    let context = context(&broker, stream::Config::default()).await;
    publish(&context, (1..=5).map(unnumbered).chain(["garbage".to_owned()]).chain([unnumbered(7)])).await;
    context.get_stream("FLIGHTS").await.unwrap().delete_message(3).await.unwrap();
    let started = start(&broker, true, JetStreamOptions::default()).await;
    until("the others are taken", || started.intake.numbers("FLIGHTS") == [1, 2, 4, 5, 7]).await;
    until_floor(&context, 7).await;
    assert_eq!(started.feeder.tally.counts().refused, 1);
}

#[tokio::test]
async fn gap_in_the_numbers_of_payloads_ends_the_source_and_keeps_the_message() {
    let Some(broker) = Broker::start().await else { return };
    let context = context(&broker, stream::Config::default()).await;
    publish(&context, [line("faa", 1), line("faa", 2), line("faa", 4)]).await;
    let started = start(&broker, true, JetStreamOptions::default()).await;
    let error = started.running.await.unwrap().unwrap_err().to_string();
    assert_eq!(error, "FLIGHTS: event 4 of stream `faa` leaves a gap; expected 3");
    assert!(floor(&context).await < 3);
}

#[tokio::test]
async fn queue_and_opaque_payloads() {
    let Some(broker) = Broker::start().await else { return };
    let retention = stream::RetentionPolicy::WorkQueue;
    let context = context(&broker, stream::Config { retention, ..stream::Config::default() }).await;
    publish(&context, (1..=5).map(unnumbered)).await;
    let options = || JetStreamOptions { key: Key::Subject, ..JetStreamOptions::default() };
    let first = start(&broker, false, options()).await;
    until("all are taken", || first.intake.numbers("FLIGHTS") == [1, 2, 3, 4, 5]).await;
    let event = first.intake.events().pop().unwrap();
    assert_eq!((event.key.as_ref() as &str, event.kind.as_str()), ("flights.faa", "message"));
    assert_eq!(event.body, unnumbered(5));
    first.intake.acknowledge(&[("FLIGHTS", 3)]);
    let mut left = 5;
    for _ in 0..1_000 {
        left = context.get_stream("FLIGHTS").await.unwrap().cached_info().state.messages;
        if left == 2 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(left, 2, "the queue forgets acknowledged messages");
    first.running.abort();
    let second = start(&broker, true, options()).await;
    until("the others come again", || second.intake.numbers("FLIGHTS") == [4, 5]).await;
}

#[tokio::test]
async fn source_goes_on_when_the_server_was_killed() {
    let Some(mut broker) = Broker::start().await else { return };
    let before = context(&broker, stream::Config::default()).await;
    publish(&before, (1..=100).map(unnumbered)).await;
    let started = start(&broker, true, JetStreamOptions::default()).await;
    until("the first events are taken", || started.intake.numbers("FLIGHTS").len() == 100).await;
    broker.restart().await;
    let after = context(&broker, stream::Config::default()).await;
    publish(&after, (101..=200).map(unnumbered)).await;
    until("all are taken once", || started.intake.numbers("FLIGHTS").len() >= 200).await;
    assert_eq!(started.intake.numbers("FLIGHTS"), (1..=200).collect::<Vec<_>>());
}

#[tokio::test]
async fn event_that_is_held_back_lets_many_others_pass() {
    const MESSAGES: u64 = 40_000;
    let Some(broker) = Broker::start().await else { return };
    let context = context(&broker, stream::Config::default()).await;
    publish_many(&context, (1..=MESSAGES).map(unnumbered)).await;
    // A rule holds the first event back, so none is acknowledged.
    let started = start(&broker, false, JetStreamOptions::default()).await;
    let intake = &started.intake;
    until("all events are taken", || intake.numbers("FLIGHTS").len() as u64 == MESSAGES).await;
    assert_eq!(floor(&context).await, 0);
    intake.acknowledge(&[("FLIGHTS", MESSAGES)]);
    until_floor(&context, MESSAGES).await;
    assert_eq!(intake.numbers("FLIGHTS"), (1..=MESSAGES).collect::<Vec<_>>());
}

#[tokio::test]
async fn source_waits_at_its_limit_and_then_goes_on_without_a_gap() {
    let Some(broker) = Broker::start().await else { return };
    let context = context(&broker, stream::Config::default()).await;
    publish_many(&context, (1..=5_000).map(unnumbered)).await;
    let limits = SourceLimits { unacknowledged_max: 1_000, ..SourceLimits::DEFAULT };
    let started = start_with(&broker, false, JetStreamOptions::default(), limits).await;
    let intake = &started.intake;
    until("the limit is reached", || intake.numbers("FLIGHTS").len() >= 1_000).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let taken = intake.numbers("FLIGHTS").len();
    assert!(taken < 1_500, "{taken} events were taken");
    // The rule has decided.
    intake.is_prompt.store(true, Ordering::Relaxed);
    intake.acknowledge(&[("FLIGHTS", taken as u64)]);
    until("all events are taken", || intake.numbers("FLIGHTS").len() == 5_000).await;
    assert_eq!(intake.numbers("FLIGHTS"), (1..=5_000).collect::<Vec<_>>());
    until_floor(&context, 5_000).await;
}

#[tokio::test]
async fn source_stops_although_the_server_is_away() {
    let Some(broker) = Broker::start().await else { return };
    let context = context(&broker, stream::Config::default()).await;
    publish(&context, (1..=5).map(unnumbered)).await;
    let started = start(&broker, false, JetStreamOptions::default()).await;
    until("all are taken", || started.intake.numbers("FLIGHTS").len() == 5).await;
    drop(broker);
    started.stopper.stop();
    // Its times for acknowledgements and answers are 30 s each.
    tokio::time::timeout(std::time::Duration::from_secs(20), started.running)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn feeds_with_like_names_have_consumers_of_their_own() {
    let Some(broker) = Broker::start().await else { return };
    let context = context(&broker, stream::Config::default()).await;
    publish(&context, (1..=5).map(unnumbered)).await;
    let mut started = Vec::new();
    for feed in ["eu.flights", "eu_flights"] {
        let (mut feeder, stopper) = feeder(SourceLimits::DEFAULT);
        feeder.stream = Some(Name::new("FLIGHTS").unwrap());
        let intake = Arc::clone(&feeder.intake);
        let options = JetStreamOptions { feed: feed.to_owned(), ..JetStreamOptions::default() };
        let server = Server { url: broker.url(), credentials: None };
        let source = JetStreamSource::open(&server, "FLIGHTS", options).await.unwrap();
        started.push((intake, stopper, tokio::spawn(source.run(feeder))));
    }
    for (intake, _, _) in &started {
        until("each feed gets all messages", || intake.numbers("FLIGHTS") == [1, 2, 3, 4, 5]).await;
    }
}

#[tokio::test]
async fn source_from_the_start_begins_there_also_if_its_first_attempt_fails() {
    let Some(broker) = Broker::start().await else { return };
    let context = context(&broker, stream::Config { max_consumers: 1, ..stream::Config::default() }).await;
    publish(&context, (1..=5).map(unnumbered)).await;
    let first = start(&broker, true, JetStreamOptions::default()).await;
    until_floor(&context, 5).await;
    first.running.abort();
    // The stream admits no second consumer, so the attempts fail until the first consumer is gone.
    let options = JetStreamOptions { from_start: true, ..JetStreamOptions::default() };
    let second = start(&broker, false, options).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let stream = context.get_stream("FLIGHTS").await.unwrap();
    stream.delete_consumer("treefold-flights-1").await.unwrap();
    until("all come again", || second.intake.numbers("FLIGHTS").len() == 5).await;
}
