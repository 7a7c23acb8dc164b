//! Events from a NATS subject.

use crate::broker::Broker;
use crate::recorder::{Recorder, feeder, line, until};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use treefold_mirror::Name;
use treefold_sources::nats::{NatsOptions, NatsSource, Server};
use treefold_sources::{Key, SourceLimits};

#[tokio::test]
async fn payloads_are_events_or_opaque_bodies_with_the_subject_as_key() {
    let Some(broker) = Broker::start().await else { return };
    let client = Server { url: broker.url(), credentials: None }.connect().await.unwrap();

    let (feeder_of_events, stopper) = feeder(SourceLimits::DEFAULT);
    let intake = Arc::clone(&feeder_of_events.intake);
    let tally = Arc::clone(&feeder_of_events.tally);
    let source = NatsSource::subscribe(&client, "flights.>", NatsOptions::default()).await.unwrap();
    let running = tokio::spawn(source.run(feeder_of_events));
    for payload in [line("faa", 1), "garbage".to_owned(), line("faa", 2)] {
        client.publish("flights.faa", payload.into()).await.unwrap();
    }
    until("all messages are read", || tally.counts().offered == 3).await;
    assert_eq!((intake.numbers("faa"), tally.counts().refused), (vec![1, 2], 1));
    stopper.stop();
    running.await.unwrap().unwrap();

    let (mut opaque, _stopper) = feeder(SourceLimits::DEFAULT);
    opaque.stream = Some(Name::new("raw").unwrap());
    let intake = Arc::clone(&opaque.intake);
    let options = NatsOptions { key: Key::Subject, number_received: true };
    let source = NatsSource::subscribe(&client, "raw.*", options).await.unwrap();
    tokio::spawn(source.run(opaque));
    for subject in ["raw.a", "raw.b"] {
        client.publish(subject, vec![0xff, 0].into()).await.unwrap();
    }
    until("both are taken", || intake.events().len() == 2).await;
    let event = intake.events().pop().unwrap();
    assert_eq!((event.key.as_ref() as &str, event.number, &event.body[..]), ("raw.b", 2, &[0xff, 0][..]));
}

#[tokio::test]
async fn event_behind_a_lost_one_ends_the_source_with_an_error() {
    let Some(broker) = Broker::start().await else { return };
    let client = Server { url: broker.url(), credentials: None }.connect().await.unwrap();
    let (feeder, _stopper) = feeder(SourceLimits::DEFAULT);
    let intake = Arc::clone(&feeder.intake);
    let source = NatsSource::subscribe(&client, "flights", NatsOptions::default()).await.unwrap();
    let running = tokio::spawn(source.run(feeder));
    for number in [1, 2, 4] {
        client.publish("flights", line("faa", number).into()).await.unwrap();
    }
    let error = running.await.unwrap().unwrap_err().to_string();
    assert_eq!(error, "flights: event 4 of stream `faa` leaves a gap; expected 3");
    assert_eq!(intake.numbers("faa"), [1, 2]);
}

/// A payload without a number.
fn unnumbered(stream: &str, at: u64) -> String {
    format!(r#"{{"stream":"{stream}","key":"DL{at}","type":"position","fields":{{"at":{at}}}}}"#)
}

#[tokio::test]
async fn messages_are_numbered_for_each_stream_and_a_refused_one_takes_no_number() {
    let Some(broker) = Broker::start().await else { return };
    let client = Server { url: broker.url(), credentials: None }.connect().await.unwrap();
    let start = async |intake: &Arc<Recorder>| {
        let (mut feeder, stopper) = feeder(SourceLimits::DEFAULT);
        feeder.intake = Arc::clone(intake);
        let options = NatsOptions { number_received: true, ..NatsOptions::default() };
        let source = NatsSource::subscribe(&client, "flights", options).await.unwrap();
        (Arc::clone(&feeder.tally), stopper, tokio::spawn(source.run(feeder)))
    };
    let intake = Arc::clone(&feeder(SourceLimits::DEFAULT).0.intake);
    let (tally, stopper, running) = start(&intake).await;
    let long = "k".repeat(2_000);
    let refused = unnumbered("faa", 0).replace("DL0", &long);
    for payload in [unnumbered("faa", 1), unnumbered("sas", 1), refused, unnumbered("faa", 2)] {
        client.publish("flights", payload.into()).await.unwrap();
    }
    until("all messages are read", || tally.counts().offered == 4).await;
    assert_eq!((intake.numbers("faa"), intake.numbers("sas")), (vec![1, 2], vec![1]));
    stopper.stop();
    running.await.unwrap().unwrap();
    // Another source goes on behind the origin's last event: nothing of its first messages is taken for a repetition.
    let (tally, _stopper, _running) = start(&intake).await;
    for at in 3..=6 {
        client.publish("flights", unnumbered("faa", at).into()).await.unwrap();
    }
    until("all messages are read", || tally.counts().offered == 4).await;
    assert_eq!(intake.numbers("faa"), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn messages_for_a_busy_origin_are_bounded_by_their_bytes() {
    const SENT: usize = 100;
    let Some(broker) = Broker::start().await else { return };
    let client = Server { url: broker.url(), credentials: None }.connect().await.unwrap();
    let (mut feeder, _stopper) = feeder(SourceLimits::DEFAULT);
    feeder.stream = Some(Name::new("raw").unwrap());
    let (intake, tally) = (Arc::clone(&feeder.intake), Arc::clone(&feeder.tally));
    intake.is_busy.store(true, Ordering::Relaxed);
    let options = NatsOptions { key: Key::Subject, number_received: true };
    let source = NatsSource::subscribe(&client, "raw", options).await.unwrap();
    tokio::spawn(source.run(feeder));
    let publisher = async_nats::connect(broker.url()).await.unwrap();
    for _ in 0..SENT {
        publisher.publish("raw", vec![7; 1_000_000].into()).await.unwrap();
    }
    publisher.flush().await.unwrap();
    // The server sends this one behind the others.
    client.flush().await.unwrap();
    intake.is_busy.store(false, Ordering::Relaxed);
    // The origin is free again, so this one is taken.
    let mut looks = 0;
    while intake.events().last().is_none_or(|event| event.body != "last") {
        looks += 1;
        assert!(looks < 500, "{} events are taken", tally.counts().offered);
        publisher.publish("raw", "last".into()).await.unwrap();
        publisher.flush().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let taken = intake.events().iter().filter(|event| event.body.len() == 1_000_000).count();
    assert!((10..50).contains(&taken), "{taken} of {SENT} messages waited");
}

#[tokio::test]
async fn subscription_goes_on_when_the_server_was_killed() {
    let Some(mut broker) = Broker::start().await else { return };
    let client = Server { url: broker.url(), credentials: None }.connect().await.unwrap();
    let (feeder, _stopper) = feeder(SourceLimits::DEFAULT);
    let intake = Arc::clone(&feeder.intake);
    let source = NatsSource::subscribe(&client, "flights", NatsOptions::default()).await.unwrap();
    tokio::spawn(source.run(feeder));
    client.publish("flights", line("faa", 1).into()).await.unwrap();
    until("the event is taken", || intake.numbers("faa") == [1]).await;
    broker.restart().await;
    // NATS loses messages meanwhile, so the publisher repeats its event.
    let mut looks = 0;
    while intake.numbers("faa") != [1, 2] {
        looks += 1;
        assert!(looks < 500, "the source does not return");
        let publisher = async_nats::connect(broker.url()).await.unwrap();
        publisher.publish("flights", line("faa", 2).into()).await.unwrap();
        publisher.flush().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
